//! Drops a flow can repair.
//!
//! A drop becomes a stall when the sender does not see three duplicate acknowledgments for it (RFC 5681, section
//! 3.2). So a packet is dropped only if it is new data with at least three data packets of its flow waiting behind it,
//! and no second one until the first is repaired: fast retransmit then halves the window once, which is all that was
//! wanted. An ECN-capable packet is marked instead, by the same rule, once for each window.

use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::TcpHeader;

use super::packets::{FlowQueue, PacketSlab};
use crate::Packet;

/// Duplicate acknowledgments that make a fast retransmit (RFC 5681, DupThresh).
const DUP_THRESH: u32 = 3;

/// The loss or mark a flow has still to answer, and losses behind the box.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct PendingRepair {
    open: bool,
    /// Acknowledgments that repeated the last; [`DUP_THRESH`] at once where a SACK block says the same.
    duplicates: u8,
    end: SeqNum,
    since: Instant,
}

impl PendingRepair {
    /// Notes a drop or mark of what ends at `end`.
    pub fn open(&mut self, end: SeqNum, now: Instant) {
        *self = Self { open: true, end, since: now, ..*self };
    }
    /// The receiver has everything up to `ack`, which it had not before.
    pub fn acknowledged(&mut self, ack: SeqNum) {
        self.open &= !self.end.at_or_before(ack);
        self.duplicates = 0;
    }
    /// The receiver has something else again, and what comes after `ack` not.
    pub fn repeated(&mut self, tcp: &TcpHeader) {
        if tcp.sack.as_slice().iter().any(|(left, _)| tcp.ack.before(*left)) {
            self.duplicates = DUP_THRESH as u8;
        } else if tcp.sack.as_slice().is_empty() {
            // A block below `ack` reports a copy (RFC 2883).
            self.duplicates = self.duplicates.saturating_add(1);
        }
    }
    /// Whether the receiver's acknowledgments show that a packet is missing there (RFC 5681, section 3.2; RFC 6675).
    pub const fn shows_loss(&self) -> bool {
        self.duplicates >= DUP_THRESH as u8
    }
    /// Whether another drop must wait; `patience` bounds it for flows whose acknowledgments are not seen.
    pub fn is_open(&self, now: Instant, patience: Duration) -> bool {
        self.open && now.since(self.since) < patience
    }
}

/// The front-most packet whose loss TCP repairs by itself.
pub fn pick<P: Packet>(packets: &PacketSlab<P>, queue: &FlowQueue) -> Option<u32> {
    let (mut behind, mut best) = (0, None);
    // From the tail: how many data packets stand behind each.
    for (at, packet) in packets.packets_back(queue) {
        let data = packet.header().is_tcp_data();
        if data && packets.can_be_repaired(at) && behind >= DUP_THRESH {
            best = Some(at);
        }
        behind += u32::from(data);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;
    use narrows_wire::TcpHeader;

    fn queue(new: &[bool]) -> (PacketSlab<Record>, FlowQueue) {
        let (mut packets, mut queue) = (PacketSlab::new(), FlowQueue::default());
        for (i, new) in new.iter().enumerate() {
            let mut r = Record { id: i as u64, ..Record::default() };
            r.header.tcp = Some(TcpHeader { payload: 100, ..TcpHeader::default() });
            let at = packets.insert(r);
            packets.push_back(&mut queue, at, 100, *new);
        }
        (packets, queue)
    }

    #[test]
    fn three_must_stand_behind_the_victim() {
        let (s, c) = queue(&[true, true, true]);
        assert_eq!(pick(&s, &c), None);
        let (s, c) = queue(&[true, true, true, true, true]);
        assert_eq!(pick(&s, &c).map(|at| s.get(at).id), Some(0));
    }

    #[test]
    fn a_retransmission_is_passed_over() {
        let (s, c) = queue(&[false, true, false, true, true, true]);
        assert_eq!(pick(&s, &c).map(|at| s.get(at).id), Some(1));
    }

    #[test]
    fn one_drop_at_a_time() {
        let mut r = PendingRepair::default();
        let (now, long) = (Instant::from_nanos(5), Duration::from_secs(1));
        assert!(!r.is_open(now, long));
        r.open(SeqNum(100), now);
        assert!(r.is_open(now, long));
        r.acknowledged(SeqNum(99));
        assert!(r.is_open(now, long));
        assert!(!r.is_open(now + long, long), "patience ends");
        r.acknowledged(SeqNum(100));
        assert!(!r.is_open(now, long));
    }
}
