//! Whether packets that wait leave. A loop that turns and sends nothing is no life: a discipline keeps what it has, and
//! its link is a black hole.

use narrows_qdisc::CircuitRates;
use narrows_units::{Duration, Instant, Rate};

/// Time that packets may wait beside the link's own: a rate is found anew, or a machine stands still for a while.
const GRACE: Duration = Duration::from_secs(2);
/// Number of packets' times on the link that packets may wait: one is under way, one has its turn, two for rounding.
const PACKETS: u64 = 4;

/// Time that packets of one direction wait without any that leaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Time since which packets wait and none has left; `None` if no packet waits or one has left.
    since: Option<Instant>,
}

impl Progress {
    /// Notes a step of the box, after which packets wait or not, and in which some have left or not.
    pub fn step(&mut self, now: Instant, waits: bool, left: bool) {
        self.since = if left || !waits { None } else { self.since.or(Some(now)) };
    }

    /// Tells whether packets have waited too long for a link on which the largest one takes the time `packet` at the
    /// lowest of the rates that hold.
    pub fn is_stuck(&self, now: Instant, packet: impl FnOnce() -> Duration) -> bool {
        let waits = self.since.map_or(Duration::ZERO, |since| now.since(since));
        waits > GRACE && waits > GRACE + packet() * PACKETS
    }
}

/// Finds the lowest of a link's rate and those of circuits and sites on it.
pub fn lowest(link: Rate, circuits: &CircuitRates) -> Rate {
    circuits.lowest().map_or(link, |lowest| lowest.min(link))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn packets_that_wait_and_do_not_leave_are_no_life() {
        let mut progress = Progress::default();
        let packet = || Duration::from_millis(100);
        let is_stuck = |progress: &Progress, ms| progress.is_stuck(at(ms), packet);
        progress.step(at(0), true, false);
        progress.step(at(1000), true, false);
        // Two seconds and four packets.
        assert!(!is_stuck(&progress, 2400) && is_stuck(&progress, 2401));
        progress.step(at(2500), true, true);
        assert!(!is_stuck(&progress, 9000), "one has left");
        progress.step(at(9000), true, false);
        progress.step(at(9100), false, false);
        assert!(!is_stuck(&progress, 20_000), "nothing waits");
    }

    #[test]
    fn the_slowest_circuit_has_its_time() {
        let rate = Rate::from_kbps;
        assert_eq!(lowest(rate(600), &[None, Some(rate(8)), Some(rate(900))].into()), rate(8));
        assert_eq!(lowest(rate(600), &CircuitRates::default()), rate(600));
    }
}
