//! Numbers of flows in each phase, for reports and for fair shares.

use narrows_units::Duration;

use crate::Phase;

/// All flows at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Flows known.
    pub flows: usize,
    /// Flows in each phase, in the order of [`Phase::ALL`].
    pub by_phase: [usize; Phase::ALL.len()],
    /// TCP flows that have sent no data yet.
    pub unphased: usize,
    /// Flows that are not TCP.
    pub not_tcp: usize,
    /// Flows that count for the fair share: a packet within max(2 s, 4 epochs), or waiting, or silent because of a
    /// loss.
    pub active: usize,
    /// Pools that the active flows belong to.
    pub pools: usize,
    /// Flows silent because of a loss, with nothing of theirs waiting here.
    pub silent: usize,
    /// The longest such silence.
    pub longest_stall: Duration,
}

/// Counts since the tracker was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Records made.
    pub created: u64,
    /// New connections on a known key.
    pub restarted: u64,
    /// Segments that repeat old bytes before new ones.
    pub overlapping: u64,
    /// Segments whose sequence numbers lie out of any window: followed, the record starts from there.
    pub out_of_window: u64,
    /// Records forgotten after the timeout of a record.
    pub expired: u64,
    /// Records evicted to make room.
    pub evicted: u64,
    /// Records of flows in use that were evicted to make room.
    pub evicted_in_use: u64,
    /// Packets for which there was no room: every record had packets waiting.
    pub unrecorded: u64,
}
