//! The last hour of each link, for the dashboard: a sample every five seconds, and the stalls that ended, with their
//! evidence.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::{DirectionStatus, StallJson, Status};

/// Time between two samples.
pub const PACE: Duration = Duration::from_secs(5);
/// Number of samples, an hour's.
const SAMPLES: usize = 720;
/// Stalls that are kept.
const STALLS: usize = 1000;

/// Sample of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Flow {
    rate_bps: Option<u64>,
    link_bps: f64,
    goodput_bps: f64,
    backlog_bytes: u64,
}

/// The box at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Sample {
    /// Seconds since the box was started.
    at_s: f64,
    down: Flow,
    up: Flow,
    /// Connections that are opening, move, wait for their turn, stall, are idle.
    states: [u32; 5],
    /// Connections that stall, by cause: those of the network, in the order of `causes`.
    stalled: Vec<u32>,
    users_stalled: u32,
    /// Users that wait for admission.
    at_admission: usize,
}

/// Answer to the dashboard.
#[derive(Debug, Serialize)]
struct Told<'a> {
    pace_s: u64,
    samples: Vec<&'a Sample>,
    stalls: Vec<&'a StallJson>,
}

#[derive(Debug, Default)]
struct Kept {
    samples: VecDeque<Sample>,
    stalls: VecDeque<StallJson>,
    /// Latest sample's time, bytes sent and goodput, of both directions.
    before: Option<(f64, [[u64; 2]; 2])>,
}

/// History of each link by the link's name: its latest samples and stalls, a bounded number.
#[derive(Debug, Default)]
pub struct History(Mutex<BTreeMap<String, Kept>>);

impl History {
    /// Takes a sample of each link. What is no link any more is forgotten.
    pub fn take(&self, status: &Status) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|name, _| status.each().iter().any(|link| link.called() == *name));
        status.each().iter().for_each(|link| all.entry(link.called()).or_default().take(link));
    }

    /// Samples and stalls after `at_s` of the named link (without a name, the first), as JSON; only stalls that
    /// `shown` lets through.
    pub fn since(&self, link: Option<&str>, at_s: f64, shown: impl Fn(&StallJson) -> bool) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = Kept::default();
        let kept = link.map_or_else(|| all.values().next(), |name| all.get(name)).unwrap_or(&nothing);
        let told = Told {
            pace_s: PACE.as_secs(),
            samples: kept.samples.iter().filter(|s| s.at_s > at_s).collect(),
            stalls: kept.stalls.iter().filter(|s| s.from_s + s.length_s > at_s && shown(s)).collect(),
        };
        serde_json::to_string(&told).unwrap_or_default()
    }
}

impl Kept {
    fn take(&mut self, status: &Status) {
        let sent = [&status.down, &status.up].map(|d| d.report.counters.sent_bytes.0);
        let [down, up] = status.sight.goodput_bytes;
        let now = (status.uptime_s, [[sent[0], down], [sent[1], up]]);
        let before = self.before.replace(now);
        let Some((at, then)) = before.filter(|(at, _)| *at < now.0) else { return };
        let rate = |d: usize, which: usize| {
            // Counters begin anew when a reload takes another discipline.
            now.1[d][which].saturating_sub(then[d][which]) as f64 * 8.0 / (now.0 - at)
        };
        let flow = |d: usize, of: &DirectionStatus| Flow {
            rate_bps: of.rate_bps,
            link_bps: rate(d, 0).round(),
            goodput_bps: rate(d, 1).round(),
            backlog_bytes: of.report.backlog.bytes.0,
        };
        let state = |name: &str| status.sight.states.get(name).copied().unwrap_or(0);
        let sample = Sample {
            at_s: status.uptime_s,
            down: flow(0, &status.down),
            up: flow(1, &status.up),
            states: ["opening", "moving", "waiting", "stalled", "idle"].map(state),
            stalled: status.sight.causes.iter().filter(|c| c.network).map(|c| c.now).collect(),
            users_stalled: status.sight.users_stalled,
            at_admission: status.admissions().iter().map(|a| a.waiting).sum(),
        };
        push(&mut self.samples, sample, SAMPLES);
        let known = self.stalls.back().map_or(0, |s| s.number);
        for stall in status.sight.stalls_last.iter().rev().filter(|s| s.number > known) {
            push(&mut self.stalls, stall.clone(), STALLS);
        }
    }
}

fn push<T>(into: &mut VecDeque<T>, new: T, most: usize) {
    if into.len() == most {
        into.pop_front();
    }
    into.push_back(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(uptime_s: f64, sent_bytes: u64) -> Status {
        let mut s = Status { uptime_s, ..Status::default() };
        s.down.report.counters.sent_bytes = narrows_units::Bytes(sent_bytes);
        s.sight.goodput_bytes = [sent_bytes / 2, 0];
        let stall = StallJson {
            number: uptime_s as u64,
            from_s: uptime_s - 1.0,
            length_s: 0.5,
            ..StallJson::default()
        };
        s.sight.stalls_last = vec![stall];
        s
    }

    #[test]
    fn rates_are_between_samples_and_an_hour_is_kept() {
        let history = History::default();
        for n in 0..1000_u32 {
            // 3750 bytes in 5 s are 6 kbit/s.
            history.take(&at(f64::from(n) * 5.0, u64::from(n) * 3750));
        }
        let all: serde_json::Value = serde_json::from_str(&history.since(None, 0.0, |_| true)).unwrap();
        let samples = all["samples"].as_array().unwrap();
        assert_eq!(samples.len(), SAMPLES);
        assert_eq!(samples[7]["down"]["link_bps"], 6000.0);
        assert_eq!(samples[7]["down"]["goodput_bps"], 3000.0);
        let last: serde_json::Value = serde_json::from_str(&history.since(None, 4990.0, |_| true)).unwrap();
        assert_eq!(last["samples"].as_array().unwrap().len(), 1);
        assert_eq!(last["stalls"].as_array().unwrap().len(), 1);
        // A discipline that began anew, and one that looks twice at the same time.
        history.take(&at(5000.0, 0));
        history.take(&at(5000.0, 0));
        assert!(history.since(None, 4996.0, |_| false).contains("\"stalls\":[]"));
    }

    #[test]
    fn each_link_has_an_hour_of_its_own() {
        let history = History::default();
        let link = |name: &str, at_s, sent| Status { name: Some(name.into()), ..at(at_s, sent) };
        for n in 1..=3_u32 {
            let links =
                vec![link("north", f64::from(n) * 5.0, u64::from(n) * 3750), link("south", f64::from(n), 0)];
            history.take(&Status { links, ..Status::default() });
        }
        let of = |name| -> serde_json::Value {
            serde_json::from_str(&history.since(name, 0.0, |_| true)).unwrap()
        };
        assert_eq!(of(Some("north"))["samples"][1]["down"]["link_bps"], 6000.0);
        assert_eq!(of(Some("south"))["samples"][1]["at_s"], 3.0);
        assert_eq!(of(None)["samples"][1]["at_s"], 15.0);
        assert!(of(Some("east"))["samples"].as_array().unwrap().is_empty());
        history.take(&Status { links: vec![link("south", 4.0, 0)], ..Status::default() });
        assert!(of(Some("north"))["samples"].as_array().unwrap().is_empty());
    }
}
