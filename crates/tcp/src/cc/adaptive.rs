//! Adaptive AIMD (Shorten and Leith, "On Queue Provisioning, Network Efficiency and the Transmission Control
//! Protocol"). A loss leaves just as much of the window as empties the queues of the path, the share `RTTmin/RTTmax`,
//! so that a link stays busy however small its buffer is. The increase is coupled to that share, so that flows get
//! what standard TCP would give them.
//!
//! Numbers in brackets are equations of the paper. Windows are in segments, times in nanoseconds as floats, with + -
//! * / alone.
//!
//! - RTTmin is the least sample, RTTmax the greatest *smoothed* round-trip time, which rejects spikes (section V).
//!   The smoothing is done here, with TCP's gain of 1/8, over samples of data that was sent only once. So it contains
//!   neither the clock ticks of old stacks nor echoes of retransmissions. The handshake gives no sample, because its
//!   packets are smaller.
//! - In print, the paper's equation (9) is missing, but the text around it describes it. Both readings of that text
//!   are here ([`crate::Fade`]). The back-off comes before the fading; otherwise the factor would be too large.
//! - The first back-off halves, as in the paper's figure 5, because it ends slow start, which sends twice what fits.
//!   So does a back-off with too few samples.
//! - A time-out halves the window and says nothing about the queue, so the estimates stay ([`crate::BetaRto`]). A
//!   mark counts as a loss.
//! - The form by throughput (10) can only correct in one direction: if the queue never empties, throughput stays the
//!   same and so does the factor, even if it is much too large. So the factor starts anew after 50 back-offs, and, as
//!   in H-TCP, when throughput has changed by more than a fifth since the last one. Throughput is that of a round
//!   trip.

use narrows_units::{Duration, Instant};

use super::reno::grow;
use super::rounds::RoundTrips;
use super::{AckSample, CcEstimates, CongestionControl, DeliverySample, Window};
use crate::{BetaFrom, BetaRto, Config, Fade};

/// Standard TCP's factor.
const HALF: f64 = 0.5;
/// alpha / (1 - beta) of standard TCP, 1 / (1 - 0.5) (5).
const RATIO: f64 = 2.0;
/// The gain of TCP's smoothed round-trip time (RFC 6298, section 2.3).
const GAIN: f64 = 0.125;
/// Back-offs after which the form by throughput starts anew.
const ANEW_AFTER: u32 = 50;
/// The form by throughput starts anew, too, if throughput before two back-offs differs by more than this share.
const ANEW_CHANGE: f64 = 0.2;
/// Rounds after a back-off until throughput shows it: the current one, two with the pause in which the window
/// shrinks, and the one that is measured.
const ROUNDS_AFTER: u8 = 4;

/// State of adaptive AIMD for one connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveAimd {
    /// The increase per round trip, segments (5).
    alpha: f64,
    /// The share that the last loss left.
    beta: f64,
    /// The least sample.
    rtt_min: f64,
    /// The smoothed round-trip time.
    srtt: f64,
    /// The greatest smoothed one, which fades (9).
    rtt_max: f64,
    samples: u32,
    /// Back-offs so far.
    events: u32,
    /// Segments acknowledged since the window last grew (`bytes_acked`, RFC 3465).
    counted: f64,
    throughput: Throughput,
}

impl Default for AdaptiveAimd {
    fn default() -> Self {
        Self {
            alpha: RATIO * (1.0 - HALF),
            beta: HALF,
            rtt_min: f64::INFINITY,
            srtt: 0.0,
            rtt_max: 0.0,
            samples: 0,
            events: 0,
            counted: 0.0,
            throughput: Throughput::default(),
        }
    }
}

/// Throughput around the back-offs (10), segments per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Throughput {
    rounds: RoundTrips,
    /// Rounds until `after` is known.
    waiting: u8,
    /// Throughput before the last back-off; 0 for unknown.
    before: f64,
    /// Throughput after the back-off; 0 for unknown.
    after: f64,
}

impl Throughput {
    fn on_delivery(&mut self, delivery: &DeliverySample) {
        if self.rounds.on_delivery(delivery) && self.waiting > 0 {
            self.waiting -= 1;
            if self.waiting == 0 {
                self.after = self.rounds.rate;
            }
        }
    }

    /// A back-off is due: by how much the last factor was wrong (10), and whether the path has changed since.
    fn on_event(&mut self) -> (Option<f64>, bool) {
        let (before, now) = (self.before, self.rounds.rate);
        let wrong = (before > 0.0 && self.after > 0.0).then(|| before / self.after);
        let changed = before > 0.0 && (now - before).abs() > ANEW_CHANGE * before;
        (self.before, self.after, self.waiting) = (now, 0.0, ROUNDS_AFTER);
        (wrong, changed)
    }
}

impl AdaptiveAimd {
    /// The factor of the back-off that is due.
    fn factor(&mut self, config: &Config) -> f64 {
        let cc = &config.cc;
        let (wrong, changed) = self.throughput.on_event();
        if self.events == 0 || self.samples < cc.min_samples {
            return HALF;
        }
        let beta = match cc.beta_from {
            // (4)
            BetaFrom::Rtt => self.rtt_min / self.rtt_max,
            BetaFrom::Throughput if changed || self.events.is_multiple_of(ANEW_AFTER) => HALF,
            // (10)
            BetaFrom::Throughput => self.beta * wrong.unwrap_or(1.0),
        };
        beta.clamp(cc.beta_lo, cc.beta_hi)
    }

    /// A loss or a mark came.
    fn back_off(&mut self, config: &Config) {
        self.beta = self.factor(config);
        self.events = self.events.saturating_add(1);
        // (5)
        self.alpha = RATIO * (1.0 - self.beta);
        if self.samples > 0 {
            // (9)
            let towards = match config.cc.fade {
                Fade::Rttmin => self.rtt_min,
                Fade::Srtt => self.srtt,
            };
            self.rtt_max = towards + config.cc.gamma * (self.rtt_max - towards);
        }
    }
}

impl CongestionControl for AdaptiveAimd {
    fn on_delivery(&mut self, _window: &mut Window, config: &Config, delivery: &DeliverySample) {
        if config.cc.beta_from == BetaFrom::Throughput {
            self.throughput.on_delivery(delivery);
        }
        let Some(rtt) = delivery.rtt else { return };
        let rtt = rtt.as_nanos() as f64;
        self.rtt_min = self.rtt_min.min(rtt);
        self.srtt = if self.samples == 0 { rtt } else { self.srtt + GAIN * (rtt - self.srtt) };
        self.rtt_max = self.rtt_max.max(self.srtt);
        self.samples = self.samples.saturating_add(1);
    }
    fn on_ack(&mut self, window: &mut Window, _config: &Config, sample: &AckSample) {
        grow(&mut self.counted, window, sample, self.alpha);
    }
    fn on_loss(&mut self, window: &mut Window, config: &Config, _now: Instant, base: f64) {
        self.back_off(config);
        window.ssthresh = base * self.beta;
    }
    fn on_rto(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64) {
        match config.cc.beta_rto {
            BetaRto::Beta => self.on_loss(window, config, now, base),
            BetaRto::Half => {
                self.events = self.events.max(1);
                window.ssthresh = base * HALF;
            }
        }
    }
    fn estimates(&self) -> Option<CcEstimates> {
        let time = |ns: f64| Duration::from_nanos(if ns.is_finite() { ns as u64 } else { 0 });
        Some(CcEstimates {
            alpha: self.alpha,
            beta: self.beta,
            rtt_min: time(self.rtt_min),
            rtt_max: time(self.rtt_max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::{delivery, sample};

    fn config(more: &str) -> Config {
        format!("rfc:congestion=adaptive_aimd,rtt_sampling=every_segment{more}").parse().unwrap()
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 5e-5
    }

    /// Eighty samples of an empty queue, then of a full one, so that the smoothed time comes within 1e-4 of it.
    fn learn(cc: &mut AdaptiveAimd, config: &Config, empty_ms: u64, full_ms: u64) {
        let mut w = Window { cwnd: 1.0, ssthresh: 1.0 };
        for i in 0..160 {
            let rtt = if i < 80 { empty_ms } else { full_ms };
            cc.on_delivery(&mut w, config, &delivery(i, 1, rtt));
        }
    }

    /// Makes a loss; returns the factor that the loss leaves, and the increase that goes with the factor.
    fn lose(cc: &mut AdaptiveAimd, config: &Config) -> (f64, f64) {
        let mut w = Window { cwnd: 1000.0, ssthresh: 0.0 };
        cc.on_loss(&mut w, config, Instant::ZERO, 1000.0);
        assert_eq!(w.ssthresh, 1000.0 * cc.beta);
        (cc.beta, cc.alpha)
    }

    #[test]
    fn the_share_that_empties_the_queue() {
        // (4), (5): 100/145 = 0.6897 and 2 (1 - 0.6897) = 0.6207. Queue over bandwidth-delay product 0.5: 2/3 and
        // 2/3; 0.25: 0.8 and 0.4; 1: 0.5 and 1. Below a quarter and above one the bounds: 0.8 and 0.5.
        for (full, beta, alpha) in [
            (145, 0.6897, 0.6207),
            (150, 0.6667, 0.6667),
            (160, 0.625, 0.75),
            (175, 0.5714, 0.8571),
            (140, 0.7143, 0.5714),
            (130, 0.7692, 0.4615),
            (125, 0.8, 0.4),
            (110, 0.8, 0.4),
            (100, 0.8, 0.4),
            (200, 0.5, 1.0),
            (300, 0.5, 1.0),
        ] {
            let (mut cc, config) = (AdaptiveAimd::default(), config(""));
            lose(&mut cc, &config);
            learn(&mut cc, &config, 100, full);
            let (b, a) = lose(&mut cc, &config);
            assert!(near(b, beta) && near(a, alpha), "{full}: {b} {a}");
        }
        let (mut cc, config) = (AdaptiveAimd::default(), config(",beta_hi=0.95,beta_lo=0.6"));
        lose(&mut cc, &config);
        learn(&mut cc, &config, 100, 110);
        assert!(near(lose(&mut cc, &config).0, 0.9091));
        learn(&mut cc, &config, 100, 300);
        assert!(near(lose(&mut cc, &config).0, 0.6));
    }

    #[test]
    fn the_first_back_off_halves_and_so_does_one_with_few_samples() {
        let (mut cc, config) = (AdaptiveAimd::default(), config(",min_samples=161"));
        assert_eq!(lose(&mut cc, &config), (0.5, 1.0));
        learn(&mut cc, &config, 100, 145);
        assert_eq!(lose(&mut cc, &config), (0.5, 1.0), "160 samples are too few");
        let mut w = Window { cwnd: 1.0, ssthresh: 1.0 };
        cc.on_delivery(&mut w, &config, &delivery(0, 1, 145));
        assert!(lose(&mut cc, &config).0 > 0.68);
    }

    #[test]
    fn the_window_grows_by_alpha_a_round_trip() {
        let (mut cc, config) = (AdaptiveAimd::default(), config(""));
        let grown = |cc: &mut AdaptiveAimd| {
            let mut w = Window { cwnd: 100.0, ssthresh: 50.0 };
            for _ in 0..100 {
                cc.on_ack(&mut w, &config, &sample(0, 1.0));
            }
            w.cwnd - 100.0
        };
        assert!(grown(&mut cc) > 0.99 && grown(&mut cc) < 1.0);
        lose(&mut cc, &config);
        learn(&mut cc, &config, 100, 125);
        lose(&mut cc, &config);
        assert!(grown(&mut cc) > 0.99 * 0.4 && grown(&mut cc) < 0.4, "{}", grown(&mut cc));
    }

    #[test]
    fn what_is_left_of_a_queue_that_is_gone() {
        // (9) with 7/8: of an excess of 1 stay .875, .766, .586 (after 4), .344 (8), .118 (16); less than 5 % after
        // 23. By 0.95, H-TCP's: .950, .815, .663 and 59.
        for (gamma, left, gone) in [
            ("0.875", [(1, 0.875), (2, 0.7656), (4, 0.5862), (8, 0.3436), (16, 0.1181)], 23),
            ("0.95", [(1, 0.95), (2, 0.9025), (4, 0.8145), (8, 0.6634), (16, 0.4401)], 59),
        ] {
            let (mut cc, config) = (AdaptiveAimd::default(), config(&format!(",gamma={gamma}")));
            learn(&mut cc, &config, 100, 200);
            (cc.rtt_max, cc.srtt) = (200e6, 100e6);
            let excess = |cc: &AdaptiveAimd| (cc.rtt_max - cc.rtt_min) / 100e6;
            let mut fell = None;
            for event in 1..=60 {
                lose(&mut cc, &config);
                if let Some((_, due)) = left.iter().find(|l| l.0 == event) {
                    assert!(near(excess(&cc), *due), "{gamma} {event}: {}", excess(&cc));
                }
                if excess(&cc) < 0.05 {
                    fell.get_or_insert(event);
                }
            }
            assert_eq!(fell, Some(gone));
        }
    }

    #[test]
    fn the_back_off_comes_before_the_fading() {
        // 100 and 160 ms: the factor is 100/160, then RTTmax falls to 100 + 7/8 * 60 = 152.5; a queue of the old size
        // takes it back up.
        let (mut cc, config) = (AdaptiveAimd::default(), config(""));
        lose(&mut cc, &config);
        learn(&mut cc, &config, 100, 160);
        assert!(near(lose(&mut cc, &config).0, 0.625));
        assert!((cc.rtt_max - 152.5e6).abs() < 1e4);
        learn(&mut cc, &config, 160, 160);
        assert!(near(lose(&mut cc, &config).0, 0.625));
    }

    #[test]
    fn fading_towards_the_smoothed_time() {
        // 160 ms, smoothed 120 ms at the back-off: 7/8 * 160 + 1/8 * 120 = 155; towards RTTmin 152.5.
        for (fade, left) in [("srtt", 155e6), ("rttmin", 152.5e6)] {
            let (mut cc, config) = (AdaptiveAimd::default(), config(&format!(",fade={fade}")));
            (cc.rtt_min, cc.rtt_max, cc.srtt, cc.samples, cc.events) = (100e6, 160e6, 120e6, 100, 1);
            assert!(near(lose(&mut cc, &config).0, 0.625));
            assert!((cc.rtt_max - left).abs() < 1.0, "{fade}: {}", cc.rtt_max);
        }
    }

    #[test]
    fn a_spike_is_smoothed_away() {
        // One sample of 400 ms among 100s: smoothed it is 100 + 300/8 = 137.5.
        let (mut cc, config) = (AdaptiveAimd::default(), config(""));
        let mut w = Window { cwnd: 1.0, ssthresh: 1.0 };
        for rtt in [100, 100, 100, 100, 100, 100, 100, 400, 100] {
            cc.on_delivery(&mut w, &config, &delivery(0, 1, rtt));
        }
        assert!((cc.rtt_max - 137.5e6).abs() < 1.0 && cc.rtt_min == 100e6, "{}", cc.rtt_max);
    }

    #[test]
    fn a_time_out_halves_and_forgets_nothing() {
        for (beta_rto, left) in [("half", 500.0), ("beta", 1000.0 / 1.6)] {
            let (mut cc, config) = (AdaptiveAimd::default(), config(&format!(",beta_rto={beta_rto}")));
            lose(&mut cc, &config);
            learn(&mut cc, &config, 100, 160);
            let mut w = Window { cwnd: 1000.0, ssthresh: 0.0 };
            cc.on_rto(&mut w, &config, Instant::ZERO, 1000.0);
            assert!((w.ssthresh - left).abs() < 0.1, "{beta_rto}: {}", w.ssthresh);
            learn(&mut cc, &config, 160, 160);
            assert!(near(lose(&mut cc, &config).0, 0.625));
        }
        // A mark is a loss.
        let (mut cc, config) = (AdaptiveAimd::default(), config(""));
        lose(&mut cc, &config);
        learn(&mut cc, &config, 100, 160);
        let mut w = Window { cwnd: 1000.0, ssthresh: 0.0 };
        cc.on_ecn(&mut w, &config, Instant::ZERO, 1000.0);
        assert!((w.ssthresh - 625.0).abs() < 0.1);
    }

    /// A back-off with this throughput before it and that one after it, segments per second.
    fn event(cc: &mut AdaptiveAimd, config: &Config, before: f64, after: f64) -> f64 {
        cc.throughput.rounds.rate = before;
        let beta = lose(cc, config).0;
        cc.throughput.after = after;
        beta
    }

    #[test]
    fn the_factor_by_throughput() {
        // (10) with half a product of buffer: half a window of 1.5 products carries 0.75 of the rate, so the next
        // factor is 0.5 / 0.75 = 0.667, after which throughput stays the same, and the factor with it.
        let (mut cc, config) = (AdaptiveAimd::default(), config(",beta_from=throughput"));
        cc.samples = 100;
        let seen = [(1000.0, 750.0), (1000.0, 1000.0), (1000.0, 1000.0), (990.0, 990.0)]
            .map(|(before, after)| event(&mut cc, &config, before, after));
        assert!(seen.iter().zip([0.5, 0.6667, 0.6667, 0.6667]).all(|(a, b)| near(*a, b)), "{seen:?}");
        // Too large a factor stays: the queue never empties.
        cc.beta = 0.8;
        assert!(near(event(&mut cc, &config, 1000.0, 1000.0), 0.8));
        // A throughput 21 % less starts anew, 19 % less does not.
        assert!(near(event(&mut cc, &config, 810.0, 810.0), 0.8));
        assert!(near(event(&mut cc, &config, 639.0, 639.0), 0.5));
        // The 50th back-off after the first starts anew too.
        cc.beta = 0.8;
        while cc.events < ANEW_AFTER {
            assert!(near(event(&mut cc, &config, 639.0, 639.0), 0.8), "{}", cc.events);
        }
        assert!(near(event(&mut cc, &config, 639.0, 639.0), 0.5));
    }

    #[test]
    fn throughput_of_a_round() {
        // 10 segments in each round of 100 ms: 100 a second. After a back-off the third whole one counts, here with 5.
        let (mut cc, config) = (AdaptiveAimd::default(), config(",beta_from=throughput"));
        let mut w = Window { cwnd: 1.0, ssthresh: 1.0 };
        let mut ms = 0;
        let mut round = |cc: &mut AdaptiveAimd, segments: u64| {
            for i in 0..segments {
                cc.on_delivery(&mut w, &config, &delivery(ms + i * 100 / segments, 1, 100));
            }
            ms += 100;
        };
        for _ in 0..3 {
            round(&mut cc, 10);
        }
        assert!(near(cc.throughput.rounds.rate, 100.0), "{}", cc.throughput.rounds.rate);
        lose(&mut cc, &config);
        for segments in [10, 10, 5, 10] {
            round(&mut cc, segments);
        }
        assert!(near(cc.throughput.before, 100.0) && near(cc.throughput.after, 50.0), "{:?}", cc.throughput);
    }
}
