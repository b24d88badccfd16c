//! From records to numbers: one value per name and run, and the median of several runs with its range.
//!
//! What is cut off by the end of the run counts: an unfinished object with the stall it had, a connection that
//! never stood with the time it was waited for, a flow that got nothing with its zeros.

mod apart;
mod calls;
mod pages;
mod rows;
mod waste;

use std::collections::BTreeMap;

use narrows_plot::quantile;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use calls::records;
pub use rows::{FIRST_ROWS, ROWS, Row, Unit, first, rows, transport_name};

use super::record::RunRecord;
use super::scenario::{Scenario, Traffic};
use super::worker::record::{ConnectRecord, PageRecord};
use super::worker::{ObjectRecord, ThinResult};

/// Greatest lateness, in milliseconds, of a run that is not spoiled.
pub const SPOILED_MS: f64 = 5.0;
/// The slice over which fairness is judged, in seconds: long enough for a user's patience, too short for averages to
/// hide a stall.
pub const SLICE_S: usize = 20;
/// Largest size of a small object, in bytes.
const SMALL: u32 = 6_000;
/// Smallest size of a large object, in bytes.
const LARGE: u32 = 20_000;

/// The numbers of one run, by the keys of [`ROWS`].
pub type Values = BTreeMap<String, f64>;

/// Median and range over the seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median of the runs.
    pub median: f64,
    /// Smallest value of a run.
    pub min: f64,
    /// Largest value of a run.
    pub max: f64,
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut v: Vec<f64> = values.collect();
    v.sort_by(f64::total_cmp);
    v
}

/// Jain's fairness index; 1 if all are equal, 1/n if one has all. All zero is fair only in name: 0.
#[must_use]
pub fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

struct Table(Values);

impl Table {
    fn put(&mut self, key: &str, value: Option<f64>) {
        debug_assert!(ROWS.iter().any(|r| r.key == key), "{key} has no row");
        if let Some(v) = value.filter(|v| v.is_finite()) {
            self.0.insert(key.to_owned(), v);
        }
    }
    fn quantiles(&mut self, stem: &str, values: &[f64], which: &[(&str, f64)]) {
        for (suffix, q) in which {
            self.put(&format!("{stem}_{suffix}_s"), quantile(values, *q));
        }
    }
}

const P50: (&str, f64) = ("p50", 0.5);
const P90: (&str, f64) = ("p90", 0.9);
const P95: (&str, f64) = ("p95", 0.95);
const P99: (&str, f64) = ("p99", 0.99);

/// All values of one run that the table shows.
#[must_use]
pub fn measure(scenario: &Scenario, run: &RunRecord) -> Values {
    let mut t = Table(Values::new());
    traffic(&mut t, scenario, run);
    calls::calls(&mut t, &run.calls);
    kernel(&mut t, run);
    before(&mut t, run);
    uploads(&mut t, scenario, run);
    quic(&mut t, run);
    status(&mut t, &run.status, run.client.lasted, run.cpu_s);
    apart::apart(&mut t, scenario, run);
    t.0
}

/// Figures of the users' transfers and pages.
fn traffic(t: &mut Table, scenario: &Scenario, run: &RunRecord) {
    let warmup = scenario.warmup.secs();
    // An object counts where it ends: one that began in the warm-up and stalls beyond it is a stall.
    let counted: Vec<&ObjectRecord> = run.client.objects.iter().filter(|o| o.end > warmup).collect();
    let loaded: Vec<&PageRecord> = run.client.pages.iter().filter(|p| p.end > warmup).collect();
    if scenario.traffic.iter().any(|x| matches!(x, Traffic::Objects { .. })) {
        objects(t, &counted);
        entry(t, &run.client.objects);
    }
    if !loaded.is_empty() {
        pages::pages(t, &loaded);
    }
    if scenario.traffic.iter().any(|x| !matches!(x, Traffic::Long { .. })) {
        connects(t, &counted, &loaded, run.client.lasted);
        user_stalls(t, run);
    }
    if !run.client.visits.is_empty() {
        visits(t, run, warmup);
    }
    if scenario.traffic.iter().any(|x| matches!(x, Traffic::Long { up: false, .. })) {
        long_flows(t, scenario, run);
    }
    goodput(t, run, warmup);
    waste::waste(t, scenario, run);
}

fn goodput(t: &mut Table, run: &RunRecord, warmup: f64) {
    let from = warmup.ceil() as usize;
    let bytes: u64 = run.client.bins.iter().flat_map(|b| b.iter().skip(from)).map(|b| u64::from(*b)).sum();
    t.put("goodput_kbps", Some(bytes as f64 * 8.0 / 1e3 / (run.client.lasted - from as f64)));
}

fn objects(t: &mut Table, objects: &[&ObjectRecord]) {
    let time = |o: &ObjectRecord| o.done.map(|d| d - o.start);
    let times = |keep: &dyn Fn(&ObjectRecord) -> bool| {
        sorted(objects.iter().filter(|o| keep(o)).filter_map(|o| time(o)))
    };
    let count = |keep: &dyn Fn(&ObjectRecord) -> bool| objects.iter().filter(|o| keep(o)).count() as f64;
    t.put("objects_done", Some(count(&|o| o.done.is_some())));
    t.put("objects_failed", Some(count(&|o| o.broken)));
    t.put("objects_cut", Some(count(&|o| o.done.is_none() && !o.broken)));
    t.put(
        "turned_away",
        Some(objects.iter().map(|o| f64::from(o.turned_away)).sum::<f64>()).filter(|n| *n > 0.0),
    );
    t.quantiles("object", &times(&|_| true), &[P50, P90, P99]);
    let served = sorted(objects.iter().filter_map(|o| Some(o.done? - o.connected?)));
    t.put("served_mean_s", Some(served.iter().sum::<f64>() / served.len() as f64));
    t.quantiles("served", &served, &[P50, P90, P99]);
    t.quantiles("small", &times(&|o| o.size <= SMALL), &[P50, P90]);
    t.quantiles("large", &times(&|o| o.size >= LARGE), &[P50, P90]);
    let per_kb = sorted(objects.iter().filter_map(|o| Some(time(o)? * 1e3 / f64::from(o.size))));
    t.quantiles("per_kb", &per_kb, &[P50, P99]);
    t.put("per_kb_spread", quantile(&per_kb, 0.99).zip(quantile(&per_kb, 0.5)).map(|(a, b)| a / b));
    t.put("user_per_kb_spread", by_user(objects));
    let stalls = sorted(objects.iter().map(|o| o.stall));
    t.quantiles("stall", &stalls, &[P50, P90, P99, ("max", 1.0)]);
    let above = |limit: f64| stalls.iter().filter(|s| **s > limit).count() as f64 / stalls.len() as f64;
    t.put("stall_over_5s", Some(above(5.0)));
    t.put("stall_over_20s", Some(above(20.0)));
    let connected = sorted(objects.iter().filter(|o| o.connected.is_some()).map(|o| o.stall_connected));
    t.quantiles("admitted_stall", &connected, &[P99]);
    let first = sorted(objects.iter().filter_map(|o| Some(o.first_byte? - o.start)));
    t.quantiles("first_byte", &first, &[P50, P99]);
}

/// Time that connecting took, handshakes included; a connection that was never established counts up to the end.
fn connects(t: &mut Table, objects: &[&ObjectRecord], pages: &[&PageRecord], lasted: f64) {
    let of_objects = objects.iter().map(|o| o.connected.unwrap_or_else(|| o.end.min(lasted)) - o.start);
    let wait = |p: &PageRecord, c: &ConnectRecord| c.connected.unwrap_or_else(|| p.end.min(lasted)) - c.start;
    let of_pages = pages.iter().flat_map(|p| p.connects.iter().map(move |c| wait(p, c)));
    t.quantiles("connect", &sorted(of_objects.chain(of_pages)), &[P50, P95, P99]);
}

/// Users' stalls: of each the longest time in which none of its transfers got anything while one was waiting.
fn user_stalls(t: &mut Table, run: &RunRecord) {
    let stalls = sorted(run.client.user_stalls.iter().copied());
    t.quantiles("user_stall", &stalls, &[P50, ("max", 1.0)]);
    for (key, limit) in [("user_stall_over_5s", 5.0), ("user_stall_over_20s", 20.0)] {
        let long = stalls.iter().filter(|s| **s > limit).count();
        t.put(key, Some(long as f64 / stalls.len() as f64));
    }
}

/// Number of users who came, of users who left, and of users present at a time.
fn visits(t: &mut Table, run: &RunRecord, warmup: f64) {
    let counted: Vec<_> = run.client.visits.iter().filter(|v| v.end.is_none_or(|end| end > warmup)).collect();
    let lasted = run.client.lasted;
    let present = counted.iter().map(|v| v.end.unwrap_or(lasted) - v.start.max(warmup)).sum::<f64>();
    t.put("visits_begun", Some(counted.len() as f64));
    t.put("visits_done", Some(counted.iter().filter(|v| v.end.is_some()).count() as f64));
    t.put("users_present", Some(present / (lasted - warmup)));
    let times = sorted(counted.iter().filter_map(|v| Some(v.end? - v.start)));
    t.quantiles("visit", &times, &[P50, P95]);
}

/// Wait of each user until the first of all connections was established, admission included.
fn entry(t: &mut Table, objects: &[ObjectRecord]) {
    let mut first: BTreeMap<u32, (f64, Option<f64>)> = BTreeMap::new();
    for o in objects {
        let user = first.entry(o.visitor).or_insert((o.start, None));
        user.0 = user.0.min(o.start);
        user.1 = match (user.1, o.connected) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    let end = objects.iter().map(|o| o.end).fold(0.0, f64::max);
    let waits = sorted(first.values().map(|(start, connected)| connected.unwrap_or(end) - start));
    t.quantiles("entry", &waits, &[P50, P99]);
    let never = first.values().filter(|(_, connected)| connected.is_none()).count();
    t.put("never_in", Some(never as f64));
}

/// Spread between users of all their waiting over all their bytes: whether some are worse served than others.
fn by_user(objects: &[&ObjectRecord]) -> Option<f64> {
    let mut users: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for o in objects {
        if let Some(done) = o.done {
            let u = users.entry(o.user).or_default();
            *u = (u.0 + done - o.start, u.1 + f64::from(o.size) / 1e3);
        }
    }
    let rates = sorted(users.values().map(|(time, kb)| time / kb));
    Some(quantile(&rates, 0.99)? / quantile(&rates, 0.5)?)
}

fn long_flows(t: &mut Table, scenario: &Scenario, run: &RunRecord) {
    let flows: Vec<&Vec<u32>> =
        run.client.long.iter().filter_map(|l| run.client.bins.get(l.user as usize)).collect();
    let from = scenario.warmup.secs().ceil() as usize;
    let whole = run.client.lasted as usize;
    let mut indices = Vec::new();
    let (mut zero, mut slices) = (0, 0);
    let mut at = from;
    while at + SLICE_S <= whole {
        let shares: Vec<f64> = flows
            .iter()
            .map(|b| b.iter().skip(at).take(SLICE_S).map(|x| f64::from(*x)).sum::<f64>())
            .collect();
        zero += shares.iter().filter(|s| **s == 0.0).count();
        slices += shares.len();
        indices.push(jain(&shares));
        at += SLICE_S;
    }
    if !indices.is_empty() {
        t.put("jain_20s", Some(indices.iter().sum::<f64>() / indices.len() as f64));
        t.put("jain_20s_min", indices.iter().copied().reduce(f64::min));
        t.put("zero_slices", Some(zero as f64 / slices as f64));
    }
    let stalls = sorted(run.client.long.iter().map(|l| l.stall));
    t.quantiles("flow_stall", &stalls, &[P50, P99, ("max", 1.0)]);
}

/// Counts of the server's QUIC stack.
fn quic(t: &mut Table, run: &RunRecord) {
    let Some(q) = &run.server.quic else { return };
    t.put("quic_lost", Some(q.lost as f64 / q.sent as f64));
    t.put("quic_ptos", Some(q.ptos as f64));
    t.put("quic_failed", Some(q.failed as f64));
    let windows = sorted(q.cwnd.iter().map(|bytes| f64::from(*bytes) / 1e3));
    t.put("quic_cwnd_kb", quantile(&windows, 0.5));
}

/// Figures of users who send.
fn uploads(t: &mut Table, scenario: &Scenario, run: &RunRecord) {
    if !scenario.traffic.iter().any(Traffic::sends) {
        return;
    }
    let from = scenario.warmup.secs().ceil() as usize;
    let bytes: u64 = run.uploads.iter().flat_map(|u| u.bins.iter().skip(from)).map(|b| u64::from(*b)).sum();
    t.put("up_goodput_kbps", Some(bytes as f64 * 8.0 / 1e3 / (run.client.lasted - from as f64)));
    // Whoever never got anything through waited from the warm-up to the end.
    let all: u32 = scenario.traffic.iter().filter(|x| x.sends()).map(Traffic::users).sum();
    let silent = (all as usize > run.uploads.len()).then(|| run.client.lasted - scenario.warmup.secs());
    t.put("up_stall_max_s", run.uploads.iter().map(|u| u.stall).chain(silent).reduce(f64::max));
}

/// Figures of the link before the box.
fn before(t: &mut Table, run: &RunRecord) {
    let used = |link: &ThinResult| (link.capacity > 0).then(|| link.used as f64 / link.capacity as f64);
    let seconds = |ms: f64| Some(ms / 1e3).filter(|s| *s > 0.0);
    if let Some(down) = &run.emulator.down {
        t.put("before_used", used(down));
        t.put("before_there_p50_s", seconds(down.there_p50_ms));
        t.put("before_there_p95_s", seconds(down.there_p95_ms));
        t.put("before_there_p99_s", seconds(down.there_p99_ms));
        t.put("before_dropped", Some(down.dropped as f64 / down.arrived as f64));
    }
    if let Some(up) = &run.emulator.up {
        t.put("before_up_used", used(up));
        t.put("before_up_there_p95_s", seconds(up.there_p95_ms));
    }
}

fn kernel(t: &mut Table, run: &RunRecord) {
    let s = &run.server;
    // Linux counts retransmissions apart from OutSegs.
    t.put("retransmitted", Some(s.retrans_segs as f64 / (s.out_segs + s.retrans_segs) as f64));
    t.put("timeouts", Some(s.timeouts as f64));
    t.put("emulator_late_p99_ms", Some(run.emulator.late_p99_ms));
    t.put("emulator_overrun", Some(run.emulator.overrun as f64).filter(|n| *n > 0.0));
    t.put("box_wait_p99_ms", quantile(&sorted(run.box_waits_ms.iter().copied()), 0.99));
}

/// A count that may be a number, or an object or list of counts by reason.
fn total(v: &Value) -> Option<f64> {
    match v {
        Value::Number(n) => n.as_f64(),
        Value::Array(a) => a.iter().map(total).sum(),
        Value::Object(o) => o.values().map(total).sum(),
        _ => None,
    }
}

fn status(t: &mut Table, status: &Value, lasted: f64, cpu_s: Option<f64>) {
    t.put("box_cpu", cpu_s.map(|s| s / lasted));
    if status["peer"].is_object() {
        let arrived = total(&status["peer"]["arrived"]);
        t.put("arrived", arrived);
        for key in ["dropped", "marked"] {
            t.put(key, total(&status["peer"][key]).zip(arrived).map(|(n, all)| n / all));
        }
        return;
    }
    let report = &status["down"]["report"];
    t.put("believed_kbps", report["follows"]["rate_bps"].as_f64().map(|bps| bps / 1e3));
    let counters = &report["counters"];
    let arrived = total(&counters["arrived"]);
    t.put("arrived", arrived);
    for key in ["dropped", "suppressed", "marked"] {
        t.put(key, total(&counters[key]).zip(arrived).map(|(n, all)| n / all));
    }
    for key in ["clamped", "refused"] {
        t.put(key, total(&counters[key]));
    }
    let admission = &report["admission"];
    t.put("admission_waiting", total(&admission["waiting"]));
    for (key, name) in [("admission_wait_p50_s", "wait_p50"), ("admission_wait_p99_s", "wait_p99")] {
        t.put(key, seconds(admission, name));
    }
}

/// A duration under `NAME_s`, `NAME_ms` or `NAME_ns`.
fn seconds(v: &Value, name: &str) -> Option<f64> {
    [("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)]
        .iter()
        .find_map(|(unit, scale)| v[format!("{name}_{unit}")].as_f64().map(|x| x * scale))
}

/// Reason why a run must not be believed; `None` if it may be.
#[must_use]
pub fn spoiled(values: &Values) -> Option<String> {
    if let Some(frames) = values.get("emulator_overrun") {
        return Some(format!(
            "SPOILED: the emulator had no room for {frames:.0} frames, which no queue dropped"
        ));
    }
    [("emulator_late_p99_ms", "the emulator"), ("box_wait_p99_ms", "the box")].into_iter().find_map(
        |(key, who)| {
            let ms = *values.get(key)?;
            (ms > SPOILED_MS)
                .then(|| format!("SPOILED: {who} was {ms:.1} ms late at p99; the machine was too busy"))
        },
    )
}

/// Median and range of each number over runs. A number some runs lack is taken over those that have it.
#[must_use]
pub fn summarize(runs: &[Values]) -> BTreeMap<String, Spread> {
    let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for run in runs {
        for (key, value) in run {
            all.entry(key).or_default().push(*value);
        }
    }
    all.into_iter()
        .filter_map(|(key, values)| {
            let v = sorted(values.into_iter());
            let spread = Spread { median: quantile(&v, 0.5)?, min: *v.first()?, max: *v.last()? };
            Some((key.to_owned(), spread))
        })
        .collect()
}

#[cfg(test)]
mod tests;
