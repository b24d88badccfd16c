//! Rates that are set from outside a queue: known beforehand, or by the rule of cake-autorate.
//!
//! Source: cake-autorate (github.com/lynxthecat/cake-autorate), `defaults.sh` and `cake-autorate.sh`, version 3: six
//! pingers every 0.3 s, a delay above a baseline counts as late beyond 30 ms and a packet's time, three late of six are
//! bufferbloat.
//!
//! Where this differs:
//! - Its least rate (5 Mbit/s) is taken away, its base rate is the mean of the link behind, and its other two rates
//!   keep their proportion to the base: at most four times it, active from a tenth of it on.
//! - Pings cost nothing, are never lost and tell the exact one-way delay; it gets half of a round trip from fping.
//! - No reflector is ever replaced, and it never sleeps.

use std::collections::VecDeque;

use narrows_qdisc::{ShaperConfig, Spec};
use narrows_scenario::Timetable;
use narrows_units::{Bytes, Duration, Instant, Rate};

use crate::ids::LinkId;

/// `reflector_ping_interval_s` by `no_pingers`.
const PING: Duration = Duration::from_millis(50);
/// Length of a ping of fping, headers included.
const PING_LEN: Bytes = Bytes(84);
/// `monitor_achieved_rates_interval_ms`.
const MONITOR: Duration = Duration::from_millis(200);
/// `dl_avg_owd_delta_max_adjust_up_thr_ms`, `dl_owd_delta_delay_thr_ms`, `dl_avg_owd_delta_max_adjust_down_thr_ms`.
const ALL_UP: f64 = 0.010;
const LATE: f64 = 0.030;
const ALL_DOWN: f64 = 0.060;
/// `alpha_baseline_increase`, `alpha_baseline_decrease`.
const RISE: f64 = 0.001;
const FALL: f64 = 0.9;
/// `bufferbloat_detection_window`, `bufferbloat_detection_thr`.
const WINDOW: usize = 6;
const MANY: usize = 3;
/// `shaper_rate_min_adjust_down_bufferbloat` and so on.
const LEAST_DOWN: f64 = 0.99;
const MOST_DOWN: f64 = 0.75;
const MOST_UP: f64 = 1.04;
const DECAY: f64 = 0.99;
const GROWTH: f64 = 1.01;
/// `high_load_thr`.
const HIGH: f64 = 0.75;
/// `bufferbloat_refractory_period_ms`, `decay_refractory_period_ms`.
const REFRACTORY: Duration = Duration::from_millis(300);
const DECAY_EVERY: Duration = Duration::from_secs(1);
/// Nothing is shaped to less.
const LEAST: Rate = Rate::from_kbps(8);

/// Time by which a known rate is known in advance.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// Delay of a loop: what leaves a box comes back from servers of 20 to 150 ms.
const LOOP: Duration = Duration::from_millis(100);
/// Time over which a rate is measured that is known a loop's delay late. A link of 600 kbit/s carries ten packets
/// meanwhile.
const LATE_FOR: Duration = Duration::from_millis(200);

/// Source of the shaper's rate.
#[derive(Debug)]
pub(crate) enum Rule {
    /// Capacity of the link behind, second by second.
    Known,
    /// A part of the capacity that the link behind had over [`LATE_FOR`], a loop's delay ago ([`LOOP`]).
    Late {
        hundredths: u32,
    },
    Autorate(Box<Autorate>),
}

/// A link whose shaper's rate is set from outside.
#[derive(Debug)]
pub(crate) struct Shaped {
    /// The link with the shaper, and the link behind.
    pub(crate) link: LinkId,
    pub(crate) behind: LinkId,
    /// Discipline inside, whose rate is set too.
    pub(crate) spec: Spec,
    pub(crate) config: ShaperConfig,
    pub(crate) rule: Rule,
}

impl Rule {
    /// Time between two looks of the rule.
    pub(crate) const fn every(&self) -> Duration {
        match self {
            Self::Known => KNOWN_FOR,
            Self::Late { .. } => LOOP,
            Self::Autorate(_) => PING,
        }
    }
}

/// Rate that the link behind will have in the coming second.
pub(crate) fn known_rate(timetable: &Timetable, now: Instant) -> Rate {
    let bits = timetable.capacity(now, now + KNOWN_FOR) * 8;
    Rate::from_bps((bits as f64 / KNOWN_FOR.as_secs_f64()) as u64).max(LEAST)
}

/// Part, in hundredths, of the rate that the link behind had over [`LATE_FOR`], a loop's delay ago. There was none
/// before the run began.
pub(crate) fn late_rate(timetable: &Timetable, now: Instant, hundredths: u32) -> Rate {
    let ago = |age: Duration| Instant::from_nanos(now.as_nanos().saturating_sub(age.as_nanos()));
    let bits = timetable.capacity(ago(LOOP + LATE_FOR), ago(LOOP)) * 8;
    let bps = bits as f64 / LATE_FOR.as_secs_f64() * f64::from(hundredths) / 100.0;
    Rate::from_bps(bps as u64).max(LEAST)
}

/// The rule's state for one direction.
#[derive(Debug)]
pub(crate) struct Autorate {
    base: f64,
    rate: f64,
    baseline: Option<f64>,
    /// Pings under way: the time at which each ping arrives, and the ping's delay.
    pings: VecDeque<(Instant, f64)>,
    deltas: VecDeque<f64>,
    monitored: (Instant, u64),
    achieved: f64,
    updated: bool,
    bloated_at: Instant,
    decayed_at: Instant,
}

impl Autorate {
    pub(crate) fn new(base: Rate) -> Self {
        let base = base.as_bps() as f64;
        Self {
            base,
            rate: base,
            baseline: None,
            pings: VecDeque::new(),
            deltas: VecDeque::new(),
            monitored: (Instant::ZERO, 0),
            achieved: 0.0,
            updated: false,
            bloated_at: Instant::ZERO,
            decayed_at: Instant::ZERO,
        }
    }

    /// Length of a ping.
    pub(crate) const fn ping() -> Bytes {
        PING_LEN
    }

    /// Sends a ping `now` that will arrive at `arrives`, and takes the bytes the link has carried. Returns the new
    /// rate.
    pub(crate) fn look(&mut self, now: Instant, arrives: Instant, carried: u64) -> Rate {
        self.pings.push_back((arrives, arrives.since(now).as_secs_f64()));
        let since = now.since(self.monitored.0);
        if since >= MONITOR {
            self.achieved = (carried - self.monitored.1) as f64 * 8.0 / since.as_secs_f64();
            (self.monitored, self.updated) = ((now, carried), true);
        }
        while let Some(&(_, delay)) = self.pings.front().filter(|p| p.0 <= now) {
            self.pings.pop_front();
            self.response(now, delay);
        }
        Rate::from_bps(self.rate as u64)
    }

    /// Takes the delay of a ping that has returned.
    fn response(&mut self, now: Instant, delay: f64) {
        let baseline = self.baseline.unwrap_or(delay);
        let weight = if delay > baseline { RISE } else { FALL };
        let baseline = baseline + (delay - baseline) * weight;
        self.baseline = Some(baseline);
        self.deltas.push_back(delay - baseline);
        if self.deltas.len() > WINDOW {
            self.deltas.pop_front();
        }
        let packet = 1500.0 * 8.0 / self.rate;
        let bloated = self.deltas.iter().filter(|d| **d > LATE + packet).count() >= MANY;
        let average = self.deltas.iter().sum::<f64>() / self.deltas.len() as f64;
        let refractory = now.since(self.bloated_at) <= REFRACTORY;
        if bloated {
            if !refractory {
                let part = ((average - LATE - packet) / (ALL_DOWN - LATE)).clamp(0.0, 1.0);
                self.rate *= LEAST_DOWN - part * (LEAST_DOWN - MOST_DOWN);
                self.bloated_at = now;
            }
        } else if self.achieved > HIGH * self.rate {
            if self.updated && !refractory {
                let part = ((LATE + packet - average) / (LATE - ALL_UP)).clamp(0.0, 1.0);
                self.rate *= 1.0 + part * (MOST_UP - 1.0);
                self.updated = false;
            }
        } else if now.since(self.decayed_at) > DECAY_EVERY {
            self.decayed_at = now;
            let base = self.base;
            self.rate =
                if self.rate > base { (self.rate * DECAY).max(base) } else { (self.rate * GROWTH).min(base) };
        }
        self.rate = self.rate.clamp(LEAST.as_bps() as f64, self.base * 4.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pings of `delay` for `ms`, with the link carrying `kbps`; the rate in kbit/s.
    fn after(rule: &mut Autorate, from: u64, ms: u64, delay: u64, kbps: u64) -> u64 {
        let mut rate = Rate::from_bps(1);
        for at in (from..from + ms).step_by(50) {
            let now = Instant::from_nanos(at * 1_000_000);
            rate = rule.look(now, now + Duration::from_millis(delay), at * kbps / 8);
        }
        rate.as_bps() / 1000
    }

    /// 1 Mbit/s for two seconds, then half: what was measured over 200 ms up to 100 ms ago.
    #[test]
    fn a_late_rate_is_a_loop_late() {
        let steps =
            [(0, 1000), (2000, 500)].map(|(ms, kbps)| (Duration::from_millis(ms), Rate::from_kbps(kbps)));
        let timetable = Timetable::Steps(steps.into());
        let after =
            |ms: u64| late_rate(&timetable, Instant::ZERO + Duration::from_millis(ms), 60).as_bps() / 1000;
        assert_eq!([1000, 2100, 2200, 2300, 3000].map(after), [600, 600, 450, 300, 300]);
        // At 200 ms half of the span lies in the run, at 100 ms nothing does.
        assert_eq!([100, 200, 300].map(after), [8, 300, 600]);
        let known =
            |ms: u64| known_rate(&timetable, Instant::ZERO + Duration::from_millis(ms)).as_bps() / 1000;
        assert_eq!([1000, 1500, 2000].map(known), [1000, 750, 500]);
    }

    #[test]
    fn up_by_a_twenty_fifth_and_down_by_a_quarter() {
        let mut rule = Autorate::new(Rate::from_kbps(10_000));
        // Rates are looked at after 200, 400, 600 and 800 ms, and each lets one response raise: 1.04^4 = 1.1699.
        assert_eq!(after(&mut rule, 0, 850, 5, 10_000), 11_698);
        // With all six responses 100 ms late each step takes a quarter, and the next is 350 ms later: the first ping
        // after more than 300 ms.
        let bloated = after(&mut rule, 850, 1_400, 105, 10_000);
        let further = after(&mut rule, 2_250, 350, 105, 10_000);
        assert!((further * 4).abs_diff(bloated * 3) <= 4, "{bloated} {further}");
    }
}
