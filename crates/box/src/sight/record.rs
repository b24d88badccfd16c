//! Record of a connection: both its directions.
//!
//! `narrows-diagnose` keeps every segment that is under way, which no bounded record can; what is here is the part of
//! its judgement that a few numbers bear. Its names and its definition of a stall are the same, and a test holds the
//! two against each other.
//!
//! Of QUIC a middlebox knows who sends and who answers: an end that asked more than once, as its probe timeout has it
//! (RFC 9002, section 6.2), and hears nothing is starved; one that is silent itself is idle. Of other datagrams nobody
//! knows whether they want an answer.

use narrows_diagnose::tolerances::FIRST_RTO;
use narrows_diagnose::{Cause as Told, Certainty, Repair};
use narrows_flow::Micros;
use narrows_lists::{NIL, Slab, prefetch};
use narrows_units::Duration;
use narrows_wire::{Flags, FlowKey, Header, TcpHeader};

use super::bits::bits;
use super::book::{Book, Stall};
use super::cause::{Cause, Lost};
use super::half::{Gaps, Half, Owner, Scene};

bits! {
    /// Flags of a connection.
    Record16 {
        /// The connection is TCP.
        TCP = 1,
        /// A QUIC handshake was seen.
        QUIC = 2,
        /// The SYN was seen.
        OPENED = 3,
        /// The SYN came from the users.
        OPENER_UP = 4,
        /// The SYN-ACK was seen.
        ANSWERED = 5,
        /// The handshake is over, or was not seen.
        OVER = 6,
        /// The connection is over: both ends have sent FIN, or one has sent RST.
        CLOSED = 7,
        /// Admission control has refused the connection's SYN.
        REFUSED = 8,
        /// The box has dropped the connection's SYN or the answer to the SYN.
        SYN_LOST_HERE = 9,
        /// Packets have gone down.
        WENT_DOWN = 10,
        /// Packets have gone up.
        WENT_UP = 11,
    }
}

/// Record of a connection. Three cache lines: who it is, and a direction each.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Record {
    /// Flow key as packets go down.
    pub key: FlowKey,
    flags: Record16,
    /// The next of the same bucket.
    pub chain: u32,
    /// Index of the connection's user in the book.
    pub user: u32,
    pub seen: Micros,
    /// Halves of the connection, down and up.
    halves: [Half; 2],
}

narrows_lists::chained!(Record: chain);

/// Bytes of a record with its share of the index, two buckets of 32 bits.
pub const BYTES_PER_FLOW: usize = Slab::<Record>::BYTES_EACH + size_of::<[Gaps; 2]>() + 2 * size_of::<u32>();
const _: () = assert!(BYTES_PER_FLOW <= 256 && size_of::<Record>() == 3 * 64);

impl Record16 {
    /// Flag of packets that have passed, by direction.
    pub const ONE_WAY: [Self; 2] = [Self::WENT_DOWN, Self::WENT_UP];
}

impl Record {
    /// A connection of which nothing is known.
    pub fn new(key: FlowKey, user: u32, now: Micros) -> Self {
        let mut flags = Record16::default();
        flags.put(Record16::TCP, key.proto == narrows_wire::Proto::TCP);
        Self { key, flags, chain: NIL, user, seen: now, halves: [Half::new(now), Half::new(now)] }
    }

    /// Forgets everything but the record's place and user, as another connection begins.
    pub fn restart(&mut self, now: Micros) {
        let halves = [self.halves[0].restarted(now), self.halves[1].restarted(now)];
        *self = Self { chain: self.chain, halves, ..Self::new(self.key, self.user, now) };
    }

    /// The direction in which its opener sends, as far as is known: from the users.
    pub const fn opener(&self) -> usize {
        if self.flags.has(Record16::OPENED) && !self.flags.has(Record16::OPENER_UP) { 0 } else { 1 }
    }

    /// Whether packets passed both ways.
    pub fn talks(&self) -> bool {
        Record16::ONE_WAY.into_iter().all(|way| self.flags.has(way))
    }

    /// Whether both ends of the connection have sent FIN, or one has sent RST.
    pub const fn is_closed(&self) -> bool {
        self.flags.has(Record16::CLOSED)
    }

    /// Whether the connection is of TCP and the handshake is not over.
    pub const fn is_opening(&self) -> bool {
        self.flags.has(Record16::TCP) && !self.flags.has(Record16::OVER)
    }

    /// Whether the connection is of TCP and has data under way, or progress within `lately`.
    pub fn moves(&self, now: Micros, lately: Duration) -> bool {
        self.flags.has(Record16::TCP) && self.halves.iter().any(|half| half.moves(now, lately))
    }

    /// Whether a SYN was seen and the handshake is not over: it may be sent again.
    pub const fn awaits_handshake(&self) -> bool {
        self.flags.has(Record16::OPENED) && !self.flags.has(Record16::OVER)
    }

    /// Has the record fetched from memory.
    pub fn fetch(&self) {
        prefetch(&self.key);
        self.halves.iter().for_each(prefetch);
    }

    /// Whether any packet of the connection waits in the box.
    pub const fn queued(&self) -> bool {
        self.halves[0].is_queued() || self.halves[1].is_queued()
    }

    /// Notes a packet of direction `d` that waits in the box from now on.
    pub fn arrived(&mut self, d: usize) {
        self.halves[d].enters();
        self.flags.set(Record16::ONE_WAY[d]);
    }

    /// Notes a packet of direction `d` that is in the box no more.
    pub fn gone(&mut self, d: usize) {
        self.halves[d].leaves();
    }

    /// Notes a packet of direction `d` that leaves the box, in which it has `waited`.
    pub fn left(&mut self, d: usize, now: Micros, waited: Duration, header: &Header) {
        let data = header.tcp.as_ref().is_none_or(|tcp| tcp.seq_len() > 0);
        self.halves[d].leaves();
        // A segment without data acknowledges data of the other direction.
        let half = &mut self.halves[if data { d } else { 1 - d }];
        half.turn_ends(waited, half.silent_for(now, header.tcp.is_some()));
        if let Some(tcp) = &header.tcp {
            half.sample_left(now, tcp);
        }
    }

    /// Notes a packet of direction `d` that the box has dropped.
    pub fn dropped(&mut self, d: usize, header: &Header, gaps: &mut Gaps) {
        match &header.tcp {
            None => self.halves[d].lose_here(),
            Some(tcp) if tcp.flags.has(Flags::SYN) => self.flags.set(Record16::SYN_LOST_HERE),
            Some(tcp) => self.halves[d].lose(tcp, gaps),
        }
    }

    /// Admission control has refused the SYN.
    pub fn refused(&mut self) {
        self.flags.set(Record16::REFUSED);
    }

    /// Takes a segment of direction `d`.
    pub fn tcp(&mut self, now: Micros, d: usize, tcp: &TcpHeader, gaps: &mut [Gaps; 2], book: &mut Book) {
        if tcp.flags.has(Flags::RST) {
            self.give_up(now, gaps, book);
            self.flags.set(Record16::CLOSED);
            return;
        }
        if tcp.flags.has(Flags::SYN) {
            self.syn(now, d, tcp);
        }
        if tcp.flags.has(Flags::ACK) {
            let (owner, gaps) = (Owner { key: &self.key, user: self.user, d: 1 - d }, &mut gaps[1 - d]);
            self.halves[1 - d].ack(tcp, &mut Scene { now, owner, gaps, book });
        }
        if !tcp.flags.has(Flags::SYN) {
            if !self.flags.has(Record16::OVER) {
                self.third(now, d, book);
            } else if tcp.payload > 0 {
                self.silence(now, d, book);
            }
            let (owner, gaps) = (Owner { key: &self.key, user: self.user, d }, &mut gaps[d]);
            self.halves[d].data(tcp, &mut Scene { now, owner, gaps, book });
        }
        if self.halves.iter().all(Half::is_finished) {
            self.flags.set(Record16::CLOSED);
        }
    }

    fn syn(&mut self, now: Micros, d: usize, tcp: &TcpHeader) {
        let answer = tcp.flags.has(Flags::ACK);
        let start = tcp.seq + 1;
        let again = if answer {
            self.flags.has(Record16::ANSWERED) && self.halves[d].begins_at(start)
        } else {
            let known = self.flags.has(Record16::OPENED) && self.halves[d].begins_at(start);
            if !known && (self.halves[d].is_numbered() || self.flags.has(Record16::OVER)) {
                self.restart(now);
            }
            known
        };
        if again {
            self.halves[d].asks_again();
            return;
        }
        if answer {
            self.flags.set(Record16::ANSWERED);
            // The SYN until its answer: from here to the one that was called and back.
            if self.flags.has(Record16::OPENED) {
                self.time_handshake(now, 1 - d);
            }
        } else {
            self.flags.set(Record16::OPENED);
            self.flags.put(Record16::OPENER_UP, d == 1);
        }
        self.halves[1 - d].scale_is(tcp.window_scale.unwrap_or(0));
        self.halves[d].begin_with_syn(now, start, tcp.beyond);
    }

    /// The first packet of the opener after the SYN-ACK ends the handshake.
    fn third(&mut self, now: Micros, d: usize, book: &mut Book) {
        let opener = self.opener();
        if self.flags.has(Record16::OPENED) && d != opener {
            return;
        }
        self.flags.set(Record16::OVER);
        if !self.flags.has(Record16::OPENED) {
            return;
        }
        let syn = self.halves[opener].since();
        if self.flags.has(Record16::ANSWERED) {
            self.time_handshake(now, 1 - opener);
        }
        if let Some(stall) = self.handshake_stall(now, syn, book.turns(), true) {
            book.ended(stall);
        }
        self.halves.iter_mut().for_each(|half| half.begin_silence(now));
    }

    /// Takes the answer to the handshake's packet of direction `d`: if that was sent once, it gives the round trip on
    /// the receiver's side.
    fn time_handshake(&mut self, now: Micros, d: usize) {
        if let Some(trip) = self.halves[d].answered_after(now) {
            self.halves[d].receiver_is_at(trip);
            self.halves[1 - d].sender_is_at(trip);
        }
    }

    /// The handshake as a stall, if it takes too long. `turns`: what packets wait in the box, down and up.
    fn handshake_stall(&self, now: Micros, syn: Micros, turns: [Duration; 2], ended: bool) -> Option<Stall> {
        let opener = self.opener();
        let again = [0, 1].map(|d: usize| self.halves[d].expiries());
        let by = if again[1 - opener] > 0 { 1 - opener } else { opener };
        let repeated = again[0].saturating_add(again[1]);
        let here = self.flags.has(Record16::SYN_LOST_HERE);
        let stood = if self.halves[opener].is_queued() { now.since(syn) } else { self.halves[opener].turn() };
        // A SYN that stands in the box for longer than data wait for their turn is kept by admission control.
        let held = stood > FIRST_RTO.max(turns[opener] * 3);
        let turn = self.halves[1 - opener].turn() + if held { Duration::ZERO } else { stood };
        let length = now.since(syn).saturating_sub(turn);
        if length <= self.halves[opener].patience(repeated > 0 || here) {
            return None;
        }
        let (cause, lost, certainty) = match () {
            () if self.flags.has(Record16::REFUSED) => {
                (Cause::HeldAtAdmission, Lost::UNKNOWN, Certainty::Certain)
            }
            () if held => (Cause::HeldAtAdmission, Lost::UNKNOWN, Certainty::Likely),
            () if here => (Cause::Told(Told::HandshakeLost), Lost::HERE, Certainty::Certain),
            // The SYN on its way from here, or its answer on the way back: both on that side of the box.
            () if repeated > 0 => (Cause::Told(Told::HandshakeLost), Lost::BEHIND, Certainty::Likely),
            () if !ended => (Cause::Told(Told::HandshakeLost), Lost::BEHIND, Certainty::Likely),
            () => (Cause::Told(Told::PacketDelay), Lost::UNKNOWN, Certainty::Likely),
        };
        Some(Stall {
            key: self.key,
            user: self.user,
            by,
            length,
            cause,
            lost,
            certainty,
            repair: (repeated > 0).then_some(Repair::Handshake),
            timeouts: 0,
            backoff: repeated.min(15),
            outstanding: 1,
            turn_ms: self.halves[by].turn_ms(),
            ended,
        })
    }

    /// New data after a silence in which nothing was under way: who was called has let the other wait for an answer.
    /// The end that opened the connection was free to ask when it liked.
    fn silence(&self, now: Micros, d: usize, book: &mut Book) {
        if let Some(stall) = self.unanswered(now, d) {
            book.ended(stall);
        }
    }

    /// The stall of a connection in which direction `d` owes an answer, if it does for long enough.
    pub fn unanswered(&self, now: Micros, d: usize) -> Option<Stall> {
        let (own, other) = (&self.halves[d], &self.halves[1 - d]);
        if d == self.opener() || !own.owes(other) {
            return None;
        }
        let length = own.owes_for(other, now);
        (length > own.patience(false)).then_some(Stall {
            key: self.key,
            user: self.user,
            by: d,
            length,
            cause: Cause::Told(Told::DataUnavailable),
            lost: Lost::UNKNOWN,
            certainty: Certainty::Certain,
            repair: None,
            timeouts: 0,
            backoff: 0,
            outstanding: 0,
            turn_ms: own.turn_ms(),
            ended: true,
        })
    }

    /// Notes the stalls in progress as stalls without an end: nothing more comes.
    pub fn give_up(&mut self, now: Micros, gaps: &[Gaps; 2], book: &mut Book) {
        let turns = book.turns();
        for stall in [0, 1].into_iter().filter_map(|d| self.stall_now(now, d, gaps, turns)) {
            book.ended(Stall { ended: false, ..stall });
        }
        self.halves.iter_mut().for_each(Half::gives_up);
    }

    /// The stall of direction `d` that goes on, if one does. `turns`: what packets wait in the box, down and up.
    pub fn stall_now(&self, now: Micros, d: usize, gaps: &[Gaps; 2], turns: [Duration; 2]) -> Option<Stall> {
        let half = &self.halves[d];
        if self.flags.has(Record16::CLOSED) {
            return None;
        }
        if !self.flags.has(Record16::TCP) {
            return self.starving(now, d);
        }
        if !self.flags.has(Record16::OVER) {
            let syn = self.halves[self.opener()].since();
            let opens = d == self.opener() && self.flags.has(Record16::OPENED) && now.since(syn) > FIRST_RTO;
            return if opens { self.handshake_stall(now, syn, turns, false) } else { None };
        }
        if half.is_waiting() || half.is_shut() {
            let acknowledged_here = self.halves[1 - d].is_queued() && !half.has_expired();
            let stall = half.stall(now, Owner { key: &self.key, user: self.user, d }, &gaps[d], false);
            if let Some(stall) = stall.filter(|_| !acknowledged_here) {
                return Some(stall);
            }
        }
        self.unanswered(now, d).filter(|_| !self.queued())
    }

    /// Takes a datagram of direction `d`.
    pub fn datagram(&mut self, now: Micros, d: usize, header: &Header, book: &mut Book) {
        if header.quic.is_some_and(narrows_wire::QuicPacket::is_handshake) {
            self.flags.set(Record16::QUIC);
        }
        if self.flags.has(Record16::QUIC) {
            self.answer(now, 1 - d, book);
        }
        self.halves[d].asks(now);
    }

    /// Takes an answer to what direction `d` has asked.
    fn answer(&mut self, now: Micros, d: usize, book: &mut Book) {
        if let Some(stall) = self.starving(now, d) {
            book.ended(Stall { ended: true, ..stall });
        }
        if let Some(trip) = self.halves[d].hears(now) {
            book.round_trip(1 - d, trip);
        }
    }

    /// The stall of a QUIC connection whose direction `d` asks and hears nothing.
    pub fn starving(&self, now: Micros, d: usize) -> Option<Stall> {
        let half = &self.halves[d];
        let length = half.starves_for(now).filter(|_| self.flags.has(Record16::QUIC))?;
        Some(Stall {
            key: self.key,
            user: self.user,
            by: d,
            length,
            cause: Cause::Starved,
            lost: half.lost(),
            certainty: Certainty::Possible,
            repair: None,
            timeouts: 0,
            backoff: 0,
            outstanding: half.expiries().saturating_add(1),
            turn_ms: half.turn_ms(),
            ended: false,
        })
    }
}
