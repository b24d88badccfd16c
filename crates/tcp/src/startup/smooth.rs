//! Smooth Start: between slow start and congestion avoidance, the growth slows down step by step.
//!
//! Source: H. Wang, H. Xin, D. S. Reeves, K. G. Shin, "A simple refinement of slow-start of TCP congestion control"
//! (ISCC 2000), as the Burst TCP dissertation describes it (section 3.3). From smsthresh = ssthresh / 2^depth up to
//! ssthresh, the window grows more and more slowly, but still exponentially.
//!
//! Where we differ: we could not obtain the original steps. In ours, the interval is cut into `grain` equal parts,
//! and in part g (from 0) a segment more is sent for every g + 2 that are acknowledged. Without an ssthresh, that is
//! before the first loss if [`crate::Config::initial_ssthresh`] is infinite, this is slow start. Units: segments.

use super::Startup;
use super::slow_start::grown;
use crate::Config;
use crate::cc::{AckSample, Window};

/// Smooth Start. Settings of Smooth Start are [`crate::StartConfig::smooth_depth`] and
/// [`crate::StartConfig::smooth_grain`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Smooth {
    /// Segments acknowledged since the window last grew.
    counted: f64,
}

impl Startup for Smooth {
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample, config: &Config) {
        let threshold = window.ssthresh / f64::from(1u32 << config.start.smooth_depth);
        if window.cwnd < threshold {
            window.cwnd = grown(window, sample.credit);
            return;
        }
        let part = (window.ssthresh - threshold) / f64::from(config.start.smooth_grain);
        let due = 2.0 + ((window.cwnd - threshold) / part).floor();
        self.counted += sample.credit;
        if self.counted >= due {
            self.counted -= due;
            window.cwnd += 1.0;
        }
    }
    fn on_loss(&mut self) {
        self.counted = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::sample;

    #[test]
    fn each_part_takes_more_acks_per_segment() {
        // ssthresh 32, depth 1: from 16 on; grain 4: parts of 4. ACKs from 16 to 32: 4 (2 + 3 + 4 + 5) = 56.
        let config = Config::default();
        let (mut smooth, mut w) = (Smooth::default(), Window { cwnd: 8.0, ssthresh: 32.0 });
        let mut acks = vec![];
        for n in 1..=64 {
            let before = w.cwnd;
            smooth.on_ack(&mut w, &sample(0, 1.0), &config);
            if w.cwnd > before && w.cwnd % 4.0 == 0.0 {
                acks.push((n, w.cwnd));
            }
        }
        assert_eq!(acks, [(4, 12.0), (8, 16.0), (16, 20.0), (28, 24.0), (44, 28.0), (64, 32.0)]);
    }

    #[test]
    fn without_ssthresh_it_is_slow_start() {
        let mut w = Window { cwnd: 1000.0, ssthresh: f64::INFINITY };
        Smooth::default().on_ack(&mut w, &sample(0, 1.0), &Config::default());
        assert_eq!(w.cwnd, 1001.0);
    }
}
