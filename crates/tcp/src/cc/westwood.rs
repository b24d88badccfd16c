//! Westwood+ (Mascolo, Casetti, Gerla, Sanadidi, Wang 2001; Grieco and Mascolo 2004): instead of a fixed share, a
//! loss leaves the window that would just fill the path at the rate at which acknowledgments came, bandwidth times
//! RTTmin.
//!
//! Each round trip gives a sample: what was acknowledged, over the time it took. The estimate is the exponential
//! average of the samples, with 0.9 of the past, as in the paper of 2004 (Linux has 7/8, and filters twice). The
//! window grows as Reno's.
//!
//! Where we differ: before there is an estimate, a loss leaves half; and it never leaves more than there was. The
//! threshold after a time-out has no such bound, so that slow start can return to the estimate. What duplicate ACKs
//! report counts when they come if they carry SACK blocks, otherwise with the next acknowledgment of new data.

use narrows_units::{Duration, Instant};

use super::reno::grow;
use super::rounds::RoundTrips;
use super::{AckSample, CongestionControl, DeliverySample, Window};
use crate::Config;

/// The weight of the old estimate in the new one.
const PAST: f64 = 0.9;
/// The share that a loss leaves before there is an estimate.
const HALF: f64 = 0.5;

/// State of Westwood+ for one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Westwood {
    /// The estimate, segments per second; 0 before the first round is over.
    bandwidth: f64,
    rtt_min: Option<Duration>,
    rounds: RoundTrips,
    /// Segments acknowledged since the window last grew (`bytes_acked`, RFC 3465).
    counted: f64,
}

impl Westwood {
    /// The window that fills the path without a queue, segments; `None` without an estimate.
    fn fills(&self) -> Option<f64> {
        self.rtt_min.map(|rtt| self.bandwidth * rtt.as_secs_f64()).filter(|w| *w > 0.0)
    }
}

impl CongestionControl for Westwood {
    fn on_delivery(&mut self, _window: &mut Window, _config: &Config, delivery: &DeliverySample) {
        let first = self.rtt_min.is_none();
        if let Some(rtt) = delivery.rtt {
            self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
        }
        if first {
            // The data acknowledged up to the first sample took an unknown time, so the first round begins here.
            self.rounds = RoundTrips { began: delivery.now, segments: 0, rate: 0.0 };
        } else if self.rounds.on_delivery(delivery) {
            let rate = self.rounds.rate;
            self.bandwidth =
                if self.bandwidth > 0.0 { PAST * self.bandwidth + (1.0 - PAST) * rate } else { rate };
        }
    }
    fn on_ack(&mut self, window: &mut Window, _config: &Config, sample: &AckSample) {
        grow(&mut self.counted, window, sample, 1.0);
    }
    fn on_loss(&mut self, window: &mut Window, _config: &Config, _now: Instant, base: f64) {
        window.ssthresh = self.fills().unwrap_or(base * HALF).min(base);
    }
    fn on_rto(&mut self, window: &mut Window, _config: &Config, _now: Instant, base: f64) {
        window.ssthresh = self.fills().unwrap_or(base * HALF);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::delivery;

    /// Runs rounds of 100 ms, each given by the round's segments and round trip.
    fn rounds(w: &mut Westwood, rounds: &[(u64, u64)]) {
        let (mut ms, mut window) = (0, Window { cwnd: 1.0, ssthresh: 1.0 });
        for &(segments, rtt) in rounds {
            for s in 0..segments {
                w.on_delivery(&mut window, &Config::default(), &delivery(ms + s * 100 / segments, 1, rtt));
            }
            ms += 100;
        }
    }
    fn lose(w: &mut Westwood, base: f64) -> f64 {
        let mut window = Window { cwnd: base, ssthresh: 0.0 };
        w.on_loss(&mut window, &Config::default(), Instant::ZERO, base);
        window.ssthresh
    }
    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn half_before_there_is_an_estimate() {
        assert_eq!(lose(&mut Westwood::default(), 30.0), 15.0);
        let mut w = Westwood::default();
        rounds(&mut w, &[(1, 100)]);
        assert_eq!(lose(&mut w, 30.0), 15.0, "one ACK tells no rate");
    }

    #[test]
    fn bandwidth_times_the_least_round_trip() {
        // Rounds of 10 segments in 100 ms: 100 a second. The first round has 9 that count, so 90, which after n more is
        // 100 - 10 * 0.9^n; with an RTTmin of 80 ms 0.08 of it. n = 3: 92.71 and 7.4168.
        let mut w = Westwood::default();
        rounds(&mut w, &[(10, 100), (10, 100), (10, 100), (10, 100), (1, 100)]);
        w.rtt_min = Some(Duration::from_millis(80));
        assert!(near(w.bandwidth, 92.71), "{}", w.bandwidth);
        assert!(near(lose(&mut w, 30.0), 7.4168));
        // Never more than there was, except that a time-out may go back to it.
        assert_eq!(lose(&mut w, 5.0), 5.0);
        let mut window = Window { cwnd: 5.0, ssthresh: 0.0 };
        w.on_rto(&mut window, &Config::default(), Instant::ZERO, 5.0);
        assert!(near(window.ssthresh, 7.4168));
    }

    #[test]
    fn a_round_with_little_counts_a_tenth() {
        let mut w = Westwood::default();
        rounds(&mut w, &[(10, 100), (10, 100), (10, 100), (2, 100), (1, 100)]);
        // 90, 91, 91.9, then 0.9 * 91.9 + 0.1 * 20 = 84.71.
        assert!(near(w.bandwidth, 84.71), "{}", w.bandwidth);
    }
}
