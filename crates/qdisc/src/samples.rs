//! Packets for the tests of several disciplines, and what became of them.

use narrows_units::{Bytes, Ecn};
use narrows_wire::{FlowKey, Proto};

use crate::{Reason, Record, Verdict};

/// A packet of no flow in particular.
pub fn packet(id: u64, len: u64) -> Record {
    let mut r = Record { id, ..Record::default() };
    r.header.len = Bytes(len);
    r
}

/// A packet that can be marked, or not.
pub fn ecn_packet(id: u64, len: u64, ecn: Ecn) -> Record {
    let mut r = packet(id, len);
    r.header.ecn = ecn;
    r
}

/// Packet `id` of flow `id / 100`.
pub fn packet_of_flow(id: u64, len: u64) -> Record {
    let mut r = packet(id, len);
    r.header.key =
        FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 80, (id / 100) as u16, Proto::TCP);
    r
}

/// Packets that were dropped, and why.
pub fn dropped(verdicts: &[Verdict<Record>]) -> Vec<(u64, Reason)> {
    let dropped = |v: &Verdict<Record>| match v {
        Verdict::Dropped { packet, reason } => Some((packet.id, *reason)),
        _ => None,
    };
    verdicts.iter().filter_map(dropped).collect()
}
