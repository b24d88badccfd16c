//! When a sender has restarted its retransmission timer, in the times of the capture (RFC 6298, section 5). An ACK that
//! passes here restarts it only when the sender has it, so several restarts may still be to come.

use narrows_units::{Duration, Instant};

use crate::tolerances::RESTARTS as KEPT;

/// Restarts of a sender's timer, the latest few.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timer {
    restarts: [Instant; KEPT],
    latest: usize,
}

impl Timer {
    /// Notes that the timer is restarted at `at`, which may be ahead.
    pub(crate) fn restart(&mut self, at: Instant) {
        self.latest = (self.latest + 1) % KEPT;
        self.restarts[self.latest] = at;
    }

    /// Time at which the timer was restarted last, as of `now`. A restart that is less than `slack` ahead may have
    /// happened.
    pub(crate) fn since(&self, now: Instant, slack: Duration) -> Instant {
        let past = |n: usize| self.restarts[(self.latest + KEPT - n) % KEPT];
        let found = (0..KEPT).map(past).find(|at| *at <= now + slack && *at > Instant::ZERO);
        found.unwrap_or(past(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_on_its_way_has_not_restarted_it() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let mut t = Timer::default();
        for ms in [100, 500, 700] {
            t.restart(at(ms));
        }
        let slack = Duration::from_millis(20);
        assert_eq!(
            [90, 450, 490, 650, 690].map(|ms| t.since(at(ms), slack)),
            [100, 100, 500, 500, 700].map(at)
        );
        assert_eq!(t.since(at(10), slack), at(700), "nothing was before: the latest");
    }
}
