//! The timers of a sender: one table with the time at which each expires.

use narrows_units::Instant;

/// What a sender may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The retransmission timer (RFC 6298, section 5), for data, SYN and FIN. With nothing outstanding it is the
    /// persist timer, which waits for the peer's closed window to open (RFC 9293, section 3.8.6.1): a sender never
    /// needs both.
    Retransmit,
    /// A segment counts as lost if it is not acknowledged until then (RFC 8985, section 6.2, step 5).
    Reorder,
    /// The tail loss probe (RFC 8985, section 7.2).
    Probe,
    /// A segment that may leave waits for its turn.
    Pacing,
}

/// See the head of the file. [`Instant::FAR_FUTURE`] stands for a timer that does not run.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimerTable([Instant; 4]);

impl Default for TimerTable {
    fn default() -> Self {
        Self([Instant::FAR_FUTURE; 4])
    }
}

impl TimerTable {
    pub(super) const fn set(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = at;
    }
    pub(super) const fn stop(&mut self, timer: Timer) {
        self.0[timer as usize] = Instant::FAR_FUTURE;
    }
    /// When it expires.
    pub(super) const fn at(&self, timer: Timer) -> Instant {
        self.0[timer as usize]
    }
    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.at(timer) != Instant::FAR_FUTURE
    }
    pub(super) fn is_due(&self, timer: Timer, now: Instant) -> bool {
        self.at(timer) <= now
    }
    /// When the first of them expires.
    #[inline]
    pub(super) fn next(&self) -> Instant {
        let [a, b, c, d] = self.0;
        a.min(b).min(c.min(d))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::ms;

    #[test]
    fn each_timer_runs_by_itself() {
        let mut timers = TimerTable::default();
        assert_eq!(timers.next(), Instant::FAR_FUTURE);
        timers.set(Timer::Retransmit, ms(300));
        timers.set(Timer::Probe, ms(200));
        assert_eq!((timers.next(), timers.at(Timer::Retransmit)), (ms(200), ms(300)));
        assert!(timers.is_due(Timer::Probe, ms(200)) && !timers.is_due(Timer::Probe, ms(199)));
        assert!(timers.is_set(Timer::Retransmit) && !timers.is_set(Timer::Pacing));
        timers.set(Timer::Pacing, ms(10));
        timers.set(Timer::Reorder, ms(20));
        assert_eq!(timers.next(), ms(10));
        for (stopped, next) in [(Timer::Pacing, 20), (Timer::Reorder, 200), (Timer::Probe, 300)] {
            timers.stop(stopped);
            assert_eq!(timers.next(), ms(next));
        }
    }
}
