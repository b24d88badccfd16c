//! Burst TCP (B-TCP): the first round trips take large steps, which shrink as the window nears the mice threshold.
//!
//! Source: G. E. Gonçalves, "Burst TCP: an approach for benefiting mice flows" (dissertation, UFPE). In a round trip
//! cwnd grows by floor((mice_t - cwnd) / f), spread over the ACKs: each adds inc / cwnd, where inc follows from cwnd
//! at that moment. The third duplicate ACK or a time-out ends it for the rest of the connection. Windows are in
//! segments.
//!
//! Where we differ:
//! - Above the threshold, the pseudo-code and the ns-2 code both shrink the window (floor of a negative number),
//!   while the text says that standard TCP takes over there. [`BurstStep::Guarded`] does as the dissertation's text
//!   says. [`BurstStep::Ns2`] does as its ns-2 code: where the step *per ACK* would be 0 it is 1, so the window hovers
//!   about the threshold.
//! - What takes over is slow start, as long as cwnd < ssthresh, or with [`BurstAfter::Avoidance`] congestion avoidance.
//! - An ACK that counts for more than a segment ([`crate::ByteCounting`]) adds as many steps, each from the cwnd that
//!   the last one left. No step carries cwnd far beyond a finite ssthresh.
//! - A lost SYN and an ECN echo end it too.

use super::slow_start::grown;
use super::{FirstRtt, Startup};
use crate::cc::{AckSample, Window};
use crate::{BurstAfter, BurstStep, Config};

/// B-TCP. Settings of Burst TCP are [`crate::StartConfig::burst_f`] and those next to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// Whether a loss has ended Burst TCP (`btcp_enabled` is false).
    off: bool,
}

impl Startup for Burst {
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample, config: &Config) {
        let start = &config.start;
        let threshold = f64::from(start.mice_threshold);
        if self.off {
            window.cwnd = grown(window, sample.credit);
            return;
        }
        let mut credit = sample.credit;
        while credit > 0.0 {
            let step = ((threshold - window.cwnd) / f64::from(start.burst_f)).floor();
            let step = match start.burst_step {
                BurstStep::Ns2 if step == 0.0 => 1.0,
                BurstStep::Ns2 => step / window.cwnd,
                BurstStep::Guarded if window.cwnd < threshold => step.max(1.0) / window.cwnd,
                BurstStep::Guarded => 1.0,
            };
            window.cwnd = grown(window, step * credit.min(1.0));
            credit -= 1.0;
        }
        if start.burst_after == BurstAfter::Avoidance && window.cwnd >= threshold {
            window.ssthresh = window.cwnd;
        }
    }
    fn on_loss(&mut self) {
        self.off = true;
    }
    fn on_established(&mut self, _: &mut Window, first: FirstRtt, _: &Config) {
        self.off |= first == FirstRtt::SynLost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;
    use crate::Settings as _;
    use crate::cc::tests::sample;

    fn config(f: u32, set: &[(&str, &str)]) -> Config {
        let mut c = Config::preset(Preset::Ns2);
        c.start.burst_f = f;
        for (key, value) in set {
            c.set(key, value).unwrap();
        }
        c.check().unwrap();
        c
    }

    /// The window after each round trip without a loss, beginning with one segment; a round has an ACK for each whole
    /// segment.
    fn rounds(config: &Config, n: usize) -> Vec<f64> {
        let (mut burst, mut w) = (Burst::default(), Window { cwnd: 1.0, ssthresh: 1e6 });
        let mut windows = vec![1.0];
        while windows.len() < n {
            for _ in 0..w.cwnd as u32 {
                burst.on_ack(&mut w, &sample(0, 1.0), config);
            }
            windows.push(w.cwnd);
        }
        windows
    }

    fn whole(f: u32, n: usize) -> Vec<u32> {
        rounds(&config(f, &[]), n).iter().map(|w| *w as u32).collect()
    }

    #[test]
    fn the_first_round_by_hand() {
        // mice_t 32, f 4: floor(31 / 4) = 7, so 8. Then at 8: floor(24 / 4) = 6, + 6/8; at 8.75: floor(23.25 / 4) =
        // 5, + 5/8.75.
        let c = config(4, &[]);
        let (mut burst, mut w) = (Burst::default(), Window { cwnd: 1.0, ssthresh: 1e6 });
        let mut windows = [0.0; 3];
        for window in &mut windows {
            burst.on_ack(&mut w, &sample(0, 1.0), &c);
            *window = w.cwnd;
        }
        assert_eq!(windows, [8.0, 8.75, 8.75 + 5.0 / 8.75]);
    }

    #[test]
    fn an_ack_of_two_segments_takes_two_steps() {
        let c = config(4, &[]);
        let (mut burst, mut w) = (Burst::default(), Window { cwnd: 8.0, ssthresh: 1e6 });
        burst.on_ack(&mut w, &sample(0, 2.0), &c);
        assert_eq!(w.cwnd, 8.75 + 5.0 / 8.75);
    }

    #[test]
    fn windows_per_round_trip() {
        for (f, windows) in narrows_testing::tables::BURST_WINDOWS {
            assert_eq!(whole(f, windows.len()), windows, "f = {f}");
        }
        // Beyond the threshold slow start: 34 doubles.
        assert_eq!(whole(4, 17)[15..], [34, 68]);
    }

    #[test]
    fn the_first_burst_by_threshold() {
        // floor((mice_t - 1) / f) + 1: 40 with f = 4 is the first of ten.
        for (f, mice, first) in [(2, "32", 16), (3, "32", 11), (4, "32", 8), (4, "40", 10), (8, "80", 10)] {
            assert_eq!(rounds(&config(f, &[("mice_threshold", mice)]), 2)[1], f64::from(first), "{f} {mice}");
        }
    }

    #[test]
    fn the_ns2_code_hovers_at_the_threshold() {
        let ns2 = |f, n: usize| rounds(&config(f, &[("burst_step", "ns2")]), n);
        // f 4: as the pseudo-code up to 27.18, then a segment per ACK to 32.01. Above 32 floor(-0.01 / 4) = -1, so
        // 1/32 less per ACK, and one segment more once it is at or below: between 31.97 and 33.
        let (code, rule) = (ns2(4, 40), rounds(&config(4, &[]), 40));
        let same = code.iter().zip(&rule).take_while(|(a, b)| a == b).count();
        assert_eq!((code[same - 1] * 100.0).round(), 2718.0);
        assert_eq!((code[same] * 100.0).round(), 3201.0);
        assert!(code[same..].iter().all(|w| (31.96..33.0).contains(w)), "{code:?}");
        // f 8: up to 23.45, the window of the 16th round; then 32.97, 31.98, 32.06.
        let (code, rule) = (ns2(8, 19), rounds(&config(8, &[]), 19));
        assert_eq!(code[..16], rule[..16]);
        let cents: Vec<_> = code[15..].iter().map(|w| (w * 100.0).round()).collect();
        assert_eq!(cents, [2345.0, 3297.0, 3198.0, 3206.0]);
    }

    #[test]
    fn congestion_avoidance_takes_over_if_asked() {
        let c = config(4, &[("burst_after", "avoidance")]);
        let (mut burst, mut w) = (Burst::default(), Window { cwnd: 31.99, ssthresh: 1e6 });
        burst.on_ack(&mut w, &sample(0, 1.0), &c);
        assert_eq!((w.cwnd, w.ssthresh), (31.99 + 1.0 / 31.99, w.cwnd));
    }

    #[test]
    fn a_loss_ends_it_for_good() {
        let c = config(8, &[]);
        let mut w = Window { cwnd: 1.0, ssthresh: 16.0 };
        let mut burst = Burst::default();
        burst.on_loss();
        burst.on_ack(&mut w, &sample(0, 1.0), &c);
        assert_eq!(w.cwnd, 2.0, "slow start");
        let mut burst = Burst::default();
        burst.on_established(&mut w, FirstRtt::SynLost, &c);
        burst.on_ack(&mut w, &sample(0, 1.0), &c);
        assert_eq!(w.cwnd, 3.0, "after a lost SYN");
    }
}
