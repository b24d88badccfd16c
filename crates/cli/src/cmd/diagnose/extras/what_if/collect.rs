//! What a workload and a link are fitted to, collected while a capture is read.

use core::net::IpAddr;
use std::collections::BTreeMap;

use narrows_diagnose::{Counts, FlowReport};
use narrows_units::Instant;
use narrows_wire::Header;

use super::follow::{Answer, AnswerKind, Following, Object};
use super::measure::Measure;

/// Seconds of a capture in which bytes are counted apart: a year.
const MOST_SECONDS: usize = 366 * 86_400;
/// Answers that are kept of each side.
const MOST_ANSWERS: usize = 2_000_000;
/// Packets whose times are kept, of each direction.
const MOST_ARRIVALS: usize = 400_000;
/// Objects that are kept.
pub const MOST_OBJECTS: usize = 1_000_000;

/// A connection that is over.
#[derive(Clone, Debug)]
pub struct FlowFit {
    pub user: IpAddr,
    pub objects: Vec<Object>,
    /// What the diagnosis says of the least times to answer, seconds.
    pub halves: [Option<f64>; 2],
    pub first: Instant,
    /// The last packet.
    pub last: Instant,
    /// It ended within the capture.
    pub closed: bool,
    /// All that was seen was acknowledged at the end.
    pub quiet: bool,
    /// It was refused: a RST, and no data.
    pub refused: bool,
}

/// Bytes of one direction, by seconds.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// IP packets that passed.
    pub passed: Vec<u64>,
    /// Of them, those without payload.
    pub bare: Vec<u64>,
    /// Payload acknowledged.
    pub acked: Vec<u64>,
    /// IP packets with payload, their bytes and their payload.
    pub packets: u64,
    pub bytes: u64,
    pub payload: u64,
    /// The longest of them.
    pub longest: u64,
}

/// An answer of a side.
#[derive(Clone, Copy, Debug)]
pub struct TimedAnswer {
    /// The user's place.
    pub place: u32,
    pub seconds: f32,
    /// When what it answers passed, seconds after the first packet.
    pub sent_s: f64,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at_s: f64,
    pub bytes: u32,
}

/// What is known of a user's round trips.
#[derive(Clone, Copy, Debug)]
pub struct Trips {
    /// The least of each side.
    pub least: [f32; 2],
    /// Answers of each side.
    pub answers: [u32; 2],
}

/// See the head of the file. Directions and sides are the opener's (0) and the other end's (1).
#[derive(Debug, Default)]
pub struct Collector {
    open: BTreeMap<u64, Following>,
    pub flows: Vec<FlowFit>,
    pub meters: [Meter; 2],
    /// At once, and by echoes of timestamps.
    pub answers: [[Vec<TimedAnswer>; 2]; 2],
    /// Packets of each direction, the first of them.
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
    pub sack: bool,
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

impl Collector {
    /// A packet, and the number of its connection if it is TCP.
    pub fn packet(&mut self, number: Option<u64>, at: Instant, header: &Header) {
        let first = *self.first.get_or_insert(at);
        self.last = self.last.max(at);
        let (Some(number), Some(tcp)) = (number, &header.tcp) else {
            self.other_bytes += header.len.0;
            return;
        };
        let flow = self.open.entry(number).or_insert_with(|| Following::new(at, header.key, tcp));
        let end = flow.end_of(&header.key);
        let brought = flow.packet(at, end, tcp);
        let at_s = at.since(first).as_secs_f64();
        let (second, len) = (at_s as usize, header.len.0);
        if self.arrivals[end].len() < MOST_ARRIVALS {
            self.arrivals[end].push(Arrival { at_s, bytes: len as u32 });
        }
        let meter = &mut self.meters[end];
        add(&mut meter.passed, second, len);
        if tcp.payload > 0 {
            meter.packets += 1;
            meter.bytes += len;
            meter.payload += u64::from(tcp.payload);
            meter.longest = meter.longest.max(len);
        } else {
            add(&mut meter.bare, second, len);
        }
        add(&mut self.meters[1 - end].acked, second, brought.acked);
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

    /// Where the queue explains the answers of a side, these are what is left of them.
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

    /// A connection is over.
    pub fn flow(&mut self, report: &FlowReport) {
        let Some(mut follow) = self.open.remove(&report.number) else { return };
        let turned = report.opener.address != follow.key.src() || report.opener.port != follow.key.sport;
        for (counts, of) in self.counts.iter_mut().zip(&report.directions) {
            counts.merge(&of.counts);
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
        let [up, down] = &report.directions;
        let halves =
            [least(up.sender_half_s, down.receiver_half_s), least(up.receiver_half_s, down.sender_half_s)];
        let quiet = follow.is_quiet();
        follow.merge(&report.stalls);
        for object in follow.objects.iter_mut().filter(|_| turned) {
            object.bytes.reverse();
        }
        self.measure.add(report);
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
