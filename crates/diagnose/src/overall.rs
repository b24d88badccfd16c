//! Sums over all connections of a capture.

use serde::Serialize;

use narrows_units::{Duration, Instant};

use crate::counts::Counts;
use crate::findings::{Cause, Certainty, Place, Stall};
use crate::report::{FlowReport, Vantage};
use crate::spread::Spread;

/// The stalls of one cause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CauseShare {
    /// The cause.
    pub cause: Cause,
    /// Number of stalls.
    pub stalls: u64,
    /// Sum of the stalls' lengths, seconds.
    pub time_s: f64,
    /// Length of the longest stall, seconds.
    pub longest_s: f64,
    /// Time of stalls whose cause is certain, seconds.
    pub certain_s: f64,
    /// Time of stalls whose cause is likely, seconds.
    pub likely_s: f64,
    /// Time of stalls whose cause is possible, seconds.
    pub possible_s: f64,
}

/// Sums over connections; the worst are kept whole.
#[derive(Clone, Debug, Serialize)]
pub struct Overall {
    /// Connections.
    pub connections: u64,
    /// Connections with data.
    pub with_data: u64,
    /// Connections with data of which one direction alone was captured.
    pub one_way: u64,
    /// Length from which on a stall is long, seconds.
    pub over_s: f64,
    /// Connections with a stall longer than `over_s`.
    pub stalled_over: u64,
    /// Packets of TCP.
    pub packets: u64,
    /// Time of the first packet, seconds.
    pub from_s: f64,
    /// Time of the last packet, seconds.
    pub to_s: f64,
    /// All counts of both directions.
    pub counts: Counts,
    /// Stalls by cause, the most time first.
    pub causes: Vec<CauseShare>,
    /// Time of stalls because of losses, by where packets were lost: unknown, before the capture, behind it, both.
    pub lost_s: [f64; 4],
    /// Time of stalls longer than `over_s`, seconds.
    pub long_s: f64,
    /// Time of stalls longer than `over_s` that losses caused, seconds.
    pub long_loss_s: f64,
    /// Connections by where the capture was taken: at the sender, at the receiver, between, unknown.
    pub vantage: [u64; 4],
    /// Data packets sent in a round trip while a transfer was under way: mean of connections with three round trips
    /// and more of it.
    pub packets_per_rtt: Option<f64>,
    /// Least round trip, seconds.
    pub rtt_least_s: Option<f64>,
    /// Median round trip, seconds.
    pub rtt_p50_s: Option<f64>,
    /// Round trip that one in twenty exceeded, seconds.
    pub rtt_p95_s: Option<f64>,
    /// Time that connections lasted, summed, seconds.
    pub lasted_s: f64,
    /// Time that one of a connection's directions stood still, summed, seconds: never more than `lasted_s`.
    pub stood_still_s: f64,
    /// The worst connections, the most time stalled first.
    #[serde(skip)]
    pub worst: Vec<FlowReport>,
    #[serde(skip)]
    keep: usize,
    #[serde(skip)]
    trips: Spread,
    #[serde(skip)]
    round_trips: f64,
    #[serde(skip)]
    sent: f64,
}

impl Overall {
    /// Stalls above `over` are long; `keep` connections are kept.
    #[must_use]
    pub fn new(over: Duration, keep: usize) -> Self {
        Self {
            connections: 0,
            with_data: 0,
            one_way: 0,
            over_s: over.as_secs_f64(),
            stalled_over: 0,
            packets: 0,
            from_s: f64::INFINITY,
            to_s: 0.0,
            counts: Counts::default(),
            causes: Vec::new(),
            lost_s: [0.0; 4],
            long_s: 0.0,
            long_loss_s: 0.0,
            vantage: [0; 4],
            packets_per_rtt: None,
            rtt_least_s: None,
            rtt_p50_s: None,
            rtt_p95_s: None,
            lasted_s: 0.0,
            stood_still_s: 0.0,
            worst: Vec::new(),
            keep,
            trips: Spread::default(),
            round_trips: 0.0,
            sent: 0.0,
        }
    }

    /// Adds a connection.
    pub fn add(&mut self, flow: FlowReport) {
        let counts = flow.counts();
        self.connections += 1;
        self.with_data += u64::from(counts.data > 0);
        // A SYN that nobody answers goes one way as well.
        self.one_way += u64::from(flow.one_way && counts.data > 0);
        self.packets += flow.packets;
        self.from_s = self.from_s.min(flow.from.as_secs_f64());
        self.to_s = self.to_s.max(flow.to.as_secs_f64());
        self.counts.merge(&counts);
        let mut long = false;
        for stall in flow.stalls.iter().filter(|s| s.cause.counts()) {
            let length = stall.length().as_secs_f64();
            self.cause(stall, length);
            if stall.cause.is_loss() {
                self.lost_s[place(stall.lost)] += length;
            }
            if length > self.over_s {
                long = true;
                self.long_s += length;
                self.long_loss_s += if stall.cause.is_loss() { length } else { 0.0 };
            }
        }
        self.stalled_over += u64::from(long);
        self.lasted_s += flow.to.since(flow.from).as_secs_f64();
        self.stood_still_s += flow.stalled_s();
        let main = flow.main();
        if counts.data > 0 {
            self.vantage[main.vantage as usize] += 1;
        }
        self.trips.merge(&main.trips);
        if let Some(rtt) = main.rtt_s.filter(|rtt| *rtt > 0.0 && main.transfer_s >= 3.0 * rtt) {
            self.round_trips += main.transfer_s / rtt;
            self.sent += (main.counts.data + main.counts.again) as f64;
            self.packets_per_rtt = (self.round_trips > 0.0).then(|| self.sent / self.round_trips);
        }
        self.remember(flow);
    }

    fn cause(&mut self, stall: &Stall, length: f64) {
        let cause = stall.cause;
        let at = self.causes.iter().position(|c| c.cause == cause).unwrap_or_else(|| {
            self.causes.push(CauseShare {
                cause,
                stalls: 0,
                time_s: 0.0,
                longest_s: 0.0,
                certain_s: 0.0,
                likely_s: 0.0,
                possible_s: 0.0,
            });
            self.causes.len() - 1
        });
        let share = &mut self.causes[at];
        share.stalls += 1;
        share.time_s += length;
        share.longest_s = share.longest_s.max(length);
        match stall.certainty {
            Certainty::Certain => share.certain_s += length,
            Certainty::Likely => share.likely_s += length,
            Certainty::Possible => share.possible_s += length,
        }
    }

    fn remember(&mut self, flow: FlowReport) {
        let time = flow.stalled_s();
        let at = self.worst.partition_point(|w| w.stalled_s() >= time);
        if at < self.keep && time > 0.0 {
            self.worst.truncate(self.keep.saturating_sub(1));
            self.worst.insert(at, flow);
        }
    }

    /// All connections were added.
    pub fn finish(&mut self) {
        self.causes.sort_by(|a, b| b.time_s.total_cmp(&a.time_s).then(a.cause.cmp(&b.cause)));
        (self.rtt_least_s, self.rtt_p50_s) = (self.trips.least_s(), self.trips.quantile_s(0.5));
        self.rtt_p95_s = self.trips.quantile_s(0.95);
        if self.from_s > self.to_s {
            self.from_s = self.to_s;
        }
    }

    /// Time of all stalls, seconds.
    #[must_use]
    pub fn stalled_s(&self) -> f64 {
        self.causes.iter().map(|c| c.time_s).sum()
    }

    /// Time of the stalls that lost packets caused, seconds.
    #[must_use]
    pub fn lost_time_s(&self) -> f64 {
        self.time_of(Cause::is_loss)
    }

    /// The part of the median round trip above the least, seconds: mostly queues.
    #[must_use]
    pub fn queue_s(&self) -> Option<f64> {
        self.rtt_p50_s.zip(self.rtt_least_s).map(|(median, least)| median - least)
    }

    /// Time of stalls whose cause is such, seconds.
    pub(crate) fn time_of(&self, is: impl Fn(Cause) -> bool) -> f64 {
        self.causes.iter().filter(|c| is(c.cause)).map(|c| c.time_s).sum()
    }

    /// Time in which packets, or their acknowledgments, waited in queues, seconds.
    #[must_use]
    pub fn waited_s(&self) -> f64 {
        self.time_of(|cause| cause.is_delay() || cause == Cause::AckDelayedOrLost)
    }

    /// Time in which an application at an end let the other wait, or its window was closed, seconds.
    #[must_use]
    pub fn applications_s(&self) -> f64 {
        self.time_of(|cause| matches!(cause, Cause::DataUnavailable | Cause::ZeroWindow))
    }

    /// Time in which an end asked and nothing came, seconds.
    #[must_use]
    pub fn unanswered_s(&self) -> f64 {
        self.time_of(|cause| cause == Cause::NoAnswer)
    }

    /// Time at which the last packet came.
    #[must_use]
    pub fn end(&self) -> Instant {
        Instant::from_nanos((self.to_s * 1e9) as u64)
    }

    /// Where most captures of connections were taken, if that can be said of any.
    #[must_use]
    pub fn vantage(&self) -> Vantage {
        let [sender, receiver, between, _] = self.vantage;
        match sender.max(receiver).max(between) {
            0 => Vantage::Unknown,
            n if n == sender => Vantage::Sender,
            n if n == receiver => Vantage::Receiver,
            _ => Vantage::Between,
        }
    }
}

const fn place(lost: Place) -> usize {
    match lost {
        Place::Unknown => 0,
        Place::Before => 1,
        Place::Behind => 2,
        Place::Both => 3,
    }
}
