//! Vegas (Brakmo and Peterson 1995): keeps a few segments of its own in the queue; the round-trip time shows how many.
//!
//! BaseRTT is the least of all samples. Once per round trip, with the least RTT of that round, `W (1 - BaseRTT/RTT)`
//! is the part of the window that waits in queues: expected less actual rate, times BaseRTT. Below `vegas_alpha` the
//! window grows by one segment, above `vegas_beta` it shrinks by one. More than `vegas_gamma` ends slow start, with
//! one segment more than the path holds.
//!
//! Where we differ: slow start may double in every round trip, while the paper doubles in every other one; what a
//! start-up does is its own business, see `startup/`. Losses are detected and repaired as everywhere in this sender,
//! and they halve the window. With fewer than three samples, a round cannot tell a delayed ACK from a queue, so the
//! next round is Reno's, as in Linux. Rounds count only while no loss is known.

use narrows_units::{Duration, Instant};

use super::reno::grow;
use super::rounds::RoundTrips;
use super::{AckSample, CongestionControl, DeliverySample, Window};
use crate::Config;

/// The share that a loss leaves.
const HALF: f64 = 0.5;
/// The samples that a round needs.
const ENOUGH: u32 = 3;
/// Vegas does not shrink the window below two segments, because a single one would wait for a delayed ACK.
const LEAST: f64 = 2.0;

/// State of Vegas for one connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Vegas {
    /// The least RTT of the connection; [`Duration::MAX`] for none.
    base: Duration,
    /// The least RTT of the current round; [`Duration::MAX`] for none.
    least: Duration,
    samples: u32,
    rounds: RoundTrips,
    /// Verdict of the latest round: the growth that the next ACKs may cause.
    next: Next,
    /// Segments acknowledged since the window last grew (`bytes_acked`, RFC 3465).
    counted: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Let the window grow by one segment, then leave the window.
    One,
    /// Leave the window unchanged.
    Nothing,
    /// Let the window grow by one segment per round trip.
    Reno,
}

impl Default for Vegas {
    fn default() -> Self {
        Self {
            base: Duration::MAX,
            least: Duration::MAX,
            samples: 0,
            rounds: RoundTrips::default(),
            next: Next::Reno,
            counted: 0.0,
        }
    }
}

impl Vegas {
    /// A round is over: decides what the next one does.
    fn decide(&mut self, window: &mut Window, config: &Config) {
        if self.samples < ENOUGH {
            self.next = Next::Reno;
            return;
        }
        let held = window.cwnd * (self.base.as_nanos() as f64 / self.least.as_nanos() as f64);
        let queued = window.cwnd - held;
        let cc = &config.cc;
        self.next = Next::Nothing;
        if window.cwnd < window.ssthresh {
            if queued > f64::from(cc.vegas_gamma) {
                window.cwnd = window.cwnd.min((held + 1.0).max(LEAST));
                window.ssthresh = window.cwnd.max(LEAST);
            }
        } else if queued > f64::from(cc.vegas_beta) {
            window.cwnd = window.cwnd.min((window.cwnd - 1.0).max(LEAST));
            // If it were higher, slow start would begin.
            window.ssthresh = window.ssthresh.min(window.cwnd).max(LEAST);
        } else if queued < f64::from(cc.vegas_alpha) {
            self.next = Next::One;
        }
    }
}

impl CongestionControl for Vegas {
    fn on_delivery(&mut self, window: &mut Window, config: &Config, delivery: &DeliverySample) {
        let Some(rtt) = delivery.rtt else { return };
        self.base = self.base.min(rtt);
        if !delivery.open {
            self.rounds.began = delivery.now;
            (self.least, self.samples) = (Duration::MAX, 0);
            return;
        }
        if self.rounds.on_delivery(delivery) {
            self.decide(window, config);
            (self.least, self.samples) = (Duration::MAX, 0);
        }
        self.least = self.least.min(rtt);
        self.samples += 1;
    }
    fn on_ack(&mut self, window: &mut Window, _config: &Config, sample: &AckSample) {
        match self.next {
            Next::One => {
                window.cwnd += 1.0;
                self.next = Next::Nothing;
            }
            Next::Nothing => {}
            Next::Reno => grow(&mut self.counted, window, sample, 1.0),
        }
    }
    fn on_loss(&mut self, window: &mut Window, _config: &Config, _now: Instant, base: f64) {
        window.ssthresh = base * HALF;
    }
    fn on_rto(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64) {
        self.on_loss(window, config, now, base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::sample;

    fn config() -> Config {
        "rfc:congestion=vegas,rtt_sampling=every_segment".parse().unwrap()
    }

    /// Vegas in the middle of a connection: BaseRTT is 100 ms, and a round begins at 1 s.
    fn begun() -> Vegas {
        let mut v = Vegas { base: Duration::from_millis(100), next: Next::Nothing, ..Vegas::default() };
        v.rounds.began = Instant::from_nanos(1_000_000_000);
        v
    }

    /// Runs rounds of `acks` ACKs each, 200 ms apart, with these round trips; returns the window after the first ACK of
    /// the next.
    fn rounds(v: &mut Vegas, w: &mut Window, rtts: &[u64], acks: u64) -> Vec<f64> {
        let (mut ms, mut windows) = (1000, Vec::new());
        for rtt in rtts.iter().chain(rtts.last()) {
            for i in 0..acks {
                let d = super::super::tests::delivery(ms + i, 1, *rtt);
                v.on_delivery(w, &config(), &d);
                if w.cwnd >= w.ssthresh {
                    v.on_ack(w, &config(), &sample(ms + i, 1.0));
                }
                if i == 0 && ms > 1000 {
                    windows.push(w.cwnd);
                }
            }
            ms += 200;
        }
        windows
    }

    #[test]
    fn two_to_four_segments_in_the_queue() {
        // BaseRTT 100 ms, window 20. At 105 ms 20 (1 - 100/105) = 0.95 wait: one more. At 112 ms 2.14, at 120 ms
        // 3.33: neither. At 130 ms 4.6: one less.
        for (rtt, then) in [(105, 21.0), (112, 20.0), (120, 20.0), (130, 19.0)] {
            let mut v = begun();
            let mut w = Window { cwnd: 20.0, ssthresh: 10.0 };
            assert_eq!(rounds(&mut v, &mut w, &[rtt], 10), [then], "{rtt}");
        }
        // Each round a step: at 130 ms and 19, 18 segments 4.38, 4.15 wait, at 17 3.92.
        let mut v = begun();
        let mut w = Window { cwnd: 20.0, ssthresh: 19.5 };
        assert_eq!(rounds(&mut v, &mut w, &[130; 5], 10), [19.0, 18.0, 17.0, 17.0, 17.0]);
        assert_eq!(w.ssthresh, 17.0, "it stays out of slow start");
    }

    #[test]
    fn slow_start_ends_with_a_queue() {
        // Window 16 at 107 ms: 1.05 wait, more than gamma = 1; the path holds 16 * 100/107 = 14.95, and one more.
        let mut v = begun();
        let mut w = Window { cwnd: 16.0, ssthresh: f64::INFINITY };
        rounds(&mut v, &mut w, &[107], 10);
        assert!((w.cwnd - (1600.0 / 107.0 + 1.0)).abs() < 1e-9 && w.ssthresh == w.cwnd, "{w:?}");
        // At 106 ms 0.91: on it goes.
        let mut v = begun();
        let mut w = Window { cwnd: 16.0, ssthresh: f64::INFINITY };
        rounds(&mut v, &mut w, &[106], 10);
        assert_eq!(w, Window { cwnd: 16.0, ssthresh: f64::INFINITY });
    }

    #[test]
    fn with_few_samples_as_reno() {
        let mut v = begun();
        let mut w = Window { cwnd: 20.0, ssthresh: 10.0 };
        rounds(&mut v, &mut w, &[130, 130], 2);
        assert!(w.cwnd > 20.0, "{}", w.cwnd);
    }

    #[test]
    fn a_loss_halves_and_a_recovery_counts_for_nothing() {
        let mut v = begun();
        let mut w = Window { cwnd: 20.0, ssthresh: 10.0 };
        v.on_loss(&mut w, &config(), Instant::ZERO, 20.0);
        assert_eq!(w.ssthresh, 10.0);
        for ms in 0..400 {
            let d = super::super::tests::delivery(1000 + ms, 1, 180);
            v.on_delivery(&mut w, &config(), &DeliverySample { open: false, ..d });
        }
        assert_eq!((w.cwnd, v.samples), (20.0, 0));
    }
}
