//! Adaptive Start: until the first loss, ssthresh follows an estimate of what the path holds, but never falls.
//!
//! Source: R. Wang, G. Pau, K. Yamada, M. Y. Sanadidi, M. Gerla, "TCP startup performance in large bandwidth delay
//! networks" (INFOCOM 2004), as the Burst TCP dissertation describes it (section 3.3). Each ACK raises ssthresh to
//! ERE * RTTmin if it is lower, where ERE is the eligible rate estimate of TCP Westwood. So the window grows
//! exponentially and linearly in turn.
//!
//! The rate is that of the bytes acknowledged over the queueing delay RTT - RTTmin, and at least from one ACK to the
//! next. With an empty queue this is the rate of the bottleneck, seen in the spacing of ACKs; with a full one it is
//! the flow's own share. Measured over a whole round trip, the rate could never exceed cwnd, and ssthresh would never
//! rise.
//!
//! Where we differ: each sample is smoothed with 7/8 of the past, where Westwood's filter adapts. The interval is
//! Westwood's RTT (1 - RE RTTmin / cwnd) with cwnd / RTT for the actual rate RE. Units: bytes, nanoseconds; windows
//! in segments.

use narrows_units::{Duration, Instant};

use super::Startup;
use super::slow_start::grown;
use crate::Config;
use crate::cc::{AckSample, Window};

/// The weight of a new sample in the smoothed rate.
const SHARE: f64 = 1.0 / 8.0;

/// Adaptive Start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Adaptive {
    /// Time at which the current sample of the rate began; [`Instant::FAR_FUTURE`] before the first ACK.
    since: Instant,
    /// Bytes acknowledged since the sample began.
    acked: u64,
    /// The eligible rate, bytes per nanosecond; 0 before the first sample.
    rate: f64,
    rtt_min: Duration,
    /// Whether a loss has ended the start-up.
    off: bool,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self { since: Instant::FAR_FUTURE, acked: 0, rate: 0.0, rtt_min: Duration::MAX, off: false }
    }
}

impl Adaptive {
    fn measure(&mut self, sample: &AckSample) {
        let rtt = sample.rtt.unwrap_or(sample.srtt);
        if rtt == Duration::ZERO {
            return;
        }
        self.rtt_min = self.rtt_min.min(rtt);
        if self.since == Instant::FAR_FUTURE {
            self.since = sample.now;
            return;
        }
        self.acked += sample.acked;
        let elapsed = sample.now.since(self.since);
        if elapsed == Duration::ZERO || elapsed < rtt.saturating_sub(self.rtt_min) {
            return;
        }
        let rate = self.acked as f64 / elapsed.as_nanos() as f64;
        self.rate = if self.rate == 0.0 { rate } else { self.rate + (rate - self.rate) * SHARE };
        (self.since, self.acked) = (sample.now, 0);
    }
}

impl Startup for Adaptive {
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample, _: &Config) {
        window.cwnd = grown(window, sample.credit);
    }
    fn after_ack(&mut self, window: &mut Window, sample: &AckSample, config: &Config) {
        if self.off {
            return;
        }
        self.measure(sample);
        if self.rate > 0.0 {
            let estimate = self.rate * self.rtt_min.as_nanos() as f64 / f64::from(config.mss);
            window.ssthresh = window.ssthresh.max(estimate);
        }
    }
    fn on_loss(&mut self) {
        self.off = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::sample;

    /// ACKs of 1000 bytes each, at these microseconds, of these round-trip times in milliseconds.
    fn acks(times: &[(u64, u64)]) -> (Adaptive, Window) {
        let config = Config { mss: 1000, ..Config::default() };
        let (mut a, mut w) = (Adaptive::default(), Window { cwnd: 4.0, ssthresh: 4.0 });
        for &(us, rtt) in times {
            let now = Instant::ZERO + Duration::from_micros(us);
            a.after_ack(
                &mut w,
                &AckSample { now, rtt: Some(Duration::from_millis(rtt)), ..sample(0, 1.0) },
                &config,
            );
        }
        (a, w)
    }

    #[test]
    fn the_spacing_of_acks_shows_what_the_path_holds() {
        // 1000 bytes each 5 ms are 200 bytes/ms; over 100 ms 20 segments.
        assert_eq!(acks(&[(100_000, 100), (105_000, 100)]).1.ssthresh, 20.0);
        // The next, after 95 ms, is a rate of 10.53 bytes/ms: an eighth of the way. ssthresh does not fall.
        let (a, w) = acks(&[(100_000, 100), (105_000, 100), (200_000, 100)]);
        assert!((a.rate * 1e6 - (200.0 + (1000.0 / 95.0 - 200.0) / 8.0)).abs() < 1e-6, "{a:?}");
        assert_eq!(w.ssthresh, 20.0);
    }

    #[test]
    fn a_queue_lengthens_the_interval() {
        // RTTmin 100 ms, then 110: the ACKs at 105 and 109 ms are too close to the one at 100 ms for a sample. The
        // one at 111 ms gives a sample of 3000 bytes in 11 ms = 272.7 bytes/ms, which over 100 ms is 27.3 segments.
        let (_, w) = acks(&[(100_000, 100), (105_000, 110), (109_000, 110)]);
        assert_eq!(w.ssthresh, 4.0);
        let (_, w) = acks(&[(100_000, 100), (105_000, 110), (109_000, 110), (111_000, 110)]);
        assert!((w.ssthresh - 300.0 / 11.0).abs() < 1e-9, "{w:?}");
    }

    #[test]
    fn a_loss_ends_it() {
        let config = Config::default();
        let (mut a, mut w) = acks(&[(100_000, 100)]);
        a.on_loss();
        a.after_ack(&mut w, &sample(101, 1.0), &config);
        assert_eq!(w.ssthresh, 4.0);
    }
}
