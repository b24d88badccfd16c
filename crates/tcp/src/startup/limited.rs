//! Limited slow start (S. Floyd, RFC 3742): above max_ssthresh, the window grows by at most max_ssthresh / 2 segments
//! per round trip, so that a large window does not overshoot by its own size.
//!
//! Section 2: while cwnd <= max_ssthresh, plain slow start; above it, each ACK adds 1 / K segments, K = int(cwnd /
//! (0.5 max_ssthresh)). Where we differ: with [`crate::ByteCounting`], an ACK that counts for several segments adds
//! several times as much. Units: segments.

use super::Startup;
use super::slow_start::grown;
use crate::Config;
use crate::cc::{AckSample, Window};

/// RFC 3742.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limited;

impl Startup for Limited {
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample, config: &Config) {
        let limit = f64::from(config.start.max_ssthresh);
        let k = if window.cwnd <= limit { 1.0 } else { (window.cwnd / (0.5 * limit)).floor() };
        window.cwnd = grown(window, sample.credit / k);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::sample;

    #[test]
    fn rfc_3742_growth_per_round_trip() {
        // Section 2, max_ssthresh 100: up to 100 doubling; from there on at most 50 segments a round trip.
        let mut config = Config::default();
        config.start.max_ssthresh = 100;
        let mut w = Window { cwnd: 50.0, ssthresh: f64::INFINITY };
        let mut windows = vec![];
        for _ in 0..6 {
            for _ in 0..w.cwnd as u32 {
                Limited.on_ack(&mut w, &sample(0, 1.0), &config);
            }
            windows.push(w.cwnd);
        }
        assert_eq!(windows[0], 100.0);
        // K = 1 at 100, 2 from 101 to 150, and 3 for the last of the 100 ACKs: 1 + 98 / 2 + 1 / 3.
        assert!((windows[1] - (100.0 + 50.0 + 1.0 / 3.0)).abs() < 1e-9, "{windows:?}");
        for pair in windows[1..].windows(2) {
            assert!((45.0..=50.0).contains(&(pair[1] - pair[0])), "{windows:?}");
        }
    }
}
