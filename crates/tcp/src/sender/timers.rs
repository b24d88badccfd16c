//! The timers of a sender: when each expires. [`Instant::FAR_FUTURE`] stands for a timer that does not run.

use narrows_units::Instant;

use super::Sender;

/// What a sender may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A segment counts as lost if it is not acknowledged until then (RFC 8985, section 6.2, step 5).
    Reorder,
    /// The tail loss probe (RFC 8985, section 7.2).
    Probe,
    /// A segment that may leave waits for its turn.
    Pacing,
    /// The retransmission timer (RFC 6298, section 5), for data, SYN and FIN. With nothing outstanding it is the
    /// persist timer, which waits for the peer's closed window to open (RFC 9293, section 3.8.6.1): a sender never
    /// needs both.
    Retransmit,
}

/// All timers but that for retransmission, the only one of an end without [`super::extras::Extras`].
#[derive(Clone, Copy, Debug)]
pub(super) struct TimerTable([Instant; 3]);

impl Default for TimerTable {
    fn default() -> Self {
        Self([Instant::FAR_FUTURE; 3])
    }
}

impl TimerTable {
    /// When the first of them expires.
    #[inline]
    fn next(&self) -> Instant {
        let [a, b, c] = self.0;
        a.min(b).min(c)
    }
}

impl Sender {
    #[inline(always)]
    pub(super) fn set_timer(&mut self, timer: Timer, at: Instant) {
        match (timer, &mut self.extras) {
            (Timer::Retransmit, _) => self.retransmit_at = at,
            (other, Some(extras)) => extras.timers.0[other as usize] = at,
            (_, None) => {
                debug_assert_eq!(at, Instant::FAR_FUTURE, "an end without extras has no other timers")
            }
        }
    }
    #[inline(always)]
    pub(super) fn stop_timer(&mut self, timer: Timer) {
        self.set_timer(timer, Instant::FAR_FUTURE);
    }
    /// When it expires.
    #[inline(always)]
    pub(super) fn timer_at(&self, timer: Timer) -> Instant {
        match (timer, &self.extras) {
            (Timer::Retransmit, _) => self.retransmit_at,
            (other, Some(extras)) => extras.timers.0[other as usize],
            (_, None) => Instant::FAR_FUTURE,
        }
    }
    #[inline(always)]
    pub(super) fn is_timer_set(&self, timer: Timer) -> bool {
        self.timer_at(timer) != Instant::FAR_FUTURE
    }
    /// Whether a timer has expired.
    #[inline(always)]
    pub(crate) fn is_due(&self, timer: Timer, now: Instant) -> bool {
        self.timer_at(timer) <= now
    }
    /// When the first timer expires.
    #[inline]
    pub(crate) fn next_wake(&self) -> Instant {
        self.extras.as_ref().map_or(self.retransmit_at, |extras| self.retransmit_at.min(extras.timers.next()))
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::SeqNum;

    use super::*;
    use crate::Config;
    use crate::cc::tests::ms;

    #[test]
    fn each_timer_runs_by_itself() {
        let mut sender = Sender::new(&Config::default(), SeqNum(0));
        assert_eq!(sender.next_wake(), Instant::FAR_FUTURE);
        sender.set_timer(Timer::Retransmit, ms(300));
        sender.set_timer(Timer::Probe, ms(200));
        assert_eq!((sender.next_wake(), sender.timer_at(Timer::Retransmit)), (ms(200), ms(300)));
        assert!(sender.is_due(Timer::Probe, ms(200)) && !sender.is_due(Timer::Probe, ms(199)));
        assert!(sender.is_timer_set(Timer::Retransmit) && !sender.is_timer_set(Timer::Pacing));
        sender.set_timer(Timer::Pacing, ms(10));
        sender.set_timer(Timer::Reorder, ms(20));
        assert_eq!(sender.next_wake(), ms(10));
        for (stopped, next) in [(Timer::Pacing, 20), (Timer::Reorder, 200), (Timer::Probe, 300)] {
            sender.stop_timer(stopped);
            assert_eq!(sender.next_wake(), ms(next));
        }
    }
}
