use super::*;
use crate::ids::{AppId, LinkId};

impl EventQueue {
    fn len(&self) -> usize {
        let slots = self.fine.slots.iter().chain(self.coarse.slots.iter());
        self.current.len() + self.far.len() + slots.map(Vec::len).sum::<usize>()
    }
}

#[test]
fn order_is_by_time_then_by_scheduling() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut queue = EventQueue::default();
    let mut model = std::collections::BTreeMap::new();
    let (mut n, mut now) = (0_u32, 0_u64);
    for i in 0..200_000 {
        // Grows, shrinks, and sometimes runs empty; narrow and wide spreads take turns, so that the width changes.
        let grow = if (i / 5_000) % 3 == 0 { 2 } else { 3 };
        if rng.u32(0..5) < grow || model.is_empty() {
            // Few distinct times, so that ties are common; some very far.
            let spread = [3, 40, 1_000, 500_000_000, 60_000_000_000][rng.usize(0..5).min(i / 40_000)];
            let at = now + rng.u64(0..spread);
            queue.push(Instant::from_nanos(at), Event::App { app: AppId(0), token: n });
            model.insert((at, n), ());
            n += 1;
        } else {
            let ((at, id), ()) = model.pop_first().unwrap();
            let end = Instant::from_nanos(u64::MAX);
            let next = queue.pop(end, |_| 0).unwrap();
            assert!(
                matches!(next.1, Event::App { token, .. } if token == id)
                    && next.0 == Instant::from_nanos(at)
            );
            now = at;
        }
        assert_eq!(queue.len(), model.len());
    }
}

#[test]
fn nothing_is_lost_when_slots_get_wider() {
    // One event after the other, each in the slot after the last one's: after PERIOD slots they get wider, and the
    // next event shares its slot with the last one, or not. The slot after that is not empty.
    for first in 0..2 {
        let mut queue = EventQueue::default();
        let at = |slot: u64| Instant::from_nanos(slot << WIDTH);
        queue.push(at(PERIOD + 200), Event::Free(LinkId(1)));
        for slot in first..PERIOD + 100 {
            queue.push(at(slot), Event::Free(LinkId(0)));
            let next = queue.pop(Instant::from_nanos(u64::MAX), |_| 0).map(|next| next.0);
            assert_eq!(next, Some(at(slot)), "slot {slot} from {first}");
        }
    }
}

#[test]
fn what_lies_after_the_end_stays() {
    let mut queue = EventQueue::default();
    queue.push(Instant::from_nanos(10), Event::Free(LinkId(1)));
    assert!(queue.pop(Instant::from_nanos(9), |_| 0).is_none());
    let next = queue.pop(Instant::from_nanos(10), |_| 0).unwrap();
    assert!(matches!(next.1, Event::Free(LinkId(1))) && next.0 == Instant::from_nanos(10));
    assert!(queue.pop(Instant::from_nanos(99), |_| 0).is_none());
}
