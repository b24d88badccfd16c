//! Connections that last: flows without end, among which fairness is judged slice by slice, and those an application
//! writes to now and then.
//!
//! Nothing is counted per packet here: at the end of a slice every flow is asked how far it has come.

mod join;

use narrows_units::{Duration, Instant};

use super::report::{MAX, P50, P99, Tables, integers, numbers};
use super::transfers::stalls;
use crate::connection::Connection;
use crate::flow_stats::{NO_ROW, OptionalInstant};
use crate::host_config::DATA;
use crate::ids::FlowId;
use crate::statistics::{jain, mean, sorted, top_share};

/// Most (flow, slice) pairs of which the bytes are kept for the table; the figures are of all.
const MOST_SHARES: usize = 1 << 22;

#[derive(Clone, Copy, Debug)]
struct Flow {
    class: u16,
    /// Whether the flow is endless and so counts for fairness.
    endless: bool,
    /// Whether it was ended by its application: one that failed still wants its share.
    ended: bool,
    user: u32,
    /// The first attempt.
    opened: Instant,
    connected: OptionalInstant,
    /// Place of the flow's present connection; [`NO_PLACE`] for none.
    place: FlowId,
    backoff_max: u32,
    /// Sums over the flow's earlier connections.
    before: Done,
    /// The longest stall of earlier connections.
    stall: Duration,
}

const NO_PLACE: FlowId = FlowId(u32::MAX);

/// Sums over the connections of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    delivered: u64,
    data_sent: u64,
    retransmitted: u32,
    lost: u32,
    timeouts: u32,
}

impl Done {
    /// Counts of one connection so far; `lost` of its data segments were lost.
    fn of(c: &Connection, lost: u64) -> Self {
        let k = c.ends.counters(DATA);
        Self {
            delivered: c.stats.delivered,
            data_sent: k.data_sent,
            retransmitted: k.retransmitted,
            lost: u32::try_from(lost).unwrap_or(u32::MAX),
            timeouts: k.timeouts,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            delivered: self.delivered + other.delivered,
            data_sent: self.data_sent + other.data_sent,
            retransmitted: self.retransmitted.saturating_add(other.retransmitted),
            lost: self.lost.saturating_add(other.lost),
            timeouts: self.timeouts.saturating_add(other.timeouts),
        }
    }
}

/// Measurements of one slice.
#[derive(Clone, Copy, Debug)]
struct Slice {
    start: Instant,
    flows: u64,
    /// Payload delivered on all connections, short ones included, bytes.
    delivered: u64,
    jain: f64,
    zero: u64,
    top40: f64,
}

impl Slice {
    /// Creates a slice in which each flow got one of `shares`, in the order of the flows.
    fn of(start: Instant, delivered: u64, shares: &mut [u64]) -> Self {
        Self {
            start,
            flows: shares.len() as u64,
            delivered,
            jain: jain(shares),
            zero: shares.iter().filter(|s| **s == 0).count() as u64,
            top40: top_share(shares).unwrap_or(f64::NAN),
        }
    }
}

/// All flows and slices.
#[derive(Debug, Default)]
pub(super) struct Flows {
    flows: Vec<Flow>,
    /// Sums of the flows that existed when counting began, in the flows' order.
    at_warmup: Vec<Done>,
    slices: Vec<Slice>,
    /// Bytes of each flow in each slice: slice, flow, bytes.
    shares: Vec<(u32, u32, u64)>,
    slice_start: Instant,
    /// Bytes each flow had got when the slice began; kept only if there are endless flows.
    at_slice: Vec<u64>,
    delivered_before: u64,
    warmup: Instant,
    /// Whether shares are kept without limit, to be joined with those of other parts.
    keeps_all: bool,
}

impl Flows {
    pub(super) fn opened(&mut self, place: FlowId, c: &mut Connection) {
        let first = c.stats.first_attempt;
        let again = (c.stats.retries > 0)
            .then(|| {
                let same = |f: &Flow| (f.class, f.user, f.opened) == (c.class, c.user, first);
                self.flows.iter().position(|f| f.place == NO_PLACE && same(f))
            })
            .flatten();
        let row = again.unwrap_or(self.flows.len());
        if again.is_none() {
            self.flows.push(Flow {
                class: c.class,
                endless: c.size == u64::MAX,
                ended: false,
                user: c.user,
                opened: first,
                connected: OptionalInstant::NEVER,
                place: NO_PLACE,
                backoff_max: 0,
                before: Done::default(),
                stall: Duration::ZERO,
            });
        }
        // A wait on earlier connections of the flow counts only as far as it lies after the warm-up.
        c.stats.last_delivery = c.stats.last_delivery.max(self.warmup);
        self.flows[row].place = place;
        c.stats.row = u32::try_from(row).unwrap_or(NO_ROW);
    }

    /// A flow's connection ends, because the flow does or not; `lost` data segments of it were.
    pub(super) fn retired(&mut self, now: Instant, c: &Connection, lost: u64, ended: bool) {
        let Some(flow) = self.flows.get_mut(c.stats.row as usize) else { return };
        flow.place = NO_PLACE;
        flow.ended = ended;
        flow.before = flow.before.plus(Done::of(c, lost));
        flow.stall = flow.stall.max(stalls(&c.stats, now, c.stats.delivered < c.size).0);
        flow.connected = flow.connected.min(c.stats.established);
        flow.backoff_max = flow.backoff_max.max(c.ends.counters(DATA).max_backoff);
    }

    /// Begins counting: stalls count as far as the stalls lie after `now`.
    pub(super) fn warm_up(
        &mut self,
        now: Instant,
        connections: &mut [Connection],
        lost: &dyn Fn(FlowId, u32) -> u64,
    ) {
        self.at_warmup = self.flows.iter().map(|flow| flow.before).collect();
        for (flow, at_warmup) in self.flows.iter_mut().zip(&mut self.at_warmup) {
            flow.stall = Duration::ZERO;
            let place = flow.place;
            let Some(c) = connections.get_mut(place.index()) else { continue };
            *at_warmup = flow.before.plus(Done::of(c, lost(place, c.generation)));
            (c.stats.first_stall, c.stats.longest_stall) = (Duration::ZERO, Duration::ZERO);
            c.stats.last_delivery = c.stats.last_delivery.max(now);
        }
        self.warmup = now;
    }

    /// A slice begins; `delivered` bytes were, by all connections.
    pub(super) fn begin_slice(&mut self, now: Instant, connections: &[Connection], delivered: u64) {
        self.at_slice.clear();
        if self.flows.iter().any(|flow| flow.endless) {
            self.at_slice.extend(self.flows.iter().map(|flow| flow.delivered(connections)));
        }
        (self.slice_start, self.delivered_before) = (now, delivered);
    }

    /// A slice ends and the next begins.
    pub(super) fn end_slice(&mut self, now: Instant, connections: &[Connection], delivered: u64) {
        let number = u32::try_from(self.slices.len()).unwrap_or(u32::MAX);
        let mut shares = Vec::with_capacity(self.flows.len());
        for (row, flow) in (0..).zip(&self.flows) {
            if flow.lasts_since(self.slice_start) {
                let bytes = flow.delivered(connections) - self.at_slice.get(row as usize).unwrap_or(&0);
                shares.push(bytes);
                if self.keeps_all || self.shares.len() < MOST_SHARES {
                    self.shares.push((number, row, bytes));
                }
            }
        }
        self.slices.push(Slice::of(self.slice_start, delivered - self.delivered_before, &mut shares));
        self.begin_slice(now, connections, delivered);
    }

    /// Writes the figures and tables, once all connections are retired.
    pub(super) fn report(&self, slice: Duration, end: Instant, out: &mut Tables) {
        self.report_fairness(slice, out);
        let stalls = sorted(self.flows.iter().filter(|f| f.endless).map(|f| f.stall.as_secs_f64()));
        out.quantiles("flow_stall", &stalls, &[P50, P99, MAX]);
        self.tables(end, out);
    }

    fn report_fairness(&self, slice: Duration, out: &mut Tables) {
        let name = format!("jain_{}s", slice.as_secs_f64());
        let with_flows = || self.slices.iter().filter(|s| s.flows > 0);
        let indices: Vec<f64> = with_flows().map(|s| s.jain).collect();
        out.put(format!("{name}_min"), indices.iter().copied().reduce(f64::min));
        out.put(name, mean(&indices));
        let cells: u64 = with_flows().map(|s| s.flows).sum();
        let zero: u64 = with_flows().map(|s| s.zero).sum();
        out.put("zero_slices", (cells > 0).then(|| zero as f64 / cells as f64));
        let top: Vec<f64> = with_flows().map(|s| s.top40).filter(|t| t.is_finite()).collect();
        out.put("top40_share", mean(&top));
        let long: Vec<u64> = self
            .counted()
            .filter(|(f, _)| f.lasts_since(self.warmup))
            .map(|(f, before)| f.before.delivered - before.delivered)
            .collect();
        out.put("jain_long", (!long.is_empty()).then(|| jain(&long)));
    }

    fn tables(&self, end: Instant, out: &mut Tables) {
        let f = || self.flows.iter();
        let counted =
            |of: fn(&Done) -> u64| self.counted().map(move |(flow, before)| of(&flow.before) - of(&before));
        let seconds = end.since(self.warmup).as_secs_f64();
        let connected = |f: &Flow| f.connected.come().map_or(f64::NAN, |at| at.since(f.opened).as_secs_f64());
        if !self.flows.is_empty() {
            out.table(
                "flows",
                vec![
                    integers("class", f().map(|f| f.class.into())),
                    integers("user", f().map(|f| f.user.into())),
                    numbers("start_s", f().map(|f| f.opened.as_secs_f64())),
                    numbers("connect_s", f().map(connected)),
                    integers("delivered_bytes", counted(|d| d.delivered)),
                    numbers("goodput_kbps", counted(|d| d.delivered).map(|d| d as f64 * 8e-3 / seconds)),
                    numbers("stall_s", f().map(|f| f.stall.as_secs_f64())),
                    integers("data_sent", counted(|d| d.data_sent)),
                    integers("retransmitted", counted(|d| d.retransmitted.into())),
                    integers("lost", counted(|d| d.lost.into())),
                    integers("timeouts", counted(|d| d.timeouts.into())),
                    integers("backoff_max", f().map(|f| f.backoff_max.into())),
                ],
            );
        }
        let s = || self.slices.iter();
        out.table(
            "slices",
            vec![
                numbers("start_s", s().map(|s| s.start.as_secs_f64())),
                integers("flows", s().map(|s| s.flows)),
                integers("delivered_bytes", s().map(|s| s.delivered)),
                numbers("jain", s().map(|s| if s.flows > 0 { s.jain } else { f64::NAN })),
                integers("zero_flows", s().map(|s| s.zero)),
                numbers("top40_share", s().map(|s| s.top40)),
            ],
        );
        if !self.shares.is_empty() {
            out.table(
                "shares",
                vec![
                    integers("slice", self.shares.iter().map(|s| s.0.into())),
                    integers("flow", self.shares.iter().map(|s| s.1.into())),
                    integers("delivered_bytes", self.shares.iter().map(|s| s.2)),
                ],
            );
        }
    }

    /// The flows that have a connection, with the place of each connection.
    pub(super) fn places(&self) -> impl Iterator<Item = (u32, FlowId)> {
        (0..).zip(&self.flows).map(|(row, f)| (row, f.place)).filter(|(_, place)| *place != NO_PLACE)
    }

    /// Each flow, with the flow's sums when counting began.
    fn counted(&self) -> impl Iterator<Item = (&Flow, Done)> {
        let nothing = core::iter::repeat(Done::default());
        self.flows.iter().zip(self.at_warmup.iter().copied().chain(nothing))
    }
}

impl Flow {
    /// Whether the flow was open at `start` and still wants its share.
    fn lasts_since(&self, start: Instant) -> bool {
        self.endless && self.opened <= start && !self.ended
    }

    fn delivered(&self, connections: &[Connection]) -> u64 {
        self.before.delivered + connections.get(self.place.index()).map_or(0, |c| c.stats.delivered)
    }
}
