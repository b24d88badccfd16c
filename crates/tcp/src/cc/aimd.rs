//! Additive increase, multiplicative decrease with any two constants (Chiu and Jain 1989): the window grows by
//! `alpha` segments per round trip, and a loss leaves the share `beta`. With `alpha = 2 (1 - beta)`, flows have the
//! peak windows of standard TCP, which is (1, 0.5) (Shorten and Leith, "On Queue Provisioning", section III).
//!
//! With (1, 0.5) it is Reno, bit for bit. A time-out leaves `beta` too.

use narrows_units::Instant;

use super::reno::grow;
use super::{AckSample, CongestionControl, Window};
use crate::Config;

/// State of the control with constant factors, the keys `alpha` and `beta`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Aimd {
    /// Segments acknowledged since the window last grew (`bytes_acked`, RFC 3465).
    counted: f64,
}

impl CongestionControl for Aimd {
    fn on_ack(&mut self, window: &mut Window, config: &Config, sample: &AckSample) {
        grow(&mut self.counted, window, sample, config.cc.alpha);
    }
    fn on_loss(&mut self, window: &mut Window, config: &Config, _now: Instant, base: f64) {
        window.ssthresh = base * config.cc.beta;
    }
    fn on_rto(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64) {
        self.on_loss(window, config, now, base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Reno;
    use crate::cc::tests::sample;

    #[test]
    fn half_a_segment_a_round_trip_and_three_quarters() {
        let config: Config = "ns2:congestion=aimd,alpha=0.5,beta=0.75".parse().unwrap();
        let (mut aimd, mut w) = (Aimd::default(), Window { cwnd: 40.0, ssthresh: 20.0 });
        for _ in 0..40 {
            aimd.on_ack(&mut w, &config, &sample(0, 1.0));
        }
        // Each ACK adds 0.5/40 or a little less, at least 0.5/40.5.
        assert!(w.cwnd > 40.0 + 0.5 * 40.0 / 40.5 && w.cwnd < 40.5, "{}", w.cwnd);
        aimd.on_loss(&mut w, &config, Instant::ZERO, 40.0);
        assert_eq!(w.ssthresh, 30.0);
        // By whole segments: 80 segments for one.
        w.cwnd = 40.0;
        for ack in 1..=80 {
            aimd.on_ack(&mut w, &config, &AckSample { by_bytes: true, ..sample(0, 1.0) });
            assert_eq!(w.cwnd, if ack < 80 { 40.0 } else { 41.0 }, "{ack}");
        }
    }

    #[test]
    fn one_and_a_half_is_reno() {
        let config = Config { congestion: crate::CcKind::Aimd, ..Config::default() };
        for by_bytes in [false, true] {
            let (mut aimd, mut reno) = (Aimd::default(), Reno::default());
            let mut w = [Window { cwnd: 7.3, ssthresh: 5.0 }; 2];
            for i in 0..100 {
                let s = AckSample { by_bytes, ..sample(i, 1.0 + (i % 3) as f64) };
                aimd.on_ack(&mut w[0], &config, &s);
                reno.on_ack(&mut w[1], &config, &s);
            }
            aimd.on_ecn(&mut w[0], &config, Instant::ZERO, 11.0);
            reno.on_ecn(&mut w[1], &config, Instant::ZERO, 11.0);
            assert_eq!(w[0], w[1]);
        }
    }
}
