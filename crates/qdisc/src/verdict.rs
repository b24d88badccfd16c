//! Decisions of a discipline about packets, and its backlog.

use narrows_units::{Bytes, Duration};
use narrows_wire::Header;

use crate::{Counters, Packet};

/// Reason why a packet was dropped, marked, suppressed or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The queue, or the packet's class in the queue, is full.
    OverLimit,
    /// Chosen before the queue is full, to tell senders of congestion.
    Early,
    /// Pushed out to make room for a packet that matters more.
    PushedOut,
    /// Chosen because TCP can repair the loss by fast retransmit.
    Repairable,
    /// The flow's packets wait longer than they may.
    Sojourn,
    /// A copy of a segment that still waits here, or that has just left and cannot be acknowledged yet.
    Duplicate,
    /// The link has more pools than the link can serve: the packet's pool has to wait.
    Admission,
}

impl Reason {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 7] = [
        Self::OverLimit,
        Self::Early,
        Self::PushedOut,
        Self::Repairable,
        Self::Sojourn,
        Self::Duplicate,
        Self::Admission,
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OverLimit => "over_limit",
            Self::Early => "early",
            Self::PushedOut => "pushed_out",
            Self::Repairable => "repairable",
            Self::Sojourn => "sojourn",
            Self::Duplicate => "duplicate",
            Self::Admission => "admission",
        }
    }
}

/// Decision of a discipline about a packet other than to send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<P> {
    /// Packet that is lost: the sender has to repair the loss.
    Dropped {
        /// The victim: any packet of the queue, not only the one that came.
        packet: P,
        /// Reason of the drop.
        reason: Reason,
    },
    /// Packet discarded at no cost, because the receiver gets its bytes anyway.
    Suppressed {
        /// The superfluous copy.
        packet: P,
    },
    /// Turned away by admission control; the sender will ask again.
    Refused {
        /// The SYN that was refused.
        packet: P,
        /// Position of the packet's pool in the wait queue, from 1.
        position: usize,
        /// Time after which a new request makes sense.
        retry_after: Duration,
    },
    /// Congestion experienced was set on a packet that stays.
    Marked {
        /// The packet's headers after marking.
        header: Header,
        /// Reason of the mark.
        reason: Reason,
    },
}

/// Verdicts in the order of the decisions. Drivers keep one list and clear it, so that no packet costs an allocation.
pub type Verdicts<P> = Vec<Verdict<P>>;

/// Packets and bytes that wait in a discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Backlog {
    /// Packets.
    pub packets: usize,
    /// IP lengths of the waiting packets together.
    pub bytes: Bytes,
}

impl Backlog {
    /// Counts a packet in.
    pub fn add(&mut self, len: Bytes) {
        self.packets += 1;
        self.bytes += len;
    }
    /// Counts a packet out.
    pub fn sub(&mut self, len: Bytes) {
        self.packets -= 1;
        self.bytes -= len;
    }
}

impl Counters {
    /// Drops a packet, counts the drop and reports it as a verdict.
    pub fn drop_packet<P>(&mut self, packet: P, reason: Reason, verdicts: &mut Verdicts<P>) {
        self.drop_for(reason);
        verdicts.push(Verdict::Dropped { packet, reason });
    }
    /// Marks a packet that stays, counts it and says so; `false` if it is not ECN-capable.
    pub fn mark_packet<P: Packet>(
        &mut self,
        packet: &mut P,
        reason: Reason,
        verdicts: &mut Verdicts<P>,
    ) -> bool {
        let marked = packet.mark_ce();
        if marked {
            self.marked += 1;
            verdicts.push(Verdict::Marked { header: *packet.header(), reason });
        }
        marked
    }
}
