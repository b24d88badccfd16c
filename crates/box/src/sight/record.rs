//! What is kept of a connection: both its directions, in one record.
//!
//! `narrows-diagnose` keeps every segment that is under way, which no bounded record can; what is here is the part of
//! its judgement that a few numbers bear. Its names and its definition of a stall are the same, and a test holds the
//! two against each other.

use narrows_diagnose::Repair;
use narrows_diagnose::tolerances::{FIRST_RTO, LEAST_STALL};
use narrows_flow::{Micros, Ranges};
use narrows_lists::{NIL, Slab};
use narrows_units::{Duration, SeqNum};
use narrows_wire::FlowKey;

use super::cause::Lost;

/// One bit each.
macro_rules! bits {
    ($(#[$doc:meta])* $flags:ident { $($(#[$each:meta])* $name:ident = $bit:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $flags(u16);

        impl $flags {
            $($(#[$each])* pub const $name: Self = Self(1 << $bit);)*

            /// Whether any of these is set.
            pub const fn has(self, any: Self) -> bool {
                self.0 & any.0 != 0
            }
            /// Sets or clears.
            pub const fn put(&mut self, which: Self, on: bool) {
                if on { self.0 |= which.0 } else { self.0 &= !which.0 }
            }
            /// Sets.
            pub const fn set(&mut self, which: Self) {
                self.0 |= which.0;
            }
        }
    };
}

bits! {
    /// Of one direction.
    Half16 {
        /// Its sequence numbers are known.
        SYNCED = 0,
        /// Something is under way, or was asked for.
        WAITING = 1,
        /// A segment was chosen for a round trip and has not left yet.
        SAMPLING = 2,
        /// It has left.
        SAMPLED = 3,
        /// An ACK of new data has passed, and no data since.
        ACKED = 4,
        /// After a timeout (RFC 6298), until what was sent then is acknowledged.
        LOSS = 5,
        /// After a fast retransmit (RFC 6582).
        RECOVERY = 6,
        /// A tail-loss probe was sent since the last ACK of new data (RFC 8985).
        PROBED = 7,
        /// What is repaired was repaired before.
        DOUBLE = 8,
        /// The receiver had what was sent again.
        SPURIOUS = 9,
        /// The receiver's window is closed.
        SHUT = 10,
        /// Its sender has finished.
        FIN = 11,
        /// Its receiver acknowledges selectively: a sender of today.
        SELECTIVE = 12,
        /// It ever sets PSH.
        PUSHES = 13,
        /// It did on its latest data.
        PUSHED = 14,
        /// It has had data.
        DATA = 15,
    }
}

bits! {
    /// Of a connection.
    Record16 {
        /// It is TCP.
        TCP = 1,
        /// A QUIC handshake was seen.
        QUIC = 2,
        /// The SYN was seen.
        OPENED = 3,
        /// It came from the users.
        OPENER_UP = 4,
        /// The SYN-ACK was seen.
        ANSWERED = 5,
        /// The handshake is over, or was not seen.
        OVER = 6,
        /// Both ends have finished, or one has reset it.
        CLOSED = 7,
        /// Admission control has refused its SYN.
        REFUSED = 8,
        /// The box has dropped its SYN or the answer.
        SYN_LOST_HERE = 9,
        /// Packets have gone down.
        WENT_DOWN = 10,
        /// Packets have gone up.
        WENT_UP = 11,
    }
}

/// One direction: its data, and what the other end says of that. The first half of a round trip is from the box to the
/// receiver and back, the other from the box to the sender and back. What an ordinary packet needs stands together, in
/// one cache line.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct Half {
    /// The start of the latest repair.
    pub latest: SeqNum,
    /// What was sent when a loss was found.
    pub recover: SeqNum,
    /// The highest ACK seen, and the end of the highest byte.
    pub una: SeqNum,
    pub max: SeqNum,
    /// The latest progress. Of what is not TCP, each packet is one.
    pub since: Micros,
    /// Since when an answer is waited for: when the retransmission timer was restarted (RFC 6298, section 5), or QUIC
    /// sent the first packet that is unanswered (RFC 9002, section 6.2.1).
    pub waits_since: Micros,
    /// The latest data.
    pub sent: Micros,
    pub sample_end: SeqNum,
    pub sample_at: Micros,
    /// Smoothed, microseconds; zero as long as it is not known.
    pub receiver_us: u32,
    pub sender_us: u32,
    /// Packets are counted up to there.
    pub trip_end: SeqNum,
    pub flags: Half16,
    /// What the receiver offers, unscaled.
    pub window: u16,
    /// Packets in the box.
    pub queued: u16,
    pub trip_packets: u16,
    /// The longest payload.
    pub mss: u16,
    /// Time since the latest progress in which its packets, or acknowledgments of them, waited here for their turn,
    /// milliseconds. What its timer has sent again waits for a repair.
    pub turn_ms: u16,
    /// Expiries of the sender's timer since the last progress, as packets show them: the same bytes, the same SYN, or
    /// of QUIC one more packet to the silent end. One whose packet still waits here is none.
    pub expiries: u8,
    pub repair: Option<Repair>,
    pub lost: Lost,
    /// Segments that the last progress told of beyond a gap.
    pub told: u8,
    pub dupacks: u8,
    /// The back-off, as a shift.
    pub backoff: u8,
    /// Window scale of the receiver.
    pub scale: u8,
    /// Whether [`Gaps`] of this direction has anything.
    pub gaps: bool,
}

/// Bytes of one direction that are missing. Most have none, so they are kept apart from the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gaps {
    /// Dropped by the box and not repaired.
    pub dropped: Ranges<(), 2>,
    /// Never seen, with the time at which what lies behind was.
    pub holes: Ranges<Micros, 1>,
}

/// See the head of the file. Three cache lines: who it is, and a direction each.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Record {
    /// As packets go down.
    pub key: FlowKey,
    pub flags: Record16,
    /// The next of the same bucket.
    pub chain: u32,
    /// The user, by its place in the book.
    pub user: u32,
    pub seen: Micros,
    /// Down, up.
    pub halves: [Half; 2],
}

narrows_lists::chained!(Record: chain);

/// With its share of the index, two buckets of 32 bits.
pub const BYTES_PER_FLOW: usize = Slab::<Record>::BYTES_EACH + size_of::<[Gaps; 2]>() + 2 * size_of::<u32>();
const _: () = assert!(BYTES_PER_FLOW <= 256 && size_of::<Record>() == 3 * 64);

impl Half16 {
    /// Clears, and says whether it was set.
    pub const fn take(&mut self, which: Self) -> bool {
        let was = self.has(which);
        self.0 &= !which.0;
        was
    }
}

impl Record16 {
    /// That packets have passed in this direction.
    pub const ONE_WAY: [Self; 2] = [Self::WENT_DOWN, Self::WENT_UP];
}

impl Record {
    /// A connection of which nothing is known.
    pub fn new(key: FlowKey, user: u32, now: Micros) -> Self {
        let mut flags = Record16::default();
        flags.put(Record16::TCP, key.proto == narrows_wire::Proto::TCP);
        let half = Half { since: now, waits_since: now, sent: now, ..Half::default() };
        Self { key, flags, chain: NIL, user, seen: now, halves: [half.clone(), half] }
    }

    /// Everything but its place and user is forgotten: another connection begins.
    pub fn restart(&mut self, now: Micros) {
        let queued = [0, 1].map(|d: usize| self.halves[d].queued);
        *self = Self { chain: self.chain, ..Self::new(self.key, self.user, now) };
        (self.halves[0].queued, self.halves[1].queued) = (queued[0], queued[1]);
    }

    /// The direction in which its opener sends, as far as is known: from the users.
    pub const fn opener(&self) -> usize {
        if self.flags.has(Record16::OPENED) && !self.flags.has(Record16::OPENER_UP) { 0 } else { 1 }
    }

    /// Whether packets passed both ways.
    pub fn talks(&self) -> bool {
        Record16::ONE_WAY.into_iter().all(|way| self.flags.has(way))
    }

    /// Packets of it in the box.
    pub const fn queued(&self) -> bool {
        self.halves[0].queued > 0 || self.halves[1].queued > 0
    }
}

impl Half {
    /// Both halves of the round trip.
    pub const fn srtt(&self) -> Duration {
        Duration::from_micros(self.receiver_us as u64 + self.sender_us as u64)
    }

    /// Silence from which on it stalls: a second, which a sender waits before it knows its round trip, and three
    /// rounds. If a repair is awaited, 200 ms and two round trips, as in a capture.
    pub fn patience(&self, repair_awaited: bool) -> Duration {
        if repair_awaited { LEAST_STALL.max(self.srtt() * 2) } else { FIRST_RTO.max(self.srtt() * 3) }
    }

    /// Whether its timer has expired and nothing has ended the silence since.
    pub fn has_expired(&self) -> bool {
        self.expiries > 0 || self.repair == Some(Repair::Probe)
    }

    /// One of its packets, or an acknowledgment of some, leaves the box after a wait; the silence has lasted for
    /// `silent`.
    pub fn turn_ends(&mut self, waited: Duration, silent: Duration) {
        if !self.has_expired() {
            self.turn_ms = (self.turn() + waited).min(silent).as_millis().min(u64::from(u16::MAX)) as u16;
        }
    }

    /// How long it waited for its turn in the present silence.
    pub fn turn(&self) -> Duration {
        Duration::from_millis(self.turn_ms.into())
    }

    /// Whether all that is under way is in the box still.
    pub fn is_all_here(&self) -> bool {
        u16::from(self.under_way()) <= self.queued
    }

    /// The length of the present silence, if that is a stall. A turn that is awaited here, or was, is none.
    /// `unrepaired`: something was dropped here and not sent again.
    pub fn stalled(&self, now: Micros, unrepaired: bool) -> Option<Duration> {
        let awaited = unrepaired || self.has_expired();
        if self.queued > 0 && !awaited {
            return None;
        }
        let length = now.since(self.since).saturating_sub(self.turn());
        (length > self.patience(awaited)).then_some(length)
    }

    /// Moves a smoothed time by a sample; RFC 6298 with weight 1/8.
    pub fn smooth(old: u32, sample: Duration) -> u32 {
        let us = (sample.as_nanos() / 1000).clamp(1, u64::from(u32::MAX)) as u32;
        if old == 0 { us } else { (old - (old >> 3)).saturating_add(us >> 3) }
    }

    /// Segments under way. Whatever changes their number is progress, so they were as many since the last.
    pub fn under_way(&self) -> u8 {
        let bytes = self.max - self.una;
        bytes.div_ceil(u32::from(self.mss).max(1)).min(255) as u8
    }
}
