//! H-TCP (Leith and Shorten, PFLDnet 2004; draft-leith-tcp-htcp-06): the longer ago the last loss was, the faster the
//! window grows. A loss leaves as much as just empties the queue, unless throughput has changed.
//!
//! With D the seconds since the last back-off:
//!
//! - The increase per round trip is 1 up to one second, then 1 + 10 (D - 1) + 0.25 (D - 1)^2, times 2 (1 - beta).
//! - RTT scaling multiplies it by RTTmin / 100 ms, within 0.1 to 2, so that flows of different round trips grow alike
//!   in time.
//! - A back-off leaves RTTmin/RTTmax, within 0.5 to 0.8; half at first, and if throughput has changed by more than a
//!   fifth since the last one.
//!
//! As in Linux, a sample raises RTTmax by at most 20 ms, and only while no loss is known; each back-off leaves 95 %
//! of its distance from RTTmin. Where we differ: D counts from the back-off, not from the end of its recovery;
//! throughput is that of the last round trip; before the first loss the window grows as in standard TCP. A time-out
//! is a back-off.

use narrows_units::{Duration, Instant};

use super::reno::grow;
use super::rounds::RoundTrips;
use super::{AckSample, CcEstimates, CongestionControl, DeliverySample, Window};
use crate::Config;

/// Delta_L: up to this time, in seconds, the increase is that of standard TCP.
const DELTA_L: f64 = 1.0;
/// Delta_B: throughput has changed if it differs by more than this share.
const DELTA_B: f64 = 0.2;
const BETA_MIN: f64 = 0.5;
const BETA_MAX: f64 = 0.8;
/// The round trip at which RTT scaling changes nothing.
const RTT_REF: Duration = Duration::from_millis(100);
/// The least and greatest factor of RTT scaling.
const SCALE: (f64, f64) = (0.1, 2.0);
/// The share of RTTmax - RTTmin that a back-off leaves (Linux).
const FADE: f64 = 0.95;
/// Most by which a sample may raise RTTmax (Linux).
const STEP: Duration = Duration::from_millis(20);

/// State of H-TCP for one connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Htcp {
    alpha: f64,
    beta: f64,
    /// Nanoseconds; infinite before the first sample.
    rtt_min: f64,
    rtt_max: f64,
    /// Time of the last back-off.
    last: Option<Instant>,
    /// Throughput at that time, segments per second.
    before: f64,
    rounds: RoundTrips,
    /// Segments acknowledged since the window last grew (`bytes_acked`, RFC 3465).
    counted: f64,
}

impl Default for Htcp {
    fn default() -> Self {
        Self {
            alpha: 1.0,
            beta: BETA_MIN,
            rtt_min: f64::INFINITY,
            rtt_max: 0.0,
            last: None,
            before: 0.0,
            rounds: RoundTrips::default(),
            counted: 0.0,
        }
    }
}

impl Htcp {
    /// The increase per round trip, segments.
    fn increase(&self, config: &Config, now: Instant) -> f64 {
        let delta = self.last.map_or(0.0, |last| now.since(last).as_secs_f64());
        let over = (delta - DELTA_L).max(0.0);
        let mut factor = 1.0 + 10.0 * over + 0.25 * over * over;
        if config.cc.rtt_scaling && self.rtt_min.is_finite() {
            factor *= (self.rtt_min / RTT_REF.as_nanos() as f64).clamp(SCALE.0, SCALE.1);
        }
        2.0 * (1.0 - self.beta) * factor
    }

    fn back_off(&mut self, now: Instant) {
        let rate = self.rounds.rate;
        let changed = (rate - self.before).abs() > DELTA_B * self.before;
        let known = self.last.is_some() && self.rtt_max >= self.rtt_min;
        self.beta = if known && !changed {
            (self.rtt_min / self.rtt_max).clamp(BETA_MIN, BETA_MAX)
        } else {
            BETA_MIN
        };
        if self.rtt_max >= self.rtt_min {
            self.rtt_max = self.rtt_min + FADE * (self.rtt_max - self.rtt_min);
        }
        (self.before, self.last) = (rate, Some(now));
    }
}

impl CongestionControl for Htcp {
    fn on_delivery(&mut self, _window: &mut Window, _config: &Config, delivery: &DeliverySample) {
        self.rounds.on_delivery(delivery);
        let Some(rtt) = delivery.rtt else { return };
        let rtt = rtt.as_nanos() as f64;
        self.rtt_min = self.rtt_min.min(rtt);
        if delivery.open {
            let from = self.rtt_max.max(self.rtt_min);
            self.rtt_max = from.max(rtt.min(from + STEP.as_nanos() as f64));
        }
    }
    fn on_ack(&mut self, window: &mut Window, config: &Config, sample: &AckSample) {
        self.alpha = self.increase(config, sample.now);
        grow(&mut self.counted, window, sample, self.alpha);
    }
    fn on_loss(&mut self, window: &mut Window, _config: &Config, now: Instant, base: f64) {
        self.back_off(now);
        window.ssthresh = base * self.beta;
    }
    fn on_rto(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64) {
        self.on_loss(window, config, now, base);
    }
    fn estimates(&self) -> Option<CcEstimates> {
        let time = |ns: f64| Duration::from_nanos(if ns.is_finite() { ns as u64 } else { 0 });
        let (rtt_min, rtt_max) = (time(self.rtt_min), time(self.rtt_max));
        Some(CcEstimates { alpha: self.alpha, beta: self.beta, rtt_min, rtt_max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::{delivery, sample};

    fn config(scaling: &str) -> Config {
        format!("rfc:congestion=htcp,rtt_scaling={scaling}").parse().unwrap()
    }
    const fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }
    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_longer_ago_the_faster() {
        // beta 0.5, so 2 (1 - beta) = 1. Up to 1 s 1; at 2 s 1 + 10 + 0.25 = 11.25; at 5 s 1 + 40 + 4 = 45.
        let (mut h, c) = (Htcp::default(), config("off"));
        assert!(near(h.increase(&c, at(60_000)), 1.0), "before the first loss");
        h.back_off(at(0));
        for (ms, alpha) in [(500, 1.0), (1000, 1.0), (1100, 2.0025), (2000, 11.25), (5000, 45.0)] {
            assert!(near(h.increase(&c, at(ms)), alpha), "{ms}: {}", h.increase(&c, at(ms)));
        }
        // With 0.8 two fifths of it.
        h.beta = 0.8;
        assert!(near(h.increase(&c, at(2000)), 4.5));
    }

    #[test]
    fn growth_in_proportion_to_the_round_trip() {
        // 50 ms half of it; 5 ms a tenth at least; 500 ms twice at most.
        let c = config("on");
        for (rtt, factor) in [(100, 1.0), (50, 0.5), (5, 0.1), (150, 1.5), (500, 2.0)] {
            let (mut h, mut w) = (Htcp::default(), Window { cwnd: 10.0, ssthresh: 5.0 });
            h.on_delivery(&mut w, &c, &delivery(rtt, 1, rtt));
            h.back_off(at(0));
            assert!(near(h.increase(&c, at(2000)), 11.25 * factor), "{rtt}");
            // Per ACK a window's share of it.
            h.on_ack(&mut w, &c, &sample(2000, 1.0));
            assert!(near(w.cwnd, 10.0 + 11.25 * factor / 10.0));
        }
    }

    /// Runs rounds of 100 ms, and of the longer round trip at the end, with `segments` segments each.
    fn rounds(h: &mut Htcp, from: u64, segments: u64) -> u64 {
        let mut w = Window { cwnd: 1.0, ssthresh: 1.0 };
        for (i, rtt) in [100, 100, 110, 120, 130].iter().enumerate() {
            for s in 0..segments {
                let ms = from + 130 * i as u64 + s * 130 / segments;
                h.on_delivery(&mut w, &config("on"), &delivery(ms, 1, *rtt));
            }
        }
        from + 5 * 130
    }

    #[test]
    fn what_a_loss_leaves() {
        let (mut h, c) = (Htcp::default(), config("on"));
        let lose = |h: &mut Htcp, ms: u64| {
            let mut w = Window { cwnd: 100.0, ssthresh: 0.0 };
            h.on_loss(&mut w, &c, at(ms), 100.0);
            w.ssthresh
        };
        let now = rounds(&mut h, 0, 13);
        assert!(near(lose(&mut h, now), 50.0), "the first");
        // RTTmax was 130 ms and is 100 + 0.95 * 30 = 128.5 ms; a queue of the old size takes it back.
        assert!(near(h.rtt_max, 128.5e6));
        let now = rounds(&mut h, now, 13);
        assert!(near(lose(&mut h, now), 100.0 / 1.3));
        // A fifth less throughput is no change, and a quarter less is one.
        h.rounds.rate *= 0.81;
        assert!(near(lose(&mut h, now), 100.0 / 1.285));
        h.rounds.rate *= 0.75;
        assert!(near(lose(&mut h, now), 50.0));
        // 100/110 would be more than 0.8, 100/210 less than 0.5.
        for (max, left) in [(110e6, 80.0), (210e6, 50.0)] {
            h.rtt_max = max;
            assert!(near(lose(&mut h, now), left));
        }
    }

    #[test]
    fn the_greatest_round_trip_rises_slowly_and_not_in_recovery() {
        let (mut h, c, mut w) = (Htcp::default(), config("on"), Window { cwnd: 1.0, ssthresh: 1.0 });
        for (rtt, open, max) in [
            (100, true, 100e6),
            (200, true, 120e6),
            (200, true, 140e6),
            (200, false, 140e6),
            (150, true, 150e6),
        ] {
            h.on_delivery(&mut w, &c, &DeliverySample { open, ..delivery(1000, 1, rtt) });
            assert!(near(h.rtt_max, max), "{}", h.rtt_max);
        }
    }
}
