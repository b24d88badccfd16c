//! Starts at random times within the jitter, kept in their order, so that only the next one needs a timer: a million
//! timers would lie in the event queue for as long as the last start is away.

use narrows_units::Instant;

/// Flows that have not started yet.
pub(super) struct Spread {
    /// Start and number of each, the next one last.
    waiting: Vec<(Instant, u32)>,
}

impl Spread {
    /// `starts` in the order of their numbers; at the same instant the lower number starts first.
    pub(super) fn new(starts: impl Iterator<Item = Instant>) -> Self {
        let mut waiting: Vec<_> = starts.zip(0..).collect();
        waiting.sort_unstable_by(|a, b| b.cmp(a));
        Self { waiting }
    }

    /// Time at which the next flow starts.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.last().map(|(at, _)| *at)
    }

    /// Takes the number of the next flow, if the flow starts by `now`.
    pub(super) fn pop(&mut self, now: Instant) -> Option<u32> {
        let (_, number) = self.waiting.pop_if(|(at, _)| *at <= now)?;
        // A started flow keeps its state elsewhere, so half-empty room is given back.
        if self.waiting.len() <= self.waiting.capacity() / 2 {
            self.waiting.shrink_to_fit();
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_time_then_by_number() {
        let at = Instant::from_nanos;
        let mut spread = Spread::new([30, 10, 20, 10].map(at).into_iter());
        assert_eq!((spread.next(), spread.pop(at(9))), (Some(at(10)), None));
        let mut order = Vec::new();
        order.extend(core::iter::from_fn(|| spread.pop(at(20))));
        assert_eq!((order, spread.next()), (vec![1, 3, 2], Some(at(30))));
        assert_eq!((spread.pop(at(30)), spread.next()), (Some(0), None));
    }
}
