//! What DRR and the rest keep of each flow, beside the tracker's record.

use narrows_lists::{Links, NIL, linked, prefetch};
use narrows_units::{Instant, SeqNum};
use narrows_wire::TcpHeader;

use super::clamp::Clamp;
use super::duplicates::Departures;
use super::packets::FlowQueue;
use super::repair::PendingRepair;
use crate::deficit::{Turn, member};

/// One flow, by cache line: what each packet touches, what answers and what is known of the connection, what has left.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[repr(C, align(64))]
pub struct FlowState {
    #[cfg_attr(feature = "handover", serde(skip))]
    pub queue: FlowQueue,
    /// When data was last sent on; [`NEVER`] before.
    pub served_at: Instant,
    pub turn: Turn,
    /// Bytes sent in its life, up to 4 GB: what makes a flow old is far less.
    pub served: u32,
    /// The tracker's count of flows that had this record; [`NOBODY`] if none had.
    pub generation: u32,
    /// The largest payload seen; before there is any, what the SYNs agreed on.
    pub segment: u16,
    #[cfg_attr(feature = "handover", serde(skip))]
    pub bucket: u8,
    /// Segments by which more is permitted in flight, because the flow ran dry while it was held.
    pub extra: u8,
    /// Where `departures` takes the next.
    pub next_departure: u8,
    /// The record of its user: valid while packets wait, later perhaps another's.
    #[cfg_attr(feature = "handover", serde(skip, default = "nobody"))]
    pub user: u32,

    /// When `highest_ack` last grew.
    pub acked_at: Instant,
    /// The sequence number after the last new data sent on.
    pub served_end: Option<SeqNum>,
    pub clamp: Clamp,
    pub highest_ack: Option<SeqNum>,
    /// Sequence number of the SYN the receiver sent to the far side: another one is another connection.
    pub request_isn: Option<SeqNum>,
    pub repair: PendingRepair,
    /// Neighbours among flows with as long a backlog.
    #[cfg_attr(feature = "handover", serde(skip, default = "unlinked"))]
    rank: Links,

    pub departures: Departures,
}

/// As a flow stands that has just been taken over.
#[cfg(feature = "handover")]
const fn unlinked() -> Links {
    Links::NONE
}

/// As a flow's user is that has just been taken over.
#[cfg(feature = "handover")]
const fn nobody() -> u32 {
    NIL
}

const _: () = assert!(size_of::<FlowState>() == 3 * 64);
const _: () = assert!(core::mem::offset_of!(FlowState, acked_at) == 64);
const _: () = assert!(core::mem::offset_of!(FlowState, departures) == 128);

/// No instant at which anything was sent.
pub const NEVER: Instant = Instant::FAR_FUTURE;
/// No generation: the tracker counts them modulo 2^16.
const NOBODY: u32 = u32::MAX;

member!(FlowState: turn);

/// Lists of flows with as long a backlog.
#[derive(Debug)]
pub enum Rank {}

linked!(FlowState, Rank: rank);

impl Default for FlowState {
    fn default() -> Self {
        Self {
            queue: FlowQueue::default(),
            served_at: NEVER,
            turn: Turn::default(),
            served: 0,
            generation: NOBODY,
            segment: 0,
            bucket: 0,
            extra: 0,
            next_departure: 0,
            user: NIL,
            served_end: None,
            clamp: Clamp::default(),
            acked_at: Instant::ZERO,
            highest_ack: None,
            request_isn: None,
            repair: PendingRepair::default(),
            rank: Links::NONE,
            departures: Departures::default(),
        }
    }
}

impl FlowState {
    /// Has its lines fetched from memory together, before they are needed one by one.
    pub fn prefetch(&self) {
        prefetch(&self.queue);
        prefetch(&self.acked_at);
        prefetch(&self.departures);
    }

    /// Notes the acknowledgment of a passing packet.
    pub fn acknowledged(&mut self, now: Instant, tcp: &TcpHeader) {
        if self.highest_ack.is_none_or(|a| a.before(tcp.ack)) {
            self.highest_ack = Some(tcp.ack);
            self.acked_at = now;
            self.repair.acknowledged(tcp.ack);
        } else if self.highest_ack == Some(tcp.ack) && tcp.is_pure_ack() {
            self.repair.repeated(tcp);
        }
    }

    /// Notes what a SYN of either side says: a segment is as large as the receiver takes and the sender's path carries.
    pub fn note_mss(&mut self, tcp: &TcpHeader) {
        let Some(mss) = tcp.mss else { return };
        // Timestamps take 12 of it (RFC 7323, appendix A).
        let options = if tcp.timestamps.is_some() { 12 } else { 0 };
        let mss = mss.saturating_sub(options).max(1);
        self.segment = if self.segment == 0 { mss } else { self.segment.min(mss) };
    }

    /// Notes a segment that has come.
    pub fn note_arrival(&mut self, tcp: &TcpHeader) {
        self.note_mss(tcp);
        let payload = u16::try_from(tcp.payload).unwrap_or(u16::MAX);
        self.segment = self.segment.max(payload);
    }

    /// A new connection of these addresses. What waits, waits on.
    pub fn restart(&mut self, generation: u32, credit: i32) {
        self.turn.restart(credit);
        let Self { queue, turn, rank, bucket, user, .. } = *self;
        *self = Self { queue, turn, rank, bucket, user, generation, ..Self::default() };
    }
}
