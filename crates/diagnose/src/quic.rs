//! QUIC connections, as far as they can be known from their path: all but the form of the header and the spin bit is
//! encrypted (RFC 9312). So losses are not seen, but packets sent again and again without an answer are: an Initial in
//! the handshake, and later the probes that a sender's timer sends (RFC 9002, section 6.2), each after about twice the
//! time.

use std::collections::HashMap;
use std::net::SocketAddr;

use narrows_units::{Duration, Instant};
use narrows_wire::{FlowKey, Header, QuicPacket};
use serde::Serialize;

use crate::evidence::DatagramEvidence;
use crate::findings::{Certainty, End, QuicCause, seconds};
use crate::judge::{QLOG, judge_datagrams};
use crate::passing::{self, Passage, Passing};
use crate::qlog::{Aligned, Passed, SenderLog, SenderWord, Silence};
use crate::spin::Spin;
use crate::tolerances::{AT_SENDER, LEAST_STALL};

/// A time in which nothing came from one end, or from both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuicStall {
    /// The last packet before the stall, or the first packet that was not answered.
    #[serde(rename = "from_s", serialize_with = "seconds")]
    pub from: Instant,
    /// Packet that ended the silence, or the last packet.
    #[serde(rename = "to_s", serialize_with = "seconds")]
    pub to: Instant,
    /// End that waited: 0 the client, 1 the server.
    pub by: u8,
    /// Cause of the silence.
    pub cause: QuicCause,
    /// Datagrams that were sent into the silence.
    pub unanswered: u32,
    /// How sure the cause is.
    pub certainty: Certainty,
    /// Word of an end's own log about the silence, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<SenderWord>,
    /// Whether the cause rests on that log.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub by_qlog: bool,
    /// The frames before and after.
    pub frames: [u64; 2],
    /// Whether the silence was over before the capture ended.
    pub ended: bool,
}

impl QuicStall {
    /// Length of the silence.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.to.since(self.from)
    }
}

/// One QUIC connection whose beginning was seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuicReport {
    /// End that opened the connection.
    pub client: End,
    /// The end that was called.
    pub server: End,
    /// Time of the first packet.
    #[serde(rename = "from_s", serialize_with = "seconds")]
    pub from: Instant,
    /// Time of the last packet.
    #[serde(rename = "to_s", serialize_with = "seconds")]
    pub to: Instant,
    /// Datagrams of the client, and of the server.
    pub packets: [u64; 2],
    /// Bytes of IP packets of each.
    pub bytes: [u64; 2],
    /// Initials of the client before anything came from the server.
    pub initials: u32,
    /// Whether the server asked for a proof of the address.
    pub retry: bool,
    /// Whether both ends have sent packets that follow the handshake.
    pub established: bool,
    /// Time from the first Initial to the first packet of the client after the handshake.
    pub handshake_s: Option<f64>,
    /// The round trip in the handshake, if nothing was repeated.
    pub handshake_rtt_s: Option<f64>,
    /// The median round trip by the spin bit, seconds; `None` unless both ends let the bit spin.
    pub spin_rtt_s: Option<f64>,
    /// The least by the spin bit.
    pub spin_rtt_least_s: Option<f64>,
    /// Stalls, by time; the first 256.
    pub stalls: Vec<QuicStall>,
    /// Sums of the log of an end, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qlog: Option<QlogSums>,
}

/// Sums of a sender's log over the whole connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QlogSums {
    /// Title or identifier of the connection in the log.
    pub name: String,
    /// End that keeps the log: 0 the client, 1 the server.
    pub by: u8,
    /// Packets that the sender sent.
    pub sent: u64,
    /// Packets that the sender believed lost.
    pub lost: u64,
    /// Packets believed lost that were acknowledged later.
    pub spurious: u64,
    /// Expiries of the sender's probe timer.
    pub timeouts: u64,
}

impl QuicReport {
    /// Time in which somebody waited, seconds.
    #[must_use]
    pub fn waited_s(&self) -> f64 {
        let waited = self.stalls.iter().filter(|s| s.cause != QuicCause::ClientIdle);
        waited.map(|s| s.length().as_secs_f64()).sum()
    }
}

/// Stalls that are kept of a connection.
const MOST_STALLS: usize = 256;
/// Connections followed at a time; further ones are passed over.
const MOST_OPEN: usize = 1 << 16;
/// Reports that are kept.
const MOST_KEPT: usize = 1 << 16;
/// A datagram whose payload is no longer holds an acknowledgment, or a PING, bytes.
const BARE: u64 = 52;
/// Silence after which a connection is over.
const SILENCE: Duration = Duration::from_secs(120);

/// A datagram that passes.
#[derive(Clone, Copy)]
struct Datagram {
    at: Instant,
    frame: u64,
    /// Length of the IP packet, bytes.
    len: u64,
    /// Whether the datagram holds more than an acknowledgment.
    asks: bool,
    quic: QuicPacket,
}

/// Packets of one end so far.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    packets: u64,
    bytes: u64,
    largest: u64,
    last_len: u64,
    last_asks: bool,
    last: Option<(Instant, u64)>,
    /// First packet that asks, since the other end last sent something, and its frame; `lonely` counts those after a
    /// silence.
    unanswered: Option<(Instant, u64)>,
    lonely: u32,
    /// Time at which the latest of the `lonely` datagrams passed.
    lonely_at: Option<Instant>,
    short: bool,
}

#[derive(Clone, Debug)]
struct Connection {
    /// Places of each end's latest packets among all that pass.
    passed: [Option<passing::Place>; 2],
    /// Addresses and ports, from the client.
    key: FlowKey,
    first: Instant,
    last: (Instant, u64),
    sides: [Side; 2],
    initials: u32,
    retry: bool,
    answered: Option<Instant>,
    handshake_rtt: Option<Duration>,
    handshake: Option<Duration>,
    spin: Spin,
    silences: Vec<Silent>,
}

/// A silence, before the verdict on the silence.
#[derive(Clone, Copy, Debug)]
struct Silent {
    from: Instant,
    to: Instant,
    /// End that waited, unless the cause says better.
    by: usize,
    /// Whether that end sent into the silence.
    waiting: bool,
    /// End whose packet ended the silence.
    ended_by: Option<usize>,
    evidence: DatagramEvidence,
    frames: [u64; 2],
}

impl Silent {
    fn judged(&self, log: Option<&Aligned<'_>>) -> QuicStall {
        let Self { from, to, by, waiting, ended_by, evidence, frames } = *self;
        let silence = ended_by.map(|ended_by| Silence { from, to, ended_by, asks: waiting.then_some(by) });
        let sender = log.zip(silence).and_then(|(log, silence)| log.word(&silence));
        let evidence = DatagramEvidence { sender, ..evidence };
        let row = judge_datagrams(&evidence);
        let (cause, certainty) = row.then;
        QuicStall {
            from,
            to,
            // The client waits for an answer to a question; in the middle of an answer more is not known.
            by: if !waiting && cause == QuicCause::Unknown { 1 } else { by as u8 },
            cause,
            unanswered: if waiting { evidence.unanswered + 1 } else { 0 },
            certainty,
            sender,
            by_qlog: sender.is_some() && row.source == QLOG,
            frames,
            ended: ended_by.is_some(),
        }
    }
}

/// A connection that is over.
#[derive(Debug)]
struct Over {
    report: QuicReport,
    silences: Vec<Silent>,
    answered: Option<Instant>,
}

impl Over {
    fn passed(&self) -> Passed {
        let QuicReport { client, server, from, to, .. } = self.report;
        let ends = [client, server].map(|end| SocketAddr::new(end.address.to_canonical(), end.port));
        Passed { ends, first: from, answered: self.answered, last: to }
    }

    fn judged(mut self, log: Option<&Aligned<'_>>) -> QuicReport {
        self.report.stalls = self.silences.iter().map(|silent| silent.judged(log)).collect();
        self.report.qlog = log.map(Aligned::sums);
        self.report
    }
}

impl Connection {
    fn new(key: FlowKey, at: Instant, frame: u64) -> Self {
        Self {
            passed: [None; 2],
            key,
            first: at,
            last: (at, frame),
            sides: [Side::default(); 2],
            initials: 0,
            retry: false,
            answered: None,
            handshake_rtt: None,
            handshake: None,
            spin: Spin::default(),
            silences: Vec::new(),
        }
    }

    fn rtt(&self) -> Option<Duration> {
        self.spin.rtt(self.handshake_rtt).map(|(median, _)| median).or(self.handshake_rtt)
    }

    fn patience(&self) -> Duration {
        LEAST_STALL.max(self.rtt().unwrap_or_default() * 2)
    }

    fn packet(&mut self, key: &FlowKey, d: Datagram, around: &Around) {
        let from = usize::from(*key != self.key);
        let Datagram { at, frame, len, asks, quic } = d;
        self.silence(from, d, around);
        self.opening(from, at, quic);
        let gap = at.since(self.last.0);
        let patience = self.patience();
        let side = &mut self.sides[from];
        side.packets += 1;
        side.bytes += len;
        side.largest = side.largest.max(len);
        (side.last_len, side.last_asks) = (len, asks);
        if side.unanswered.is_some() && gap > patience / 2 {
            side.lonely += 1;
            side.lonely_at = Some(at);
        }
        // An acknowledgment alone asks for nothing.
        side.unanswered = side.unanswered.or(asks.then_some((at, frame)));
        side.last = Some((at, frame));
        let other = &mut self.sides[1 - from];
        (other.unanswered, other.lonely, other.lonely_at) = (None, 0, None);
        if let QuicPacket::Short { spin } = quic {
            self.sides[from].short = true;
            if from == 1 {
                self.spin.packet(at, spin);
            }
        }
        self.last = (at, frame);
    }

    /// Takes a packet of the handshake, and times the two halves of the handshake's round trip.
    fn opening(&mut self, from: usize, at: Instant, quic: QuicPacket) {
        self.retry |= quic == QuicPacket::Retry;
        match (from, quic, self.answered) {
            (0, QuicPacket::Initial, None) => self.initials += 1,
            (0, _, Some(answered)) if self.handshake_rtt.is_none() && self.initials == 1 => {
                // To the server and back, then to the client and back.
                let server = answered.since(self.first);
                self.handshake_rtt = Some(server + at.since(answered));
            }
            (1, _, None) => self.answered = Some(at),
            _ => {}
        }
        if from == 0 && matches!(quic, QuicPacket::Short { .. }) && self.handshake.is_none() {
            self.handshake = Some(at.since(self.first));
        }
    }

    /// Takes a packet and judges whether a silence was before the packet, and of what kind.
    fn silence(&mut self, from: usize, d: Datagram, around: &Around) {
        let Datagram { at, frame, asks, .. } = d;
        let patience = self.patience();
        let other = self.sides[1 - from];
        let waiting = other.unanswered.filter(|(since, _)| other.lonely > 0 && at.since(*since) > patience);
        // As long as the same end sends on without an answer, that is one silence.
        let going_on = self.sides[from].unanswered.is_some();
        let quiet = at.since(self.last.0) > patience && self.answered.is_some() && !going_on;
        let (by, (since, before)) = match waiting {
            Some(begun) => (1 - from, begun),
            None if quiet => (0, self.last),
            None => return,
        };
        let [client, server] = self.sides;
        let asked = client.last.is_some_and(|(c, _)| server.last.is_none_or(|(s, _)| s < c));
        let evidence = DatagramEvidence {
            client: from == 0,
            asked: asked && client.last_asks,
            asks,
            // A datagram as full as any says that there was more to come.
            more: server.last_len * 10 >= server.largest * 9 && server.largest > 500,
            since_last: other.lonely_at.filter(|_| waiting.is_some()).map(|last| at.since(last)),
            others: around.passing.others(from, self.passed[from], since, at),
            ..self.evidence(waiting.map_or(0, |_| other.lonely), at.since(since), around.least_trip)
        };
        self.keep(Silent {
            from: since,
            to: at,
            by,
            waiting: waiting.is_some(),
            ended_by: Some(from),
            evidence,
            frames: [before, frame],
        });
    }

    /// Evidence that does not depend on what ended the silence.
    fn evidence(&self, unanswered: u32, length: Duration, least_trip: Option<Duration>) -> DatagramEvidence {
        DatagramEvidence {
            opening: self.sides.iter().any(|s| !s.short),
            unanswered,
            least_trip,
            at_server: self.answered.is_some_and(|at| at.since(self.first) < AT_SENDER),
            length,
            ..DatagramEvidence::default()
        }
    }

    /// One end sent again and again, and nothing came until the end.
    fn never_answered(&mut self, by: usize, begun: Instant, frame: u64) {
        if self.sides[by].short && self.sides[1 - by].packets == 0 {
            // One direction only was captured.
            return;
        }
        let lonely = self.sides[by].lonely;
        let evidence = self.evidence(lonely, self.last.0.since(begun), None);
        self.keep(Silent {
            from: begun,
            to: self.last.0,
            by,
            waiting: true,
            ended_by: None,
            evidence,
            frames: [frame, self.last.1],
        });
    }

    fn keep(&mut self, silence: Silent) {
        if self.silences.len() < MOST_STALLS {
            self.silences.push(silence);
        }
    }

    fn over(mut self) -> Over {
        let patience = self.patience();
        for by in [0, 1] {
            let side = self.sides[by];
            let waits = |(since, _): &(Instant, u64)| side.lonely > 0 && self.last.0.since(*since) > patience;
            if let Some((begun, frame)) = side.unanswered.filter(waits) {
                self.never_answered(by, begun, frame);
            }
        }
        let seconds = |d: Option<Duration>| d.map(Duration::as_secs_f64);
        let spin = self.spin.rtt(self.handshake_rtt);
        let end = |address, port| End { address, port };
        let both = |get: fn(&Side) -> u64| [get(&self.sides[0]), get(&self.sides[1])];
        let report = QuicReport {
            client: end(self.key.src(), self.key.sport),
            server: end(self.key.dst(), self.key.dport),
            from: self.first,
            to: self.last.0,
            packets: both(|s| s.packets),
            bytes: both(|s| s.bytes),
            initials: self.initials,
            retry: self.retry,
            established: self.sides.iter().all(|s| s.short),
            handshake_s: seconds(self.handshake),
            handshake_rtt_s: seconds(self.handshake_rtt),
            spin_rtt_s: seconds(spin.map(|(median, _)| median)),
            spin_rtt_least_s: seconds(spin.map(|(_, least)| least)),
            stalls: Vec::new(),
            qlog: None,
        };
        Over { report, silences: self.silences, answered: self.answered }
    }
}

/// Signs from other connections.
#[derive(Debug, Default)]
struct Around {
    passing: Passing,
    /// Least time in which a server has answered a first packet, seen from here.
    least_trip: Option<Duration>,
}

/// All QUIC connections that open within a capture.
#[derive(Debug, Default)]
pub struct QuicAnalyzer {
    open: HashMap<FlowKey, Connection>,
    around: Around,
    done: Vec<Over>,
    swept: Instant,
    passed_over: u64,
}

impl QuicAnalyzer {
    /// A packet of the capture. What is not QUIC, or of a connection whose beginning was not seen, is passed over.
    pub fn packet(&mut self, at: Instant, frame: u64, header: &Header) {
        let Some(quic) = header.quic else { return };
        let id = header.key.min(header.key.reverse());
        if at.since(self.swept) > SILENCE / 4 {
            self.swept = at;
            self.give_up(|c| at.since(c.last.0) > SILENCE);
        }
        if !self.open.contains_key(&id) {
            if !matches!(quic, QuicPacket::Initial | QuicPacket::ZeroRtt) {
                return;
            }
            if self.open.len() >= MOST_OPEN {
                self.passed_over += 1;
                return;
            }
            self.open.insert(id, Connection::new(header.key, at, frame));
        }
        if let Some(c) = self.open.get_mut(&id) {
            // Headers of IP and UDP.
            let headers = if header.key.src().is_ipv6() { 48 } else { 28 };
            let payload = header.len.0.saturating_sub(headers);
            let datagram = Datagram { at, frame, len: header.len.0, asks: payload > BARE, quic };
            c.packet(&header.key, datagram, &self.around);
            let from = usize::from(header.key != c.key);
            let passage = Passage { before: c.passed[from], ..Passage::default() };
            c.passed[from] = self.around.passing.passes(from, at, passage);
            let trip = c.answered.filter(|_| c.initials == 1).map(|answered| answered.since(c.first));
            self.around.least_trip = self.around.least_trip.into_iter().chain(trip).min();
        }
    }

    fn give_up(&mut self, over: impl Fn(&Connection) -> bool) {
        let mut keys: Vec<(Instant, FlowKey)> =
            self.open.iter().filter(|(_, c)| over(c)).map(|(k, c)| (c.first, *k)).collect();
        keys.sort_unstable();
        for (_, key) in keys {
            if let Some(c) = self.open.remove(&key) {
                if self.done.len() < MOST_KEPT {
                    self.done.push(c.over());
                } else {
                    self.passed_over += 1;
                }
            }
        }
    }

    /// Ends the capture. Returns all connections, ordered by their beginnings.
    #[must_use]
    pub fn finish(self) -> Vec<QuicReport> {
        self.finish_with(&[], None).0
    }

    /// As [`QuicAnalyzer::finish`], with the ends' own logs; gives also the names of logs of connections that were not
    /// captured. `origin` is the time of the capture's beginning, in nanoseconds since 1970.
    #[must_use]
    pub fn finish_with(mut self, logs: &[SenderLog], origin: Option<i128>) -> (Vec<QuicReport>, Vec<String>) {
        self.give_up(|_| true);
        self.done.sort_by_key(|over| over.report.from);
        let mut of: Vec<Option<Aligned<'_>>> = vec![None; self.done.len()];
        let mut without = Vec::new();
        for log in logs {
            let free = |place: &usize| of[*place].is_none();
            let found = place_of(log, &self.done, origin, logs.len() == 1).filter(free);
            let aligned = found.and_then(|at| Some((at, log.aligned(&self.done[at].passed(), origin)?)));
            match aligned {
                Some((at, aligned)) => of[at] = Some(aligned),
                None => without.push(log.name.clone()),
            }
        }
        let reports = self.done.into_iter().zip(of).map(|(over, log)| over.judged(log.as_ref())).collect();
        (reports, without)
    }

    /// Connections that were too many.
    #[must_use]
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }
}

/// Most nanoseconds between the beginnings of a log and of its connection, by clocks that are right: of a first packet
/// that is lost three times (RFC 9002, section 6.2.2).
const NEAR_NS: i64 = 7_000_000_000;

/// Finds the connection of a log: by its addresses, else by time and length if only one is like it; if there is one log
/// and one connection, these belong together.
fn place_of(log: &SenderLog, all: &[Over], origin: Option<i128>, alone: bool) -> Option<usize> {
    let fits = |wanted: &dyn Fn(&Over, &Passed) -> bool| {
        let mut fitting: Vec<(i64, usize)> = Vec::new();
        for (place, over) in all.iter().enumerate() {
            let passed = over.passed();
            if wanted(over, &passed) {
                fitting.push((log.apart(&passed, origin).unwrap_or(i64::MAX), place));
            }
        }
        fitting
    };
    // Ports are used again: the one that began when the log did.
    let by_address = fits(&|_, passed| log.is_of(passed) == Some(true));
    if let Some((_, place)) = by_address.into_iter().min() {
        return Some(place);
    }
    let by_shape = |near: bool| {
        let like = fits(&|over, passed| {
            let is_near = log.apart(passed, origin).is_some_and(|apart| apart < NEAR_NS);
            log.is_like(passed, over.report.packets) && (!near || is_near)
        });
        <[_; 1]>::try_from(like).ok().map(|[(_, place)]| place)
    };
    let only = || (alone && all.len() == 1 && log.is_of(&all[0].passed()).is_none()).then_some(0);
    by_shape(true).or_else(|| by_shape(false)).or_else(only)
}
