//! Collection, while a capture is read, of all that a workload and a link are fitted to and compared by.

use core::net::IpAddr;
use std::collections::BTreeMap;

use narrows_diagnose::{Counts, Event, FlowReport, Place, Repair};
use narrows_units::Instant;
use narrows_wire::Header;

use super::follow::{Answer, AnswerKind, Following, Object};
use super::measure::{Figures, Measure};

/// Seconds of a capture in which bytes are counted apart: a year.
const MOST_SECONDS: usize = 366 * 86_400;
/// Answers that are kept of each side.
const MOST_ANSWERS: usize = 2_000_000;
/// Packets whose times are kept, of each direction.
const MOST_ARRIVALS: usize = 400_000;
/// Objects that are kept.
pub const MOST_OBJECTS: usize = 1_000_000;
/// Least number of duplicate acknowledgments, none with a SACK block, that tells of receivers without SACK.
const MANY: u64 = 50;
/// The longest IP packet of a link, bytes. A capture at an end shows longer ones: the network card cuts and joins them.
const LONGEST: u64 = 1500;

/// A connection that is over.
#[derive(Clone, Debug)]
pub struct FlowFit {
    pub user: IpAddr,
    pub objects: Vec<Object>,
    /// Least time to answer of the opener's side and of the other, seconds, by the diagnosis.
    pub halves: [Option<f64>; 2],
    pub first: Instant,
    /// Time of the last packet.
    pub last: Instant,
    /// Whether the connection ended within the capture.
    pub closed: bool,
    /// Whether all data seen was acknowledged at the end.
    pub quiet: bool,
    /// Whether the connection was refused: a RST came, and no data.
    pub refused: bool,
}

/// Bytes of one direction, by seconds.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// IP packets of TCP that passed.
    pub passed: Vec<u64>,
    /// IP packets of TCP without payload; `passed` counts them too.
    pub bare: Vec<u64>,
    /// IP packets that are not TCP.
    pub other: Vec<u64>,
    /// Payload acknowledged.
    pub acked: Vec<u64>,
    /// Payload bytes that receivers had already when the bytes came, as DSACK tells.
    pub twice: Vec<u64>,
    /// IP packets with payload; their lengths and their payload, in bytes.
    pub packets: u64,
    pub bytes: u64,
    pub payload: u64,
    /// Length of the longest packet.
    pub longest: u64,
}

/// An answer of a side.
#[derive(Clone, Copy, Debug)]
pub struct TimedAnswer {
    /// The user's place.
    pub place: u32,
    pub seconds: f32,
    /// Time at which the answered packet passed, seconds after the first packet.
    pub sent_s: f64,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at_s: f64,
    pub bytes: u32,
}

/// Round trips of a user: the shortest, and the number of answers that show round trips.
#[derive(Clone, Copy, Debug)]
pub struct Trips {
    /// The least of each side.
    pub least: [f32; 2],
    /// Answers of each side.
    pub answers: [u32; 2],
}

/// Collector of a capture's figures for the fit. Directions and sides are the opener's (0) and the other end's (1).
#[derive(Debug, Default)]
pub struct Collector {
    open: BTreeMap<u64, Following>,
    pub flows: Vec<FlowFit>,
    pub meters: [Meter; 2],
    /// Answers at once, and answers by echoes of timestamps.
    pub answers: [[Vec<TimedAnswer>; 2]; 2],
    /// First packets of each direction.
    pub arrivals: [Vec<Arrival>; 2],
    /// Places of users, which are addresses that open connections.
    places: BTreeMap<IpAddr, u32>,
    pub trips: Vec<Trips>,
    pub counts: [Counts; 2],
    pub measure: Measure,
    pub first: Option<Instant>,
    pub last: Instant,
    /// Connections with timestamps, and all.
    pub timestamps: [u64; 2],
    /// Whether a SACK block was seen.
    sack: bool,
    /// Bytes of IP packets that are not TCP.
    pub other_bytes: u64,
    objects: usize,
    /// Connections beyond the bound.
    pub left_out: u64,
}

fn add(bins: &mut Vec<u64>, at: usize, bytes: u64) {
    if bytes > 0 && at < MOST_SECONDS {
        if bins.len() <= at {
            bins.resize(at + 1, 0);
        }
        bins[at] += bytes;
    }
}

/// Packets on the link of one that was captured with this length and payload: each has the headers of the whole.
fn on_the_link(len: u64, payload: u64) -> impl Iterator<Item = u64> {
    let headers = len.saturating_sub(payload);
    let room = if len > LONGEST { LONGEST.saturating_sub(headers).max(LONGEST / 3) } else { payload.max(1) };
    let pieces = payload.div_ceil(room).max(1);
    (0..pieces).map(move |n| headers + payload.saturating_sub(n * room).min(room))
}

/// Counts of a direction without losses of its SYNs: they say nothing of how many data packets are lost.
fn of_data(mut counts: Counts, events: &[Event], by: u8) -> Counts {
    for event in events.iter().filter(|e| e.by == by && e.repair == Repair::Handshake) {
        let before = matches!(event.lost, Place::Before | Place::Both);
        let behind = matches!(event.lost, Place::Behind | Place::Both);
        counts.lost_before = counts.lost_before.saturating_sub(before.into());
        counts.lost_behind = counts.lost_behind.saturating_sub(behind.into());
    }
    counts
}

impl Collector {
    /// Takes a packet, and the number of the packet's connection; `None` if the packet is not TCP.
    pub fn packet(&mut self, number: Option<u64>, at: Instant, header: &Header) {
        let first = *self.first.get_or_insert(at);
        self.last = self.last.max(at);
        let at_s = at.since(first).as_secs_f64();
        let second = at_s as usize;
        let (Some(number), Some(tcp)) = (number, &header.tcp) else {
            self.other_bytes += header.len.0;
            // The end with the higher port asks.
            let end = usize::from(header.key.sport < header.key.dport);
            add(&mut self.meters[end].other, second, header.len.0);
            return;
        };
        let flow = self.open.entry(number).or_insert_with(|| Following::new(at, header.key, tcp));
        let end = flow.end_of(&header.key);
        let brought = flow.packet(at, end, tcp);
        for len in on_the_link(header.len.0, tcp.payload.into()) {
            if self.arrivals[end].len() < MOST_ARRIVALS {
                self.arrivals[end].push(Arrival { at_s, bytes: len as u32 });
            }
            let meter = &mut self.meters[end];
            add(&mut meter.passed, second, len);
            if tcp.payload > 0 {
                meter.packets += 1;
                meter.bytes += len;
                meter.longest = meter.longest.max(len);
            } else {
                add(&mut meter.bare, second, len);
            }
        }
        self.meters[end].payload += u64::from(tcp.payload);
        let sent = &mut self.meters[1 - end];
        add(&mut sent.acked, second, brought.acked);
        add(&mut sent.twice, second, brought.twice);
        let user = flow.key.src();
        for answer in brought.answers.into_iter().flatten() {
            self.answer(user, at_s, answer);
        }
    }

    fn answer(&mut self, user: IpAddr, at_s: f64, answer: Answer) {
        let seconds = answer.seconds as f32;
        let next = self.trips.len() as u32;
        let place = *self.places.entry(user).or_insert(next);
        if place == next {
            self.trips.push(Trips { least: [f32::INFINITY; 2], answers: [0; 2] });
        }
        let trips = &mut self.trips[place as usize];
        trips.least[answer.side] = trips.least[answer.side].min(seconds);
        trips.answers[answer.side] = trips.answers[answer.side].saturating_add(1);
        let kept = match answer.kind {
            AnswerKind::AtOnce => &mut self.answers[0][answer.side],
            AnswerKind::Echo => &mut self.answers[1][answer.side],
            AnswerKind::Delayed => return,
        };
        if kept.len() < MOST_ANSWERS {
            kept.push(TimedAnswer { place, seconds, sent_s: at_s - answer.seconds });
        }
    }

    /// Replaces the answers of a side by what the queue leaves of them, where it explains them.
    pub fn explain(&mut self, side: usize, bare: &[Option<f64>]) {
        for (trips, bare) in self.trips.iter_mut().zip(bare) {
            if let Some(bare) = bare {
                trips.least[side] = *bare as f32;
            }
        }
    }

    /// The least answer of a user's side.
    pub fn least(&self, user: &IpAddr, side: usize) -> Option<f64> {
        let least = self.trips[*self.places.get(user)? as usize].least[side];
        least.is_finite().then(|| f64::from(least))
    }

    /// Whether many duplicate acknowledgments bear no SACK block. A few tell nothing: hardly anything was lost.
    pub fn lacks_sack(&self) -> bool {
        !self.sack && self.counts.iter().map(|n| n.dupacks).sum::<u64>() > MANY
    }

    /// The figures by which captures are compared: of data that go `way`. A stall is long above `over` seconds.
    pub fn figures(&self, way: usize, over: f64) -> Figures {
        self.measure.figures(self.meters[way].acked.iter().sum(), self.seconds(), over)
    }

    /// Time from the first packet to the last, seconds.
    pub fn seconds(&self) -> f64 {
        self.first.map_or(0.0, |first| self.last.since(first).as_secs_f64())
    }

    /// A connection is over.
    pub fn flow(&mut self, report: &FlowReport) {
        let Some(mut follow) = self.open.remove(&report.number) else { return };
        let turned = report.opener.address != follow.key.src() || report.opener.port != follow.key.sport;
        let [up, down] = &report.directions;
        let counts = [of_data(up.counts, &report.events, 0), of_data(down.counts, &report.events, 1)];
        for (sum, of) in self.counts.iter_mut().zip(&counts) {
            sum.merge(of);
        }
        self.timestamps[0] += u64::from(follow.timestamps);
        self.timestamps[1] += 1;
        self.sack |= follow.sack;
        if follow.objects.len() + self.objects > MOST_OBJECTS {
            self.left_out += 1;
            return;
        }
        self.objects += follow.objects.len();
        let least = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let halves =
            [least(up.sender_half_s, down.receiver_half_s), least(up.receiver_half_s, down.sender_half_s)];
        let quiet = follow.is_quiet();
        follow.merge(&report.stalls);
        for object in follow.objects.iter_mut().filter(|_| turned) {
            object.bytes.reverse();
        }
        self.measure.add(report, &counts);
        self.flows.push(FlowFit {
            user: report.opener.address,
            refused: report.reset && follow.objects.is_empty(),
            objects: follow.objects,
            halves,
            first: report.from,
            last: report.to,
            closed: report.closed,
            quiet,
        });
    }
}

#[cfg(test)]
mod tests {
    use narrows_diagnose::Certainty;

    use super::*;

    #[test]
    fn syns_repeated_in_vain_are_no_loss_of_data() {
        let event = |by, repair, lost| {
            let (at, certainty) = (Instant::ZERO, Certainty::Certain);
            Event { at, frame: 1, by, repair, inferred: false, certainty, lost, spurious: false }
        };
        // Three SYN-ACKs and a segment of the answerer were lost behind, a SYN before.
        let events = [
            event(0, Repair::Handshake, Place::Before),
            event(1, Repair::Handshake, Place::Behind),
            event(1, Repair::Handshake, Place::Behind),
            event(1, Repair::Handshake, Place::Both),
            event(1, Repair::Timeout, Place::Behind),
            event(1, Repair::Handshake, Place::Unknown),
        ];
        let counts = Counts { data: 9, again: 1, lost_behind: 4, lost_before: 1, ..Counts::default() };
        let data = of_data(counts, &events, 1);
        assert_eq!((data.lost_behind, data.lost_before), (1, 0));
        assert!((super::super::measure::loss(&data) - 0.1).abs() < 1e-9);
        let up = of_data(Counts { lost_before: 1, ..Counts::default() }, &events, 0);
        assert_eq!((up.lost_before, up.lost_behind), (0, 0));
    }

    #[test]
    fn what_a_card_put_together_is_cut_again() {
        let of = |len, payload| on_the_link(len, payload).collect::<Vec<_>>();
        // 52 bytes of headers: 1448 of payload fit.
        assert_eq!(of(52 + 2 * 1448 + 100, 2 * 1448 + 100), [1500, 1500, 152]);
        assert_eq!((of(1500, 1448), of(40, 0)), (vec![1500], vec![40]));
        // Headers that are longer than a packet leave room all the same.
        assert_eq!(of(2000, 2), [2000]);
    }
}
