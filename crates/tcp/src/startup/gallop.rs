//! Gallop-Vegas: the slow start of Vegas, but with growth in every round trip, by between one segment and a doubling.
//!
//! Source: C.-Y. Ho, Y.-C. Chan, Y.-C. Chen, "Gallop-Vegas: an enhanced slow-start mechanism for TCP Vegas" (2006),
//! as the Burst TCP dissertation describes it (section 3.3). Vegas doubles only in every other round trip, to compare
//! rates in between. Gallop-Vegas grows "stably", faster than linearly and slower than exponentially, and begins with
//! two segments.
//!
//! Where we differ: we could not obtain the original rule. In ours, the least RTT of a round trip shows how many
//! segments of its own the flow has queued, diff = cwnd (RTT - baseRTT) / RTT (Brakmo and Peterson 1995). The next
//! round trip grows by the share 1 - diff / gamma of a doubling, and by at least one segment. If diff > gamma,
//! start-up is over with ssthresh = cwnd. A round is delimited by time, as in HyStart++. Here Gallop works with any
//! congestion control; the original belongs to Vegas. Units: segments.

use narrows_units::{Duration, Instant};

use super::Startup;
use super::slow_start::grown;
use crate::Config;
use crate::cc::{AckSample, Window};

/// The initial window, segments.
const INITIAL_WINDOW: f64 = 2.0;

/// Gallop-Vegas. Setting of Gallop-Vegas is [`crate::StartConfig::gallop_gamma`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gallop {
    /// Time at which the current round began.
    round: Instant,
    /// The least RTT of the connection; [`Duration::MAX`] if there was none.
    base: Duration,
    /// The least RTT of the current round; [`Duration::MAX`] if there was none.
    current: Duration,
    /// Share of a doubling by which the window grows in the current round.
    share: f64,
    /// Whether a loss has ended the start-up.
    off: bool,
}

impl Default for Gallop {
    fn default() -> Self {
        Self { round: Instant::ZERO, base: Duration::MAX, current: Duration::MAX, share: 1.0, off: false }
    }
}

impl Gallop {
    /// Takes an RTT sample and returns whether start-up is over.
    fn on_sample(&mut self, window: &Window, now: Instant, rtt: Duration, gamma: f64) -> bool {
        let mut over = false;
        if now - rtt >= self.round {
            if self.current != Duration::MAX {
                let queueing = (self.current.as_nanos() - self.base.as_nanos()) as f64;
                let diff = window.cwnd * queueing / self.current.as_nanos() as f64;
                self.share = 1.0 - diff / gamma;
                over = diff > gamma;
            }
            self.round = now;
            self.current = Duration::MAX;
        }
        self.base = self.base.min(rtt);
        self.current = self.current.min(rtt);
        over
    }
}

impl Startup for Gallop {
    fn initial_window(&self, _: &Config) -> f64 {
        INITIAL_WINDOW
    }
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample, config: &Config) {
        if self.off {
            window.cwnd = grown(window, sample.credit);
            return;
        }
        let gamma = f64::from(config.start.gallop_gamma);
        if sample.rtt.is_some_and(|rtt| self.on_sample(window, sample.now, rtt, gamma)) {
            window.ssthresh = window.cwnd;
            return;
        }
        window.cwnd = grown(window, sample.credit * self.share.max(1.0 / window.cwnd));
    }
    fn on_loss(&mut self) {
        self.off = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::sample;

    /// RoundTrips of as many ACKs as whole segments fit, of these RTTs in milliseconds; the window after each.
    fn rounds(rtts: &[u64], gamma: u32) -> (Window, Vec<f64>) {
        let mut config = Config::default();
        config.start.gallop_gamma = gamma;
        let mut g = Gallop::default();
        let mut w = Window { cwnd: g.initial_window(&config), ssthresh: f64::INFINITY };
        let (mut sent, mut windows) = (0, vec![]);
        for &rtt in rtts {
            for i in 0..w.cwnd as u64 {
                if w.cwnd < w.ssthresh {
                    let mut s = sample(sent + rtt, 1.0);
                    s.now += Duration::from_micros(i);
                    s.rtt = Some(Duration::from_millis(rtt));
                    g.on_ack(&mut w, &s, &config);
                }
            }
            windows.push(w.cwnd);
            sent += rtt;
        }
        (w, windows)
    }

    #[test]
    fn an_empty_path_is_slow_start_from_two() {
        assert_eq!(rounds(&[100, 100, 100, 100], 1).1, [4.0, 8.0, 16.0, 32.0]);
    }

    #[test]
    fn what_is_queued_slows_it_down_then_ends_it() {
        // Known a round later: 8 segments at an RTT of 100 / 0.95 have 0.4 queued, so with gamma = 1 the next round
        // grows by 0.6 of a doubling. Here 16 * (105 - 100) / 105 = 0.762 with the window at the round's end: 16 (1 +
        // 0.238) = 19.81.
        let (w, windows) = rounds(&[100, 100, 105, 105], 1);
        assert_eq!(windows[..3], [4.0, 8.0, 16.0]);
        assert!((windows[3] - 16.0 * (1.0 + 5.0 / 21.0)).abs() < 1e-9, "{windows:?}");
        assert_eq!(w.ssthresh, f64::INFINITY);
        // At 120 ms it is 16 / 6 = 2.67 > 1: over.
        let (w, windows) = rounds(&[100, 100, 120, 120, 120], 1);
        assert_eq!((w.ssthresh, windows[2..].to_vec()), (16.0, vec![16.0; 3]));
    }
}
