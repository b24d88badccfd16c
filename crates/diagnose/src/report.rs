//! Report on one connection.

use serde::Serialize;

use narrows_units::{Duration, Instant};
use narrows_wire::FlowKey;

use crate::connection::Connection;
use crate::counts::Counts;
use crate::findings::{Cause, End, Event, Stall, seconds};
use crate::sender::Sender;
use crate::spread::Spread;
use crate::why::Why;

/// Where on the path of a connection's data the capture was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Vantage {
    /// At the sender, or so near that it makes no difference: less than a tenth of the round trip lies between.
    Sender,
    /// At the receiver.
    Receiver,
    /// Between both.
    Between,
    /// The halves of the round trip are not known: only one direction was seen, or no handshake and no timestamps.
    #[default]
    Unknown,
}

/// One direction of a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DirectionReport {
    /// Counts of packets, bytes and repairs.
    #[serde(flatten)]
    pub counts: Counts,
    /// The smoothed round trip at the end, seconds.
    pub rtt_s: Option<f64>,
    /// The least round trip that was timed, seconds.
    pub rtt_least_s: Option<f64>,
    /// The median of the round trips that were timed, seconds; within 7 %.
    pub rtt_p50_s: Option<f64>,
    /// The round trip that one in twenty exceeded, seconds; within 7 %.
    pub rtt_p95_s: Option<f64>,
    /// Time in which a transfer was under way, seconds: without what the applications let pass.
    pub transfer_s: f64,
    /// The least of the half from the capture to the receiver and back, seconds.
    pub receiver_half_s: Option<f64>,
    /// The least of the half from the capture to the sender and back, seconds.
    pub sender_half_s: Option<f64>,
    /// Where the capture was taken.
    pub vantage: Vantage,
    /// Time spent in stalls, without what nobody waited for, seconds.
    pub stalled_s: f64,
    /// All round trips that were timed.
    #[serde(skip)]
    pub(crate) trips: Spread,
}

/// One connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowReport {
    /// Place of the connection among the connections of the capture, ordered by first packets, from 0.
    pub number: u64,
    /// The end that opened the connection, as far as is known.
    pub opener: End,
    /// The end that did not open the connection.
    pub other: End,
    /// Whether the handshake was seen.
    pub opened: bool,
    /// Whether the connection ended within the capture: with FIN in both directions, or by a RST.
    pub closed: bool,
    /// Whether the connection ended by a RST.
    pub reset: bool,
    /// Time of the first packet.
    #[serde(rename = "from_s", serialize_with = "seconds")]
    pub from: Instant,
    /// Time of the last packet.
    #[serde(rename = "to_s", serialize_with = "seconds")]
    pub to: Instant,
    /// Packets of both directions.
    pub packets: u64,
    /// Whether packets of one end alone were captured.
    pub one_way: bool,
    /// Data of the opener, and of the other end.
    pub directions: [DirectionReport; 2],
    /// Stalls, by time; of each direction the first 1024.
    pub stalls: Vec<Stall>,
    /// Segments sent again, by time; of each direction the first 4096.
    pub events: Vec<Event>,
    /// Verdicts about the frame that [`crate::Analyzer::ask_why`] named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub whys: Vec<Why>,
}

impl DirectionReport {
    fn of(s: &mut Sender) -> Self {
        let seconds = |d: Option<Duration>| d.map(Duration::as_secs_f64);
        let spread = s.timing_mut().take_spread();
        let (trips, findings) = (s.timing().trips(), s.findings());
        let (receiver, sender) = (trips.receiver_least(), trips.sender_least());
        Self {
            counts: findings.counts,
            rtt_s: seconds(trips.srtt()),
            rtt_least_s: spread.least_s(),
            rtt_p50_s: spread.quantile_s(0.5),
            rtt_p95_s: spread.quantile_s(0.95),
            transfer_s: s.transferred().as_secs_f64(),
            trips: spread,
            receiver_half_s: seconds(receiver),
            sender_half_s: seconds(sender),
            vantage: vantage(receiver, sender),
            stalled_s: findings.stalled.as_secs_f64(),
        }
    }
}

fn vantage(receiver: Option<Duration>, sender: Option<Duration>) -> Vantage {
    let (Some(receiver), Some(sender)) = (receiver, sender) else { return Vantage::Unknown };
    let tenth = (receiver + sender) / 10;
    match () {
        () if sender <= tenth => Vantage::Sender,
        () if receiver <= tenth => Vantage::Receiver,
        () => Vantage::Between,
    }
}

impl FlowReport {
    /// Reports on a connection of which nothing more will be seen.
    pub(crate) fn of(mut c: Connection) -> Self {
        let (now, frame) = (c.last, c.last_frame);
        c.finish(now, frame);
        let end = |address, port| End { address, port };
        let [mut a, mut b] = c.senders;
        let mut stalls = core::mem::take(&mut a.findings_mut().stalls);
        stalls.append(&mut b.findings_mut().stalls);
        stalls.sort_by_key(|s| (s.from, s.by));
        let mut events = core::mem::take(&mut a.findings_mut().events);
        events.append(&mut b.findings_mut().events);
        events.sort_by_key(|e| (e.at, e.by));
        let mut whys = a.findings_mut().asked.take();
        whys.append(&mut b.findings_mut().asked.take());
        whys.sort_by_key(|w| (w.at, w.by));
        Self {
            number: c.number,
            opener: end(c.key.src(), c.key.sport),
            other: end(c.key.dst(), c.key.dport),
            opened: c.opened,
            closed: c.closed.is_some(),
            reset: c.reset,
            from: c.first,
            to: c.last,
            packets: c.packets,
            one_way: c.seen[0] != c.seen[1],
            directions: [DirectionReport::of(&mut a), DirectionReport::of(&mut b)],
            stalls,
            events,
            whys,
        }
    }

    /// The key, from the opener.
    #[must_use]
    pub fn key(&self) -> FlowKey {
        let (a, b) = (self.opener, self.other);
        FlowKey::new(a.address, b.address, a.port, b.port, narrows_wire::Proto::TCP)
    }

    /// Sum of the counts of both directions.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut all = self.directions[0].counts;
        all.merge(&self.directions[1].counts);
        all
    }

    /// The direction with more data.
    #[must_use]
    pub fn main(&self) -> &DirectionReport {
        let [a, b] = &self.directions;
        if a.counts.bytes > b.counts.bytes { a } else { b }
    }

    /// The longest time that somebody waited, with the stall.
    #[must_use]
    pub fn longest(&self) -> Option<&Stall> {
        self.stalls.iter().filter(|s| s.cause.counts()).max_by_key(|s| s.length())
    }

    /// Time in which one of the directions stood still, seconds: never more than the connection lasted.
    #[must_use]
    pub fn stalled_s(&self) -> f64 {
        // By their beginnings.
        let (mut stalled, mut until) = (Duration::ZERO, Instant::ZERO);
        for s in self.stalls.iter().filter(|s| s.cause.counts()) {
            stalled += s.to.since(s.from.max(until));
            until = until.max(s.to);
        }
        stalled.as_secs_f64()
    }

    /// The cause of most of that time.
    #[must_use]
    pub fn main_cause(&self) -> Option<Cause> {
        let time = |cause: Cause| -> u64 {
            self.stalls.iter().filter(|s| s.cause == cause).map(|s| s.length().as_nanos()).sum()
        };
        Cause::ALL.into_iter().filter(|c| c.counts() && time(*c) > 0).max_by_key(|c| time(*c))
    }
}
