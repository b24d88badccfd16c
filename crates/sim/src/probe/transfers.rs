//! Objects: when each was asked for, connected, begun and done, and how long nothing came of it.
//!
//! What is cut off by the end of the run counts, with the stall it had until then.

use std::collections::BTreeMap;

use narrows_scenario::Group;
use narrows_units::{Duration, Instant};

use super::plan::ProbePlan;
use super::report::{MAX, MIN, P10, P50, P90, P95, P99, Tables, Which, integers, numbers, words};
use super::tally::{LARGE, SMALL};
use crate::connection::Connection;
use crate::flow_stats::{FlowStats, OptionalInstant};
use crate::host_config::DATA;
use crate::statistics::{mean, quantile, sorted};

/// Most transfers that are kept, 80 bytes each; further ones are only counted.
const MOST: usize = 1 << 24;
/// Most buckets of sizes in a table.
const MOST_BUCKETS: u64 = 1000;

/// Outcome of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferEnd {
    Done,
    /// The sender gave the transfer up.
    Failed,
    /// The end of the run, or the application, stopped the transfer.
    Cut,
    /// The connection failed and the transfer was tried again; a later row has the rest.
    TriedAgain,
}

/// Times since the start; [`NONE`] for what did not happen.
#[derive(Clone, Copy, Debug)]
struct Row {
    start: Instant,
    /// Size of the object without the header.
    size: u64,
    connected: Duration,
    first_byte: Duration,
    /// End of the transfer, with or without success.
    end: Duration,
    acked: Duration,
    stall: Duration,
    stall_connected: Duration,
    user: u32,
    retransmitted: u32,
    timeouts: u32,
    class: u16,
    outcome: TransferEnd,
}

const NONE: Duration = Duration::MAX;
const _: () = assert!(size_of::<Row>() <= 80);

/// The longest time without a delivery while data was due, up to `end` if it still is; and the same without the time it
/// took to connect.
pub(super) fn stalls(s: &FlowStats, end: Instant, due: bool) -> (Duration, Duration) {
    let connected = s.established.come().unwrap_or(end);
    let after = |from: Instant, to: Instant| to.since(from.max(connected));
    let tail = if due { end.since(s.last_delivery) } else { Duration::ZERO };
    let tail_connected = if due { after(s.last_delivery, end) } else { Duration::ZERO };
    let first = s.first_delivery.come().map_or(Duration::ZERO, |at| s.first_stall.min(at.since(connected)));
    (s.first_stall.max(s.longest_stall).max(tail), first.max(s.longest_stall).max(tail_connected))
}

/// Rows of all transfers, and counts of the transfers beyond the limit.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    rows: Vec<Row>,
    /// Places of failed transfers that have not been tried again yet.
    failed: Vec<usize>,
    unkept: u64,
    /// Time at which each row was written, if rows of other parts are to be put in between.
    ends: Option<Vec<Instant>>,
}

impl Transfers {
    /// Begins to keep when rows are written.
    pub(super) fn keep_ends(&mut self) {
        self.ends = Some(Vec::new());
    }

    /// Joins the transfers of all parts, in the order in which the transfers ended.
    pub(super) fn join(parts: Vec<Self>) -> Self {
        let mut order: Vec<(Instant, usize, usize)> = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let ends = part.ends.iter().flatten().enumerate();
            order.extend(ends.map(|(row, end)| (*end, number, row)));
        }
        order.sort_by_key(|(end, ..)| *end);
        let beyond = order.len().saturating_sub(MOST) as u64;
        let kept = order.iter().take(MOST);
        Self {
            rows: kept.map(|(_, part, row)| parts[*part].rows[*row]).collect(),
            unkept: beyond + parts.iter().map(|part| part.unkept).sum::<u64>(),
            ..Self::default()
        }
    }

    /// A connection is opened for a transfer whose earlier connection failed.
    pub(super) fn tried_again(&mut self, c: &Connection) {
        let same = |row: &Row| (row.class, row.user, row.start) == (c.class, c.user, c.stats.first_attempt);
        if let Some(at) = self.failed.iter().rposition(|row| same(&self.rows[*row])) {
            self.rows[self.failed.swap_remove(at)].outcome = TransferEnd::TriedAgain;
        }
    }

    /// A transfer is over.
    pub(super) fn over(&mut self, now: Instant, c: &Connection) {
        if self.rows.len() >= MOST {
            self.unkept += 1;
            return;
        }
        let (s, k) = (&c.stats, c.ends.counters(DATA));
        let since = |at: OptionalInstant| at.come().map_or(NONE, |at| at.since(s.first_attempt));
        let outcome = match (s.delivered_at.come(), s.failed) {
            (Some(_), _) => TransferEnd::Done,
            (None, true) => TransferEnd::Failed,
            (None, false) => TransferEnd::Cut,
        };
        let end = s.delivered_at.come().unwrap_or(now);
        let (stall, stall_connected) = stalls(s, end, s.delivered_at == OptionalInstant::NEVER);
        if outcome == TransferEnd::Failed {
            self.failed.push(self.rows.len());
        }
        if let Some(ends) = &mut self.ends {
            ends.push(now);
        }
        self.rows.push(Row {
            start: s.first_attempt,
            size: c.object(),
            connected: since(s.established),
            first_byte: since(s.first_delivery),
            end: end.since(s.first_attempt),
            acked: since(s.acked_at),
            stall,
            stall_connected,
            user: c.user,
            retransmitted: k.retransmitted,
            timeouts: k.timeouts,
            class: c.class,
            outcome,
        });
    }

    /// The figures are of what ended after the warm-up; the table has all.
    pub(super) fn report(self, plan: &ProbePlan, out: &mut Tables) {
        if self.rows.is_empty() {
            return;
        }
        let counted: Vec<&Row> = self
            .rows
            .iter()
            .filter(|r| r.outcome != TransferEnd::TriedAgain && r.start + r.end > plan.warmup)
            .collect();
        figures(&counted, out);
        for group in &plan.groups {
            group_figures(group, &counted, out);
        }
        sizes(&counted, plan.mss, out);
        out.put("objects_unkept", (self.unkept > 0).then_some(self.unkept as f64));
        drop(counted);
        self.table(out);
    }

    fn table(&self, out: &mut Tables) {
        let r = || self.rows.iter();
        let seconds = |of: fn(&Row) -> Duration| {
            r().map(move |row| if of(row) == NONE { f64::NAN } else { of(row).as_secs_f64() })
        };
        out.table(
            "transfers",
            vec![
                integers("class", r().map(|r| r.class.into())),
                integers("user", r().map(|r| r.user.into())),
                integers("size_bytes", r().map(|r| r.size)),
                numbers("start_s", r().map(|r| r.start.as_secs_f64())),
                numbers("connect_s", seconds(|r| r.connected)),
                numbers("first_byte_s", seconds(|r| r.first_byte)),
                numbers("done_s", seconds(|r| if r.outcome == TransferEnd::Done { r.end } else { NONE })),
                numbers("acked_s", seconds(|r| r.acked)),
                numbers("end_s", seconds(|r| r.end)),
                numbers("stall_s", seconds(|r| r.stall)),
                integers("retransmitted", r().map(|r| r.retransmitted.into())),
                integers("timeouts", r().map(|r| r.timeouts.into())),
                integers("outcome", r().map(|r| r.outcome as u64)),
            ],
        );
    }
}

/// Duration of a finished transfer, seconds; `None` for others.
fn time(row: &&Row) -> Option<f64> {
    (row.outcome == TransferEnd::Done).then(|| row.end.as_secs_f64())
}

fn figures(rows: &[&Row], out: &mut Tables) {
    let count = |outcome| rows.iter().filter(|r| r.outcome == outcome).count() as f64;
    out.put("objects_done", count(TransferEnd::Done));
    out.put("objects_failed", count(TransferEnd::Failed));
    out.put("objects_cut", count(TransferEnd::Cut));
    // One list at a time: with millions of transfers each is megabytes.
    times(rows, out);
    let per_kb = sorted(rows.iter().filter_map(|r| Some(time(r)? * 1e3 / r.size as f64)));
    out.quantiles("per_kb", &per_kb, &[P50, P99]);
    out.put("per_kb_spread", spread(&per_kb));
    drop(per_kb);
    out.put("user_per_kb_spread", spread(&by_user(rows)));
    silent(rows, out);
    // A connection that never stood was waited for to the end.
    out.quantiles("connect", &sorted(rows.iter().map(|r| r.connected.min(r.end).as_secs_f64())), &[P50, P99]);
    let first = rows.iter().filter(|r| r.first_byte != NONE);
    out.quantiles("first_byte", &sorted(first.map(|r| r.first_byte.as_secs_f64())), &[P50, P99]);
}

/// Writes the durations of finished transfers: of all, small and large ones.
fn times(rows: &[&Row], out: &mut Tables) {
    let times = |keep: &dyn Fn(&Row) -> bool| sorted(rows.iter().filter(|r| keep(r)).filter_map(time));
    let all = times(&|_| true);
    out.quantiles("object", &all, &[MIN, P10, P50, P90, P95, P99, MAX]);
    out.put("object_mean_s", mean(&all));
    drop(all);
    out.quantiles("small", &times(&|r| r.size <= SMALL), &[P10, P50, P90, MAX]);
    out.quantiles("large", &times(&|r| r.size >= LARGE), &[P10, P50, P90, MAX]);
}

/// The finished objects of a group: times to the last byte, and to its acknowledgment.
fn group_figures(group: &Group, rows: &[&Row], out: &mut Tables) {
    let own = || rows.iter().filter(|r| group.has(r.class.into(), r.size) && r.outcome == TransferEnd::Done);
    let name = format!("of_{}", group.name);
    out.put(format!("{name}_done"), own().count() as f64);
    spread_of(&name, &sorted(own().filter_map(time)), out);
    let acked = own().filter(|r| r.acked != NONE).map(|r| r.acked.as_secs_f64());
    spread_of(&format!("{name}_acked"), &sorted(acked), out);
    // Transfers that the end of the run cut off stalled too.
    let all = rows.iter().filter(|r| group.has(r.class.into(), r.size));
    let stalls = sorted(all.map(|r| r.stall.as_secs_f64()));
    let stem = format!("{name}_stall");
    out.quantiles(&stem, &stalls, &[P99]);
    long_stalls(&stem, &stalls, out);
}

/// `STEM_over_5s` and `STEM_over_20s` of a sorted list of stalls.
fn long_stalls(stem: &str, stalls: &[f64], out: &mut Tables) {
    let above = |limit: f64| stalls.len() - stalls.partition_point(|s| *s <= limit);
    for limit in [5.0, 20.0] {
        out.put(format!("{stem}_over_{limit}s"), above(limit) as f64 / stalls.len() as f64);
    }
}

/// Mean, quantiles, coefficient of variation, and the share at or below the mean, of a sorted list of seconds.
fn spread_of(stem: &str, times: &[f64], out: &mut Tables) {
    let Some(mean) = mean(times) else { return };
    let n = times.len() as f64;
    let variance = times.iter().map(|t| (t - mean) * (t - mean)).sum::<f64>() / n;
    out.put(format!("{stem}_mean_s"), mean);
    out.quantiles(stem, times, &[P50, P90, P99]);
    out.put(format!("{stem}_cov"), variance.sqrt() / mean);
    out.put(format!("{stem}_below_mean"), times.partition_point(|t| *t <= mean) as f64 / n);
}

/// Writes the times in which nothing came.
fn silent(rows: &[&Row], out: &mut Tables) {
    let stalls = sorted(rows.iter().map(|r| r.stall.as_secs_f64()));
    out.quantiles("stall", &stalls, &[P50, P90, P99, MAX]);
    long_stalls("stall", &stalls, out);
    drop(stalls);
    let connected = rows.iter().filter(|r| r.connected != NONE);
    let admitted = sorted(connected.map(|r| r.stall_connected.as_secs_f64()));
    out.quantiles("admitted_stall", &admitted, &[P99]);
}

fn spread(sorted: &[f64]) -> Option<f64> {
    Some(quantile(sorted, 0.99)? / quantile(sorted, 0.5)?)
}

/// Time that each user waited for all the user's bytes, seconds per kB.
fn by_user(rows: &[&Row]) -> Vec<f64> {
    let mut users: Vec<Option<(f64, f64)>> = Vec::new();
    for row in rows {
        if let Some(time) = time(row) {
            let at = row.user as usize;
            users.resize(users.len().max(at + 1), None);
            let (seconds, kb) = users[at].get_or_insert_default();
            *seconds += time;
            *kb += row.size as f64 / 1e3;
        }
    }
    sorted(users.into_iter().flatten().map(|(seconds, kb)| seconds / kb))
}

/// A way to sort sizes: name, number of a size's bucket, the sizes of a bucket.
type Buckets<'a> = (&'static str, &'a dyn Fn(u64) -> u64, &'a dyn Fn(u64) -> (u64, u64));

/// Quantiles of each bucket.
const QUANTILES: [Which; 6] = [MIN, P10, P50, P90, P99, MAX];

/// The finished transfers of one range of sizes.
struct Bucket {
    way: &'static str,
    range: (u64, u64),
    done: u64,
    at: [f64; 6],
    mean: f64,
}

/// Times by size, three ways: by powers of two, by 10 kB, by packets.
fn sizes(rows: &[&Row], mss: u32, out: &mut Tables) {
    let mss = u64::from(mss.max(1));
    let ways: [Buckets<'_>; 3] = [
        ("log2", &|size| size.max(1).ilog2().into(), &|n| (1 << n, (2 << n) - 1)),
        ("10kB", &|size| size / 10_000, &|n| (n * 10_000, n * 10_000 + 9_999)),
        ("packets", &|size| size.div_ceil(mss), &|n| ((n.max(1) - 1) * mss + 1, n * mss)),
    ];
    let mut table: Vec<Bucket> = Vec::new();
    for (way, number, range) in ways {
        let mut buckets: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for row in rows {
            let n = number(row.size);
            if let Some(time) = time(row).filter(|_| n < MOST_BUCKETS) {
                buckets.entry(n).or_default().push(time);
            }
        }
        for (n, mut times) in buckets {
            times.sort_by(f64::total_cmp);
            let at = QUANTILES.map(|(_, q)| quantile(&times, q).unwrap_or(f64::NAN));
            let mean = mean(&times).unwrap_or(f64::NAN);
            table.push(Bucket { way, range: range(n), done: times.len() as u64, at, mean });
        }
    }
    let t = || table.iter();
    let mut columns = vec![
        words("by", t().map(|b| b.way.to_owned())),
        integers("low_bytes", t().map(|b| b.range.0)),
        integers("high_bytes", t().map(|b| b.range.1)),
        integers("done", t().map(|b| b.done)),
    ];
    for (at, (name, _)) in QUANTILES.into_iter().enumerate() {
        columns.push(numbers(format!("{name}_s"), t().map(|b| b.at[at])));
    }
    columns.push(numbers("mean_s", t().map(|b| b.mean)));
    out.table("sizes", columns);
}
