//! The figures by which a capture and what is simulated after it are compared: both by the same diagnosis.

use core::net::IpAddr;
use std::collections::BTreeMap;

use narrows_diagnose::{Counts, FlowReport};
use serde_json::{Value, json};

/// Sums over connections.
#[derive(Clone, Debug, Default)]
pub struct Measure {
    /// The longest stall of each user with data, seconds. Users are addresses that open connections.
    users: BTreeMap<IpAddr, f64>,
    counts: Counts,
}

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Users.
    pub users: usize,
    /// The share that once stalled for longer than `over_s`.
    pub stalled_over: f64,
    /// Each user's longest stall, median.
    pub stall_p50_s: f64,
    /// And of one in a hundred.
    pub stall_p99_s: f64,
    /// New payload of both directions.
    pub goodput_bps: f64,
    /// Repairs of what was lost, over what was sent.
    pub loss: f64,
    /// Expiries of timers.
    pub timeouts: u64,
}

impl Measure {
    pub fn add(&mut self, flow: &FlowReport) {
        self.counts.merge(&flow.counts());
        let longest = flow.longest().map_or(0.0, |s| s.length().as_secs_f64());
        let user = self.users.entry(flow.opener.address).or_default();
        *user = user.max(longest);
    }

    /// Within so many seconds; a stall is long above `over`.
    pub fn figures(&self, seconds: f64, over: f64) -> Figures {
        let mut longest: Vec<f64> = self.users.values().copied().collect();
        longest.sort_by(f64::total_cmp);
        let long = longest.iter().filter(|s| **s > over).count();
        Figures {
            users: longest.len(),
            stalled_over: long as f64 / longest.len().max(1) as f64,
            stall_p50_s: quantile(&longest, 0.5),
            stall_p99_s: quantile(&longest, 0.99),
            goodput_bps: self.counts.bytes as f64 * 8.0 / seconds.max(1e-9),
            loss: loss(&self.counts),
            timeouts: self.counts.timeouts,
        }
    }
}

impl Figures {
    pub fn json(&self) -> Value {
        json!({
            "users": self.users, "stalled_over": self.stalled_over, "stall_p50_s": self.stall_p50_s,
            "stall_p99_s": self.stall_p99_s, "goodput_bps": self.goodput_bps, "loss": self.loss,
            "timeouts": self.timeouts,
        })
    }

    /// In which respects it is far from another, in words.
    pub fn differs(&self, other: &Self) -> Vec<String> {
        let mut all = Vec::new();
        if (self.loss - other.loss).abs() > 0.05 {
            all.push(format!("loss {:.2} instead of {:.2}", other.loss, self.loss));
        }
        let (a, b) = (self.stalled_over, other.stalled_over);
        if a.max(b) > 0.1 && a.max(b) > 2.0 * a.min(b) {
            all.push(format!("{:.0} % of users with a long stall instead of {:.0} %", b * 100.0, a * 100.0));
        }
        // Below a second stalls are of no account, whatever their ratio.
        for (what, a, b) in [
            ("median stall", self.stall_p50_s, other.stall_p50_s),
            ("worst stall", self.stall_p99_s, other.stall_p99_s),
        ] {
            if a.max(b) > 1.0 && a.max(b) > 2.0 * a.min(b) {
                all.push(format!("{what} {b:.1} s instead of {a:.1} s"));
            }
        }
        let (a, b) = (self.timeouts, other.timeouts);
        if a.max(b) > 50 && a.max(b) > 2 * a.min(b) {
            all.push(format!("{b} timeouts instead of {a}"));
        }
        let (a, b) = (self.goodput_bps, other.goodput_bps);
        if a.max(b) > 1.2 * a.min(b) {
            all.push(format!("goodput {:.0} kbit/s instead of {:.0}", b / 1e3, a / 1e3));
        }
        all
    }
}

/// The share of packets lost, by their repairs. What was lost before the capture was sent too.
pub fn loss(counts: &Counts) -> f64 {
    let lost = counts.lost_before + counts.lost_behind;
    lost as f64 / (counts.data + counts.again + counts.lost_before).max(1) as f64
}

/// Of sorted values, between the two next to it.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = q * last as f64;
    let (low, part) = (place.floor() as usize, place.fract());
    sorted[low] + part * (sorted[(low + 1).min(last)] - sorted[low])
}
