//! Connections that last: flows without end, among which fairness is judged slice by slice, and those an application
//! writes to now and then.
//!
//! Nothing is counted per packet here: at the end of a slice every flow is asked how far it has come.

use narrows_units::{Duration, Instant};

use super::report::{MAX, P50, P99, Report, integers, numbers};
use super::tally::Tally;
use super::transfers::silences;
use crate::connection::{Connection, DATA};
use crate::statistics::{jain, mean, sorted, top_share};

/// Most (flow, slice) pairs of which the bytes are kept for the table; the figures are of all.
const MOST_SHARES: usize = 1 << 22;

#[derive(Clone, Copy, Debug)]
struct Flow {
    class: u16,
    user: u32,
    /// Whether it has no end and takes part in what is said of fairness.
    endless: bool,
    /// The first attempt.
    opened: Instant,
    connected: Option<Instant>,
    /// Its connection at present.
    place: Option<u32>,
    /// Whether it was ended by its application: one that failed still wants its share.
    ended: bool,
    /// What its earlier connections did.
    before: Tally,
    /// What all of them had done when counting began.
    at_warmup: Tally,
    /// Payload delivered when the slice began.
    at_slice: u64,
    /// The longest silence of earlier connections.
    silence: Duration,
    backoff_max: u32,
}

/// What was seen in a slice.
#[derive(Clone, Copy, Debug)]
struct Slice {
    start: Instant,
    flows: u64,
    /// Of all connections, those that do not last among them.
    delivered: u64,
    jain: f64,
    zero: u64,
    top40: f64,
}

/// All flows and slices.
#[derive(Debug, Default)]
pub(super) struct Flows {
    flows: Vec<Flow>,
    slices: Vec<Slice>,
    /// Bytes of each flow in each slice: slice, flow, bytes.
    shares: Vec<(u32, u32, u64)>,
    slice_start: Instant,
    delivered_before: u64,
    warmup: Instant,
}

impl Flows {
    pub(super) fn opened(&mut self, place: u32, c: &mut Connection) {
        let first = c.stats.first_attempt;
        let again = (c.stats.retries > 0)
            .then(|| {
                let same = |f: &Flow| (f.class, f.user, f.opened) == (c.class, c.user, first);
                self.flows.iter().position(|f| f.place.is_none() && same(f))
            })
            .flatten();
        let row = again.unwrap_or(self.flows.len());
        if again.is_none() {
            self.flows.push(Flow {
                class: c.class,
                user: c.user,
                endless: c.size == u64::MAX,
                opened: first,
                connected: None,
                place: None,
                ended: false,
                before: Tally::default(),
                at_warmup: Tally::default(),
                at_slice: 0,
                silence: Duration::ZERO,
                backoff_max: 0,
            });
        }
        self.flows[row].place = Some(place);
        c.stats.row = u32::try_from(row).ok();
    }

    /// A flow's connection ends, because the flow does or not; `lost` data segments of it were.
    pub(super) fn retired(&mut self, now: Instant, c: &Connection, lost: u64, ended: bool) {
        let Some(flow) = c.stats.row.and_then(|row| self.flows.get_mut(row as usize)) else { return };
        flow.place = None;
        flow.ended = ended;
        flow.before = flow.before.plus(Tally { connections: 0, ..Tally::of(c, lost) });
        flow.silence = flow.silence.max(silences(&c.stats, now, c.stats.delivered < c.size).0);
        flow.connected = flow.connected.or(c.stats.established);
        flow.backoff_max = flow.backoff_max.max(c.ends[DATA].counters().max_backoff);
    }

    /// Counting begins: silences count as far as they lie after `now`.
    pub(super) fn warm_up(
        &mut self,
        now: Instant,
        connections: &mut [Connection],
        lost: &dyn Fn(u32, u32) -> u64,
    ) {
        for flow in &mut self.flows {
            flow.at_warmup = flow.before;
            flow.silence = Duration::ZERO;
            let Some(place) = flow.place else { continue };
            let c = &mut connections[place as usize];
            let tally = Tally { connections: 0, ..Tally::of(c, lost(place, c.generation)) };
            flow.at_warmup = flow.before.plus(tally);
            (c.stats.first_silence, c.stats.longest_silence) = (Duration::ZERO, Duration::ZERO);
            c.stats.last_delivery = c.stats.last_delivery.max(now);
        }
        self.warmup = now;
    }

    /// A slice begins; `delivered` bytes were, by all connections.
    pub(super) fn begin_slice(&mut self, now: Instant, connections: &[Connection], delivered: u64) {
        for flow in &mut self.flows {
            flow.at_slice = flow.delivered(connections);
        }
        (self.slice_start, self.delivered_before) = (now, delivered);
    }

    /// A slice ends and the next begins.
    pub(super) fn end_slice(&mut self, now: Instant, connections: &[Connection], delivered: u64) {
        let number = u32::try_from(self.slices.len()).unwrap_or(u32::MAX);
        let mut shares = Vec::with_capacity(self.flows.len());
        for (row, flow) in (0..).zip(&self.flows) {
            if flow.lasts_since(self.slice_start) {
                let bytes = flow.delivered(connections) - flow.at_slice;
                shares.push(bytes);
                if self.shares.len() < MOST_SHARES {
                    self.shares.push((number, row, bytes));
                }
            }
        }
        self.slices.push(Slice {
            start: self.slice_start,
            flows: shares.len() as u64,
            delivered: delivered - self.delivered_before,
            jain: jain(&shares),
            zero: shares.iter().filter(|s| **s == 0).count() as u64,
            top40: top_share(&mut shares).unwrap_or(f64::NAN),
        });
        self.begin_slice(now, connections, delivered);
    }

    /// To be called when all connections are retired.
    pub(super) fn report(&self, slice: Duration, end: Instant, out: &mut Report) {
        self.report_fairness(slice, out);
        let silences = sorted(self.flows.iter().filter(|f| f.endless).map(|f| f.silence.as_secs_f64()));
        out.quantiles("flow_silence", &silences, &[P50, P99, MAX]);
        self.tables(end, out);
    }

    fn report_fairness(&self, slice: Duration, out: &mut Report) {
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
        let long: Vec<u64> =
            self.flows.iter().filter(|f| f.lasts_since(self.warmup)).map(Flow::counted).collect();
        out.put("jain_long", (!long.is_empty()).then(|| jain(&long)));
    }

    fn tables(&self, end: Instant, out: &mut Report) {
        let f = || self.flows.iter();
        let counted = |of: fn(&Tally) -> u64| f().map(move |f| of(&f.before.since(f.at_warmup)));
        let seconds = end.since(self.warmup).as_secs_f64();
        let connected = |f: &Flow| f.connected.map_or(f64::NAN, |at| at.since(f.opened).as_secs_f64());
        if !self.flows.is_empty() {
            out.table(
                "flows",
                vec![
                    integers("class", f().map(|f| f.class.into())),
                    integers("user", f().map(|f| f.user.into())),
                    numbers("start_s", f().map(|f| f.opened.as_secs_f64())),
                    numbers("connect_s", f().map(connected)),
                    integers("delivered_bytes", counted(|t| t.delivered)),
                    numbers("goodput_kbps", f().map(|f| f.counted() as f64 * 8e-3 / seconds)),
                    numbers("silence_s", f().map(|f| f.silence.as_secs_f64())),
                    integers("data_sent", counted(|t| t.data_sent)),
                    integers("retransmitted", counted(|t| t.retransmitted)),
                    integers("lost", counted(|t| t.lost)),
                    integers("timeouts", counted(|t| t.timeouts)),
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

    /// The flows that have a connection, and its place.
    pub(super) fn places(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(&self.flows).filter_map(|(row, f)| Some((row, f.place?)))
    }
}

impl Flow {
    /// Whether it was there at `start` and still wants its share.
    fn lasts_since(&self, start: Instant) -> bool {
        self.endless && self.opened <= start && !self.ended
    }

    fn delivered(&self, connections: &[Connection]) -> u64 {
        self.before.delivered + self.place.map_or(0, |p| connections[p as usize].stats.delivered)
    }

    /// Payload delivered since counting began, when all connections are retired.
    fn counted(&self) -> u64 {
        self.before.delivered - self.at_warmup.delivered
    }
}
