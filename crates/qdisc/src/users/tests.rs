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
    // Two turns have paid a sixth of a quantum each of the 1000 bytes it was ahead: there is room for a little, and
    // no more.
    assert_eq!((q.at(one).ahead, q.at(one).turn.deficit), (668, -332));
    assert!(q.credit_new_flow(one, 2000, 900, Place::New) && !q.credit_new_flow(one, 1, 900, Place::New));
    assert_eq!((q.at(one).turn.credit, q.at(one).ahead), (232, 900));
    // A debt leaves nothing of a turn; time without a packet does, and a turn that was not used up.
    q.at_mut(one).pay_back_the_rest();
    q.at_mut(one).pay_back(300);
    assert_eq!((q.at(one).ahead, q.at(one).turn.deficit), (600, -332));
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
        // The lead is at most 3000 bytes of credit, three packets (one beyond the credit, one beyond a turn, one that
        // the other has not had yet), a turn, and a hundredth: a flight begins the next turn early where the debt is
        // more than a turn.
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
    q.set_rates([Some(Rate::from_kbps(80))].into());
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
    q.set_rates([None].into());
    assert_eq!(serve(&mut q, due, 1000), Some(slow));
    // One that leaves while aside is nowhere.
    q.set_rates([Some(Rate::from_kbps(8))].into());
    while serve(&mut q, due, 4000).is_some() {}
    assert_eq!((q.waiting(), q.with_packets()), (0, 1));
    q.leave(slow);
    assert_eq!(
        (q.with_packets(), q.next_ready(due), q.find(User::circuit(CircuitId(0)))),
        (0, None, Some(slow))
    );
}

/// By hand: a site of 80 kbit/s is 10 bytes a millisecond, and a turn of 1000 bytes is 100 ms.
#[test]
fn users_of_a_site_wait_for_it_and_go_on_in_turn() {
    let mut q = users(16, Carry::Forget);
    let site = Site { rate: Some(Rate::from_kbps(80)), above: None };
    q.set_rates(CircuitRates::new([None; 3]).with_sites(&[site], [Some(0); 3].to_vec()));
    let of = |n| User::circuit(CircuitId(n));
    let here: Vec<_> = (0..3).map(|n| waiting(&mut q, of(n), Place::Old, 0, 0)).collect();
    let other = waiting(&mut q, user(1), Place::Old, 0, 0);
    // 50 ms and 3028 bytes are saved, so three and a half turns go at once; then all three wait, and the other goes on.
    let mut order: Vec<_> = (0..10).filter_map(|_| serve(&mut q, at(1000), 1000)).collect();
    assert_eq!(order.iter().filter(|at| **at != other).count(), 4, "{order:?}");
    assert_eq!((q.waiting(), q.with_packets(), q.next_ready(at(1000))), (1, 4, Some(at(1000))));
    q.leave(other);
    // 352.8 ms were saved, and 400 are sent.
    let due = at(1000) + Duration::from_micros(47_200);
    assert_eq!((serve(&mut q, at(1001), 1000), q.next_ready(at(1001))), (None, Some(due)));
    order.clear();
    for nth in 0..6 {
        let now = due + Duration::from_millis(100 * nth);
        assert_eq!(q.next_ready(at(1001)), Some(now));
        order.extend(serve(&mut q, now, 1000));
        assert_eq!(serve(&mut q, now, 1000), None);
    }
    let mut sorted = order[..3].to_vec();
    sorted.sort_unstable();
    assert_eq!((&sorted, &order[3..]), (&here, &order[..3]), "each once in a round: {order:?}");
    // The rest of a turn that is not used up is given back: the next user need not wait for it.
    let now = due + Duration::from_millis(600);
    let brief = serve(&mut q, now, 200).unwrap();
    q.leave(brief);
    assert_eq!((serve(&mut q, now, 1000), q.next_ready(now)), (None, Some(now + Duration::from_millis(20))));
    // Whoever leaves while waiting is nowhere, and without sites nobody waits.
    q.leave(here[usize::from(brief == here[0])]);
    assert_eq!(q.with_packets(), 1);
    q.set_rates(CircuitRates::default());
    assert_eq!((q.waiting(), q.with_packets(), q.next_ready(now)), (1, 1, Some(now)));
}

/// Any order of events in trees of sites: who waits is counted, everybody is served in the end, and no site sends more
/// than its rate.
#[test]
fn nobody_is_lost_at_sites_whatever_happens() {
    let mut state = 3_u64;
    let mut roll = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    for run in 0..60 {
        let mut q = users(64, if run % 2 == 0 { Carry::Forget } else { Carry::Keep });
        let rates = |roll: &mut dyn FnMut(u64) -> u64| {
            let kbps = |n: u64| (n > 0).then(|| Rate::from_kbps(50 * n));
            let site = |at: u32| Site {
                rate: kbps(roll(6)),
                above: (at > 0 && roll(3) > 0).then(|| roll(u64::from(at)) as u32),
            };
            let sites: Vec<_> = (0..8)
                .map({
                    let mut site = site;
                    move |at| site(at)
                })
                .collect();
            let of: Vec<_> = (0..30).map(|_| (roll(4) > 0).then(|| roll(8) as u32)).collect();
            let own: Vec<_> = (0..30).map(|_| kbps(roll(4) * roll(2))).collect();
            CircuitRates::new(own).with_sites(&sites, of)
        };
        q.set_rates(rates(&mut roll));
        let mut now = at(1000);
        for _ in 0..3000 {
            match roll(20) {
                0 => q.set_rates(rates(&mut roll)),
                1..=4 => now += Duration::from_micros(roll(20_000)),
                5..=9 => {
                    let who = User::circuit(CircuitId(roll(33) as u32));
                    let place = [Place::Old, Place::New, Place::Sparse][roll(3) as usize];
                    if q.find(who).is_none_or(|at| q.at(at).turn.place() == Place::Idle) {
                        waiting(&mut q, who, place, 500, 0);
                    }
                }
                10 => {
                    if let Some(at) = q.anybody() {
                        q.at_mut(at).unqueued();
                        q.leave(at);
                    }
                }
                11 => {
                    if let Some(at) = q.last() {
                        q.pay(now, at, roll(1500) as i32);
                        q.credit_new_flow(at, 700, 3000, Place::New);
                    }
                }
                _ => {
                    if let Some(served) = serve(&mut q, now, 40 + roll(1460) as i32)
                        && roll(4) == 0
                    {
                        q.at_mut(served).unqueued();
                        q.leave(served);
                    }
                }
            }
            let standing = |what: Standing| {
                let all = (0..q.slab.places() as u32).filter_map(|at| q.slab.get(at));
                all.filter(|state| state.standing == what).count()
            };
            assert_eq!(standing(Standing::Waits), q.sites.waiting());
            assert_eq!(
                q.with_packets(),
                (0..q.slab.places() as u32)
                    .filter_map(|at| q.slab.get(at))
                    .filter(|state| state.turn.place() != Place::Idle)
                    .count()
            );
        }
        // Asked when it says, all are served and gone within an hour.
        let end = now + Duration::from_secs(3600);
        while let Some(due) = q.next_ready(now) {
            now = due.max(now + Duration::from_nanos(1));
            assert!(now < end, "run {run}: {} wait", q.with_packets());
            while let Some(served) = serve(&mut q, now, 1000) {
                q.leave(served);
            }
        }
        assert_eq!((q.with_packets(), q.sites.waiting()), (0, 0), "run {run}");
    }
}

/// By hand, as max-min fairness has it, in 100 s: three of the north have 200 / 3 kbit/s, the two others of the mast
/// 100 kbit/s each, and who hangs at none has 200 of the link's 600; whatever the size of their packets.
#[test]
fn a_tree_of_sites_shares_bytes_and_not_packets() {
    let mut q = users(16, Carry::Keep);
    let rate = |kbps| Some(Rate::from_kbps(kbps));
    let mast = Site { rate: rate(400), above: None };
    let north = Site { rate: rate(200), above: Some(0) };
    let south = Site { rate: None, above: Some(0) };
    let at_sites = [Some(1), Some(1), Some(1), Some(2), Some(0)];
    q.set_rates(CircuitRates::new([None; 5]).with_sites(&[mast, north, south], at_sites.to_vec()));
    let circuit = |n| User::circuit(CircuitId(n));
    let mut all: Vec<_> = (0..5).map(|n| waiting(&mut q, circuit(n), Place::Old, 0, 0)).collect();
    all.push(waiting(&mut q, user(1), Place::Old, 0, 0));
    let (mut sent, mut now) = ([0_u64; 6], at(1000));
    while now < at(101_000) {
        let Some(next) = q.next(now, 1514, |_| 1) else {
            now = q.next_ready(now).unwrap();
            continue;
        };
        let who = all.iter().position(|at| *at == next).unwrap();
        let cost = [1400, 200, 500, 1400, 300, 1000][who];
        q.charge(now, cost);
        sent[who] += cost as u64;
        now += Rate::from_kbps(600).time_to_send(Bytes(cost as u64));
    }
    let by_hand = [833_333, 833_333, 833_333, 1_250_000, 1_250_000, 2_500_000];
    assert!(sent.iter().zip(by_hand).all(|(sent, by_hand)| sent.abs_diff(by_hand) < 5000), "{sent:?}");
}
