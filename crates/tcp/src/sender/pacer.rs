//! Pacing: when the next segment may leave.

use narrows_units::{Duration, Instant};

/// The earliest time at which the next segment may leave. Without pacing it lies in the past.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    release: Instant,
}

impl Pacer {
    /// A segment has left; the next one leaves at least `interval` later. Time in which nothing left is not made up
    /// for.
    pub(super) fn on_sent(&mut self, now: Instant, interval: Duration) {
        self.release = self.release.max(now) + interval;
    }

    /// The next segment leaves at `at` at the earliest.
    pub(super) fn hold_until(&mut self, at: Instant) {
        self.release = self.release.max(at);
    }

    /// Until when the next segment has to wait; `None` if it may leave now.
    pub(super) fn held_until(&self, now: Instant) -> Option<Instant> {
        (self.release > now).then_some(self.release)
    }

    /// Forgets what was sent: the next segment may leave at once.
    pub(super) const fn reset(&mut self) {
        self.release = Instant::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::ms;

    #[test]
    fn segments_leave_an_interval_apart() {
        let (mut pacer, interval) = (Pacer::default(), Duration::from_millis(10));
        assert_eq!(pacer.held_until(ms(0)), None);
        pacer.on_sent(ms(100), interval);
        assert_eq!((pacer.held_until(ms(105)), pacer.held_until(ms(110))), (Some(ms(110)), None));
        // A segment that leaves early, as the first of a recovery does, moves the next one back.
        pacer.on_sent(ms(105), interval);
        assert_eq!(pacer.held_until(ms(110)), Some(ms(120)));
        // After a pause the interval counts from the segment that ends it.
        pacer.on_sent(ms(500), interval);
        assert_eq!(pacer.held_until(ms(500)), Some(ms(510)));
        pacer.hold_until(ms(505));
        assert_eq!(pacer.held_until(ms(500)), Some(ms(510)), "it holds already for longer");
        pacer.reset();
        assert_eq!(pacer.held_until(ms(500)), None);
    }
}
