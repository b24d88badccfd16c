//! What the round keeps of each flow, beside the tracker's record.

use narrows_units::{Bytes, Instant, SeqNum};

use super::clamp::Clamp;
use super::duplicates::Departures;
use super::lists::Links;
use super::repair::Repair;
use super::store::Chain;

/// Which list a flow stands in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// None: nothing waits.
    #[default]
    Out,
    /// Served before the round, on credit.
    First,
    /// In the round.
    Round,
}

/// One flow.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    pub chain: Chain,
    /// Neighbours in `First` or `Round`.
    pub turn: Links,
    /// Neighbours among flows with as long a backlog.
    pub rank: Links,
    pub place: Place,
    pub bucket: u8,
    /// Segments the allowance has been raised by, because the flow ran dry while it was held.
    pub extra: u8,
    /// Bytes it may send in this round; negative: a debt.
    pub deficit: i64,
    /// Bytes it may send before the round.
    pub credit: i64,
    /// Bytes sent in its life.
    pub served: Bytes,
    pub served_at: Option<Instant>,
    /// The sequence number after the last new data sent on.
    pub served_end: Option<SeqNum>,
    /// The tracker's count of flows that had this slot.
    pub generation: Option<u32>,
    /// Sequence number of the SYN the receiver sent to the far side: another one is another connection.
    pub asked: Option<SeqNum>,
    pub highest_ack: Option<SeqNum>,
    /// When `highest_ack` last grew.
    pub acked_at: Instant,
    /// The largest payload seen; before there is any, what the SYNs agreed on.
    pub segment: u16,
    pub clamp: Clamp,
    pub departures: Departures,
    pub repair: Repair,
}

impl Slot {
    /// Notes the acknowledgment of a passing packet.
    pub fn acknowledged(&mut self, now: Instant, ack: SeqNum) {
        if self.highest_ack.is_none_or(|a| a.before(ack)) {
            self.highest_ack = Some(ack);
            self.acked_at = now;
            self.repair.acknowledged(ack);
        }
    }

    /// A new connection in this slot. What waits, waits on.
    pub fn restart(&mut self, generation: u32, credit: i64) {
        let Self { chain, turn, rank, place, bucket, .. } = *self;
        let generation = Some(generation);
        *self = Self { chain, turn, rank, place, bucket, generation, credit, ..Self::default() };
    }
}
