//! What is counted of one sender.

use serde::Serialize;

use crate::findings::{Event, Place, Repair};

/// See the head of the file. Numbers of packets, unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Segments with new data.
    pub data: u64,
    /// Payload of new data, bytes.
    pub bytes: u64,
    /// Segments whose bytes had passed, or had been passed over, before; without what was only overtaken.
    pub again: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Timeouts whose packet was not seen, a part of `timeouts`.
    pub timeouts_inferred: u64,
    /// Fast retransmits, one for each recovery.
    pub fast_retransmits: u64,
    /// Further segments of a recovery.
    pub recovery: u64,
    /// Further segments after a timeout.
    pub after_timeout: u64,
    /// Tail-loss probes.
    pub probes: u64,
    /// Number of SYNs and SYN-ACKs sent again.
    pub handshake: u64,
    /// Sent again for no reason that we can tell.
    pub unknown: u64,
    /// Repairs that the receiver did not need.
    pub spurious: u64,
    /// Repairs of what was lost between the sender and the capture. None of them is known to be needless.
    pub lost_before: u64,
    /// Repairs of what had passed the capture. None of them is known to be needless.
    pub lost_behind: u64,
    /// Segments that others overtook.
    pub reordered: u64,
    /// Jumps over bytes that had not been seen.
    pub holes: u64,
    /// Acknowledgments of what was not seen.
    pub unseen: u64,
    /// Duplicate acknowledgments to the sender.
    pub dupacks: u64,
    /// Keep-alives.
    pub keep_alives: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
    /// The largest factor on the RTO.
    pub backoff_max: u32,
}

impl Counts {
    pub(crate) fn add(&mut self, event: &Event) {
        let of = match event.repair {
            Repair::Timeout => &mut self.timeouts,
            Repair::AfterTimeout => &mut self.after_timeout,
            Repair::FastRetransmit => &mut self.fast_retransmits,
            Repair::Recovery => &mut self.recovery,
            Repair::Probe => &mut self.probes,
            Repair::Handshake => &mut self.handshake,
            Repair::Unknown => &mut self.unknown,
        };
        *of += 1;
        self.timeouts_inferred += u64::from(event.inferred && event.repair == Repair::Timeout);
        self.lost_before += u64::from(matches!(event.lost, Place::Before | Place::Both));
        self.lost_behind += u64::from(matches!(event.lost, Place::Behind | Place::Both));
    }

    /// Takes a repair of what was lost at this place for one that the receiver did not need.
    pub(crate) const fn not_lost(&mut self, place: Place) {
        self.spurious += 1;
        if matches!(place, Place::Before | Place::Both) {
            self.lost_before = self.lost_before.saturating_sub(1);
        }
        if matches!(place, Place::Behind | Place::Both) {
            self.lost_behind = self.lost_behind.saturating_sub(1);
        }
    }

    /// Packets sent again, whatever for: needless ones, and those that were inferred, are among them.
    #[must_use]
    pub const fn sent_again(&self) -> u64 {
        self.timeouts
            + self.fast_retransmits
            + self.recovery
            + self.after_timeout
            + self.probes
            + self.handshake
            + self.unknown
    }

    /// Adds the counts of another sender.
    pub fn merge(&mut self, o: &Self) {
        for (to, n) in [
            (&mut self.data, o.data),
            (&mut self.bytes, o.bytes),
            (&mut self.again, o.again),
            (&mut self.timeouts, o.timeouts),
            (&mut self.timeouts_inferred, o.timeouts_inferred),
            (&mut self.fast_retransmits, o.fast_retransmits),
            (&mut self.recovery, o.recovery),
            (&mut self.after_timeout, o.after_timeout),
            (&mut self.probes, o.probes),
            (&mut self.handshake, o.handshake),
            (&mut self.unknown, o.unknown),
            (&mut self.spurious, o.spurious),
            (&mut self.lost_before, o.lost_before),
            (&mut self.lost_behind, o.lost_behind),
            (&mut self.reordered, o.reordered),
            (&mut self.holes, o.holes),
            (&mut self.unseen, o.unseen),
            (&mut self.dupacks, o.dupacks),
            (&mut self.keep_alives, o.keep_alives),
            (&mut self.window_probes, o.window_probes),
        ] {
            *to += n;
        }
        self.backoff_max = self.backoff_max.max(o.backoff_max);
    }
}
