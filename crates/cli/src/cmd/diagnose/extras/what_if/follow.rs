//! Requests of one connection with their times, and how long each side of it took to answer.

use narrows_diagnose::{Cause, Stall};
use narrows_units::{Instant, SeqNum};
use narrows_wire::{Flags, FlowKey, TcpHeader};

/// After so long a silence in which all was acknowledged, what the opener sends asks for something else. Within it a
/// new connection of the simulator would only add a handshake to what this one does.
const PAUSE_S: f64 = 1.0;
/// Segments that are timed at once.
const TIMED: usize = 8;
/// The longest segment, bytes: a block that is longer tells of no single one.
const MOST_TWICE: u32 = 65_535;

/// Data that a connection asked for at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Object {
    /// Time of the request.
    pub at: Instant,
    /// Payload of the opener, and of the other end.
    pub bytes: [u64; 2],
    /// The last new data or acknowledgment of some.
    pub last: Instant,
}

/// Packet that answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// An acknowledgment at once: of a handshake, or of more than one segment (RFC 5681, section 4.2).
    AtOnce,
    /// An acknowledgment that a timer may have held back.
    Delayed,
    /// Data that bears the timestamp of the segment that called for the data.
    Echo,
}

/// How long a side took to answer, from the capture and back. Side 0 is the opener's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// Side that answered.
    pub side: usize,
    pub seconds: f64,
    pub kind: AnswerKind,
}

/// One end's data.
#[derive(Clone, Debug, Default)]
struct EndState {
    /// Sequence number behind the last byte seen.
    highest: Option<SeqNum>,
    /// Next byte that the other end expects.
    acked: Option<SeqNum>,
    /// Time of a SYN that has no answer yet; `None` if the SYN was sent again.
    syn: Option<Instant>,
    syns: u32,
    /// Segments without an acknowledgment: sequence number of the end, payload bytes, time.
    timed: Vec<(SeqNum, u32, Instant)>,
    /// Sequence number up to which data was sent again, so that acknowledgments tell no times.
    repaired: Option<SeqNum>,
    /// The last timestamp of its own, and when it first passed; nothing once it was echoed.
    stamp: Option<(u32, Option<Instant>)>,
}

impl EndState {
    fn is_quiet(&self) -> bool {
        match (self.highest, self.acked) {
            (Some(highest), Some(acked)) => highest.at_or_before(acked),
            (highest, _) => highest.is_none(),
        }
    }
}

/// Acknowledged data and timed answers in a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Brought {
    /// Payload acknowledged, of the other end.
    pub acked: u64,
    /// Payload that the other end sent although the receiver had the payload (RFC 2883), in bytes.
    pub twice: u64,
    /// Answers of the packet, at most one of either kind.
    pub answers: [Option<Answer>; 2],
}

/// Bytes that a DSACK says came twice: its first block lies below the acknowledgment, or within the second block
/// (RFC 2883, section 4).
fn twice(tcp: &TcpHeader) -> u64 {
    let blocks = tcp.sack.as_slice();
    let Some((left, right)) = blocks.first().filter(|(left, right)| left.before(*right)) else { return 0 };
    let within = |(l, r): &(SeqNum, SeqNum)| l.at_or_before(*left) && right.at_or_before(*r);
    let tells = right.at_or_before(tcp.ack) || blocks.get(1).is_some_and(within);
    let bytes = right.distance_from(*left).unsigned_abs();
    if tells && bytes <= MOST_TWICE { u64::from(bytes) } else { 0 }
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Following {
    /// Key of the connection, as seen from the opener.
    pub key: FlowKey,
    pub first: Instant,
    pub objects: Vec<Object>,
    /// Whether the connection's SYNs, or its data, bear timestamps.
    pub timestamps: bool,
    pub sack: bool,
    ends: [EndState; 2],
    active: Instant,
}

impl Following {
    /// Begins a connection with its first packet. The opener is told by a SYN, else by the higher port, as in the
    /// diagnosis.
    pub fn new(at: Instant, key: FlowKey, tcp: &TcpHeader) -> Self {
        let answers = tcp.flags.has(Flags::SYN.and(Flags::ACK));
        let theirs = answers || (!tcp.flags.has(Flags::SYN) && key.sport < key.dport);
        Self {
            key: if theirs { key.reverse() } else { key },
            first: at,
            objects: Vec::new(),
            timestamps: false,
            sack: false,
            ends: Default::default(),
            active: at,
        }
    }

    /// Whether all data seen of either end is acknowledged.
    pub fn is_quiet(&self) -> bool {
        self.ends.iter().all(EndState::is_quiet)
    }

    /// Merges objects over pauses that the diagnosis does not lay to the client: behind a queue, a sender whose
    /// packets are lost is as silent as one that nobody asks.
    pub fn merge(&mut self, stalls: &[Stall]) {
        let mut whole: Vec<Object> = Vec::new();
        for object in self.objects.drain(..) {
            let idle = |s: &&Stall| s.cause == Cause::ClientIdle && s.from < object.at && object.at <= s.to;
            match whole.last_mut() {
                Some(before) if stalls.iter().find(idle).is_none() => {
                    for (all, more) in before.bytes.iter_mut().zip(object.bytes) {
                        *all += more;
                    }
                    before.last = object.last;
                }
                _ => whole.push(object),
            }
        }
        self.objects = whole;
    }

    /// 0 for a packet of the opener.
    pub fn end_of(&self, key: &FlowKey) -> usize {
        usize::from(self.key != *key)
    }

    pub fn packet(&mut self, at: Instant, end: usize, tcp: &TcpHeader) -> Brought {
        self.timestamps |= tcp.timestamps.is_some();
        let mut brought = Brought::default();
        self.stamped(at, end, tcp);
        if tcp.flags.has(Flags::SYN) {
            brought.answers[0] = self.syn(at, end, tcp);
            return brought;
        }
        if tcp.flags.has(Flags::ACK) {
            brought.answers[0] = self.answered(at, end);
            brought.twice = twice(tcp);
            let (acked, answer) = self.acked(at, end, tcp);
            brought.acked = acked;
            brought.answers[0] = brought.answers[0].or(answer);
        }
        if tcp.payload > 0 {
            brought.answers[1] = self.data(at, end, tcp);
        }
        brought
    }

    fn stamped(&mut self, at: Instant, end: usize, tcp: &TcpHeader) {
        if let Some((val, _)) = tcp.timestamps
            && self.ends[end].stamp.is_none_or(|(last, _)| last != val)
        {
            self.ends[end].stamp = Some((val, Some(at)));
        }
    }

    /// Time at which the other end's last timestamp passed, if this packet is the first to echo it.
    fn echoed(&mut self, end: usize, tcp: &TcpHeader) -> Option<Instant> {
        let (last, at) = self.ends[1 - end].stamp.as_mut()?;
        tcp.timestamps.filter(|(_, echo)| echo == last)?;
        at.take()
    }

    fn syn(&mut self, at: Instant, end: usize, tcp: &TcpHeader) -> Option<Answer> {
        let answer = if tcp.flags.has(Flags::ACK) { self.answered(at, end) } else { None };
        let own = &mut self.ends[end];
        own.syns += 1;
        own.syn = (own.syns == 1).then_some(at);
        own.highest = Some(tcp.seq_end());
        own.acked = Some(tcp.seq_end());
        answer
    }

    /// This end answers a SYN, or the answer to one.
    fn answered(&mut self, at: Instant, side: usize) -> Option<Answer> {
        let sent = self.ends[1 - side].syn.take()?;
        Some(Answer { side, seconds: at.since(sent).as_secs_f64(), kind: AnswerKind::AtOnce })
    }

    fn acked(&mut self, at: Instant, side: usize, tcp: &TcpHeader) -> (u64, Option<Answer>) {
        self.sack |= !tcp.sack.as_slice().is_empty();
        let other = &mut self.ends[1 - side];
        let before = *other.acked.get_or_insert(tcp.ack);
        let advance = tcp.ack.distance_from(before);
        if advance <= 0 || !tcp.sack.as_slice().is_empty() {
            other.timed.clear();
        }
        let Ok(advance @ 1..) = u32::try_from(advance) else { return (0, None) };
        other.acked = Some(tcp.ack);
        let repairing = other.repaired.is_some_and(|until| before.before(until));
        let found = other.timed.iter().find(|(end, ..)| *end == tcp.ack).filter(|_| !repairing);
        let answer = found.map(|(_, payload, sent)| Answer {
            side,
            seconds: at.since(*sent).as_secs_f64(),
            kind: if advance > *payload { AnswerKind::AtOnce } else { AnswerKind::Delayed },
        });
        other.timed.retain(|(end, ..)| tcp.ack.before(*end));
        self.active = at;
        if let Some(object) = self.objects.last_mut() {
            object.last = at;
        }
        (advance.into(), answer)
    }

    fn data(&mut self, at: Instant, end: usize, tcp: &TcpHeader) -> Option<Answer> {
        let quiet = self.is_quiet();
        let called = self.echoed(end, tcp);
        let own = &mut self.ends[end];
        let highest = *own.highest.get_or_insert(tcp.seq);
        let last = tcp.seq + tcp.payload;
        let new = last.distance_from(highest);
        if new <= 0 {
            own.timed.clear();
            own.repaired = Some(highest);
            return None;
        }
        own.highest = Some(last);
        if own.timed.len() < TIMED {
            own.timed.push((last, tcp.payload, at));
        }
        let paused = end == 0 && quiet && at.since(self.active).as_secs_f64() > PAUSE_S;
        if self.objects.is_empty() || paused {
            let at = if self.objects.is_empty() { self.first } else { at };
            self.objects.push(Object { at, bytes: [0; 2], last: at });
        }
        if let Some(object) = self.objects.last_mut() {
            object.bytes[end] += u64::from(new.unsigned_abs());
            object.last = at;
        }
        self.active = at;
        let seconds = at.since(called?).as_secs_f64();
        Some(Answer { side: end, seconds, kind: AnswerKind::Echo })
    }
}
