use narrows_units::{Bytes, Duration};
use narrows_users::CircuitId;

use super::*;

fn user(n: u8) -> User {
    User::of([10, 0, 0, n].into(), 128)
}

fn users(capacity: usize, carry: Carry) -> Users<()> {
    Users::new(carry, capacity, Rate::from_kbps(600), Ppm::ONE, 1)
}

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// A user with a packet waiting.
fn waiting(q: &mut Users<()>, user: User, place: Place, credit: i32, deficit: i32) -> u32 {
    let at = q.find_or_make(user, || ((), 0));
    let state = q.at_mut(at);
    (state.turn.credit, state.turn.deficit) = (credit, deficit);
    q.queued(at);
    q.join(at, place);
    at
}

fn serve(q: &mut Users<()>, now: Instant, cost: i32) -> Option<u32> {
    let next = q.next(now, 1000, |_| 1)?;
    q.charge(now, cost);
    Some(next)
}

#[test]
fn sparse_before_new_before_old_and_each_becomes_old_when_its_credit_is_spent() {
    let mut q = users(16, Carry::Forget);
    let old = waiting(&mut q, user(1), Place::Old, 0, 1000);
    let new = waiting(&mut q, user(2), Place::New, 1000, 0);
    let sparse = waiting(&mut q, user(3), Place::Sparse, 400, -300);
    let order: Vec<_> = (0..7).map(|_| serve(&mut q, at(1), 500).unwrap()).collect();
    // The sparse one begins its round 700 in hand, having owed 300; what it overspent is forgotten. Each has two turns'
    // worth in a round, or for 700 and 200 in hand two as well.
    assert_eq!(order, [sparse, new, new, old, old, sparse, sparse]);
    assert_eq!(q.waiting(), 3);
}

#[test]
fn what_is_carried_by_hand() {
    for (carry, deficit) in [(Carry::Forget, 1000), (Carry::Keep, 800)] {
        let mut q = users(16, carry);
        let one = waiting(&mut q, user(1), Place::New, 300, 0);
        assert_eq!(serve(&mut q, at(1), 500), Some(one));
        assert_eq!((q.at(one).turn.credit, q.next(at(1), 1000, |_| 1)), (-200, Some(one)));
        assert_eq!((q.at(one).turn.place(), q.at(one).turn.deficit), (Place::Old, deficit));
    }
}

#[test]
fn the_credit_of_first_flights_by_hand() {
    let mut q = users(16, Carry::Forget);
    let one = waiting(&mut q, user(1), Place::Old, 0, 0);
    let other = waiting(&mut q, user(2), Place::Old, 0, 1000);
    // The user may be 900 ahead, and takes 600 of it; so it goes before the other, and beyond its credit by 400.
    assert!(q.credit_new_flow(one, 600, 900, Place::New));
    assert_eq!((q.at(one).turn.credit, q.at(one).ahead, q.at(one).turn.place()), (600, 600, Place::New));
    assert_eq!(serve(&mut q, at(1), 1000), Some(one));
    let order: Vec<_> = (0..4).map(|_| serve(&mut q, at(1), 1000).unwrap()).collect();
    assert_eq!(order, [other, one, other, one]);
    // Two turns have paid an eighth of a quantum each of the 1000 bytes it was ahead: there is room for a little, and
    // no more.
    assert_eq!((q.at(one).ahead, q.at(one).turn.deficit), (750, -250));
    assert!(q.credit_new_flow(one, 2000, 900, Place::New) && !q.credit_new_flow(one, 1, 900, Place::New));
    assert_eq!((q.at(one).turn.credit, q.at(one).ahead), (150, 900));
    // A debt leaves nothing of a turn; time without a packet does, and a turn that was not used up.
    q.at_mut(one).pay_back_the_rest();
    q.at_mut(one).pay_back(300);
    assert_eq!((q.at(one).ahead, q.at(one).turn.deficit), (600, -250));
    q.at_mut(one).turn.deficit = 700;
    q.at_mut(one).pay_back_the_rest();
    assert_eq!((q.at(one).ahead, q.at(one).turn.deficit), (0, 100));
}

#[test]
fn who_opens_flows_without_end_has_its_share() {
    let mut q = users(16, Carry::Forget);
    let greedy = waiting(&mut q, user(1), Place::Old, 0, 0);
    let other = waiting(&mut q, user(2), Place::Old, 0, 0);
    let mut sent = [0, 0];
    for packet in 0..4000 {
        q.credit_new_flow(greedy, 1250, 3000, Place::New);
        let cost = 200 + packet * 37 % 1000;
        let served = serve(&mut q, at(1), cost).unwrap();
        sent[usize::from(served == other)] += cost;
        // The lead is bounded by 3000 bytes, by a packet beyond that, beyond a turn and beyond the other's share by
        // then, and by a hundredth: a flight begins the next turn early where the debt is more than a turn.
        assert!(sent[0] - sent[1] <= 3000 + 4 * 1200 + sent[1] / 100, "{sent:?} after {packet}");
    }
    assert!(sent[0] > sent[1], "it is ahead: {sent:?}");
}

#[test]
fn one_that_lingers_is_old_once_and_then_gone() {
    let mut q = users(16, Carry::Keep);
    let one = waiting(&mut q, user(1), Place::New, 300, 0);
    q.at_mut(one).unqueued();
    q.linger(one);
    assert_eq!((q.at(one).turn.place(), q.at(one).turn.deficit, q.anybody()), (Place::Old, 300, Some(one)));
    q.linger(one);
    assert_eq!((q.at(one).turn.place(), q.anybody(), q.waiting()), (Place::Idle, None, 0));
}

#[test]
fn the_table_forgets_who_left_first_and_nobody_who_waits() {
    let mut q = users(2, Carry::Forget);
    let (one, two) = (waiting(&mut q, user(1), Place::Old, 0, 7), waiting(&mut q, user(2), Place::Old, 0, 8));
    // Both wait, so there is a third.
    let three = waiting(&mut q, user(3), Place::Old, 0, 9);
    assert_eq!(q.slab.len(), 3);
    // To two seconds.
    for (n, gone) in [(1, two), (2, one), (3, three)] {
        q.next(at(2500 * n), 0, |_| 0);
        q.leave(gone);
    }
    assert_eq!((q.find(user(1)), q.find(user(2))), (Some(one), Some(two)));
    q.find_or_make(user(4), || ((), 0));
    assert_eq!((q.find(user(2)), q.find(user(1)), q.find(user(3))), (None, Some(one), Some(three)));
    assert_eq!(q.at(one).turn.deficit, 7, "who comes back is not new");
}

#[test]
fn who_waits_when_it_would_have_to_go_is_noted_anew() {
    let mut q = users(2, Carry::Forget);
    let one = q.find_or_make(user(1), || ((), 0));
    q.queued(one);
    q.join(one, Place::Old);
    // Two others, each in the other's place.
    q.find_or_make(user(2), || ((), 0));
    q.find_or_make(user(3), || ((), 0));
    assert_eq!((q.find(user(1)), q.find(user(2)), q.slab.len()), (Some(one), None, 2));
    q.leave(one);
    q.find_or_make(user(4), || ((), 0));
    q.find_or_make(user(5), || ((), 0));
    assert_eq!((q.find(user(1)), q.find(user(3)), q.slab.len()), (None, None, 2));
}

#[test]
fn the_fullest_is_followed() {
    let mut q = users(16, Carry::Forget);
    assert_eq!(q.fullest(), None);
    let one = waiting(&mut q, user(1), Place::Old, 0, 0);
    let two = waiting(&mut q, user(2), Place::Old, 0, 0);
    assert_eq!(q.fullest(), Some(one));
    q.queued(two);
    assert_eq!((q.fullest(), q.is_empty(two)), (Some(two), false));
    (0..2).for_each(|_| q.at_mut(two).unqueued());
    assert_eq!(q.fullest(), None, "known again when somebody's next packet comes");
    q.queued(one);
    assert_eq!(q.fullest(), Some(one));
}

#[test]
fn who_has_not_paid_stands_aside_and_says_until_when() {
    let mut q = users(16, Carry::Forget);
    q.set_rates(vec![Some(Rate::from_kbps(80))].into());
    let slow = waiting(&mut q, User::circuit(CircuitId(0)), Place::Old, 0, 90_000);
    let other = waiting(&mut q, user(1), Place::Old, 0, 1000);
    assert_eq!(q.at(slow).rate(), Some(Rate::from_kbps(80)));
    // 10 bytes a millisecond. 50 ms and 3028 bytes are saved: 352.8 ms; 4000 bytes take 400.
    assert_eq!(serve(&mut q, at(1000), 4000), Some(slow));
    let due = at(1000) - (Duration::from_millis(50) + Rate::from_kbps(80).time_to_send(Bytes(3028)))
        + Duration::from_millis(400);
    assert_eq!(serve(&mut q, at(1000), 1000), Some(other));
    q.leave(other);
    assert_eq!((serve(&mut q, at(1001), 1000), q.waiting(), q.next_ready(at(1001))), (None, 0, Some(due)));
    // A packet without data is paid for too.
    q.pay(at(1001), slow, 100);
    let due = due + Duration::from_millis(10);
    assert_eq!(q.next_ready(at(1001)), Some(due));
    assert_eq!(
        (serve(&mut q, due - Duration::from_nanos(1), 1000), serve(&mut q, due, 1000)),
        (None, Some(slow))
    );
    // Without a limit nothing is owed.
    assert_eq!(serve(&mut q, due, 1000), None);
    q.set_rates(vec![None].into());
    assert_eq!(serve(&mut q, due, 1000), Some(slow));
    // One that leaves while aside is nowhere.
    q.set_rates(vec![Some(Rate::from_kbps(8))].into());
    while serve(&mut q, due, 4000).is_some() {}
    assert_eq!((q.waiting(), q.with_packets()), (0, 1));
    q.leave(slow);
    assert_eq!(
        (q.with_packets(), q.next_ready(due), q.find(User::circuit(CircuitId(0)))),
        (0, None, Some(slow))
    );
}
