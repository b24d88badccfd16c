//! Slow start (Jacobson 1988; RFC 5681, section 3.1): each acknowledged segment lets one more into the network.
//!
//! With a base b other than 2 ([`crate::StartConfig::base`]), it lets in b - 1 more, so that the window grows as b^n
//! with the round trips. The Burst TCP dissertation compares itself with that (Gonçalves, section 4).

use super::Startup;
use crate::Config;
use crate::cc::{AckSample, Window};

/// RFC 5681, section 3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowStart;

impl Startup for SlowStart {
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample, config: &Config) {
        window.cwnd = grown(window, sample.credit * (config.start.base - 1.0));
    }
}

/// cwnd after an ACK that counts for `credit` segments (RFC 5681, equation 2; RFC 3465, section 2.2). An ACK of many
/// segments does not carry it beyond ssthresh.
pub(super) fn grown(window: &Window, credit: f64) -> f64 {
    (window.cwnd + credit).min(window.ssthresh.max(window.cwnd + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::sample;
    use crate::{InitialWindow, Preset};

    #[test]
    fn doubles_each_round() {
        let mut w = Window { cwnd: 1.0, ssthresh: f64::INFINITY };
        for round in 1..=6u32 {
            for _ in 0..w.cwnd as u32 {
                SlowStart.on_ack(&mut w, &sample(0, 1.0), &Config::default());
            }
            assert_eq!(w.cwnd, f64::from(1 << round));
        }
    }

    #[test]
    fn a_base_of_four_fills_a_pipe_of_32_with_less_too_much() {
        // How many packets were sent when the loss shows, with a pipe of 32: all windows up to the first that fills
        // it, and 32 more while its ACKs come. Base 2: 1 + 2 + .. + 32, and 32 more: 95. Base 4: 1 + 4 + 16, and 32
        // more: 53.
        let sent = |base| {
            let config =
                Config { start: crate::StartConfig { base, ..Default::default() }, ..Config::default() };
            let mut w = Window { cwnd: 1.0, ssthresh: f64::INFINITY };
            let mut sent = 0.0;
            while w.cwnd <= 32.0 {
                sent += w.cwnd;
                for _ in 0..w.cwnd as u32 {
                    SlowStart.on_ack(&mut w, &sample(0, 1.0), &config);
                }
            }
            sent + 32.0
        };
        assert_eq!([sent(2.0), sent(4.0)], [95.0, 53.0]);
    }

    #[test]
    fn a_stretch_ack_stops_at_ssthresh() {
        let mut w = Window { cwnd: 10.0, ssthresh: 12.0 };
        SlowStart.on_ack(&mut w, &sample(0, 8.0), &Config::default());
        assert_eq!(w.cwnd, 12.0);
    }

    #[test]
    fn initial_windows_by_rule() {
        // RFC 3390: 4 segments up to 1095 B, 3 up to 1460, then 2; RFC 6928: 10 up to 1460, then 14600 B.
        for (mss, rfc3390, rfc6928) in [
            (536, 4.0, 10.0),
            (1095, 4.0, 10.0),
            (1460, 3.0, 10.0),
            (2190, 2.0, 14_600.0 / 2190.0),
            (8960, 2.0, 2.0),
        ] {
            assert_eq!(InitialWindow::Rfc3390.segments(mss), rfc3390, "{mss}");
            assert_eq!(InitialWindow::Rfc6928.segments(mss), rfc6928, "{mss}");
        }
        assert_eq!(SlowStart.initial_window(&Config::preset(Preset::Linux)), 10.0);
    }
}
