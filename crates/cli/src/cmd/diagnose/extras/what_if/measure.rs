//! The figures by which a capture and what is simulated after it are compared: both by the same diagnosis.

use core::net::IpAddr;
use std::collections::BTreeMap;

use narrows_diagnose::{Counts, FlowReport};
use serde_json::{Value, json};

/// Factor by which the edges of a capture may lift acknowledged bytes above a link's rate.
const ABOVE: f64 = 1.05;

/// Sums over connections.
#[derive(Clone, Debug, Default)]
pub struct Measure {
    /// The longest stall of each user with data, seconds. Users are addresses that open connections.
    users: BTreeMap<IpAddr, f64>,
    counts: Counts,
}

/// Figures that are compared between capture and simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Users.
    pub users: usize,
    /// The share that once stalled for longer than `over_s`.
    pub stalled_over: f64,
    /// Each user's longest stall, median.
    pub stall_p50_s: f64,
    /// Each user's longest stall, 99th percentile.
    pub stall_p99_s: f64,
    /// Payload acknowledged in the thin direction.
    pub goodput_bps: f64,
    /// Repairs of what was lost, over what was sent, of data.
    pub repaired: f64,
    /// Expiries of timers.
    pub timeouts: u64,
}

impl Measure {
    /// Adds a connection, and the connection's counts, in which losses of SYNs are left out.
    pub fn add(&mut self, flow: &FlowReport, counts: &[Counts; 2]) {
        counts.iter().for_each(|of| self.counts.merge(of));
        let longest = flow.longest().map_or(0.0, |s| s.length().as_secs_f64());
        let user = self.users.entry(flow.opener.address).or_default();
        *user = user.max(longest);
    }

    /// Figures, for `acked` bytes of payload within `seconds`; a stall above `over` is long.
    pub fn figures(&self, acked: u64, seconds: f64, over: f64) -> Figures {
        let mut longest: Vec<f64> = self.users.values().copied().collect();
        longest.sort_by(f64::total_cmp);
        let long = longest.iter().filter(|s| **s > over).count();
        Figures {
            users: longest.len(),
            stalled_over: long as f64 / longest.len().max(1) as f64,
            stall_p50_s: quantile(&longest, 0.5),
            stall_p99_s: quantile(&longest, 0.99),
            goodput_bps: acked as f64 * 8.0 / seconds.max(1e-9),
            repaired: loss(&self.counts),
            timeouts: self.counts.timeouts,
        }
    }
}

impl Figures {
    /// Figures as JSON, for a link of this rate.
    pub fn json(&self, rate_bps: f64) -> Value {
        json!({
            "users": self.users, "stalled_over": self.stalled_over, "stall_p50_s": self.stall_p50_s,
            "stall_p99_s": self.stall_p99_s, "goodput_bps": self.goodput_within(rate_bps), "repaired": self.repaired,
            "timeouts": self.timeouts,
        })
    }

    /// Goodput, if a link of this rate can carry it. More is acknowledged if a capture has holes, or the rate is wrong.
    pub fn goodput_within(&self, rate_bps: f64) -> Option<f64> {
        (self.goodput_bps <= ABOVE * rate_bps).then_some(self.goodput_bps)
    }
}

/// The share of packets lost, by their repairs. What was lost before the capture was sent too.
pub fn loss(counts: &Counts) -> f64 {
    let lost = counts.lost_before + counts.lost_behind;
    lost as f64 / (counts.data + counts.again + counts.lost_before).max(1) as f64
}

/// Quantile of sorted values, interpolated between the two next to it; 0 without values.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = q * last as f64;
    let (low, part) = (place.floor() as usize, place.fract());
    sorted[low] + part * (sorted[(low + 1).min(last)] - sorted[low])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_goodput_is_above_what_its_link_carries() {
        let of = |goodput_bps: f64| Figures { goodput_bps, ..Figures::default() };
        assert_eq!(of(559e3).goodput_within(592e3), Some(559e3));
        assert_eq!(of(61_928e3).goodput_within(3292e3), None);
        assert_eq!(of(61_928e3).json(3292e3)["goodput_bps"], Value::Null);
    }
}
