//! Drops a flow can repair.
//!
//! A drop becomes a stall when the sender does not see three duplicate acknowledgments for it (RFC 5681, section
//! 3.2). So a packet is dropped only if it is new data with at least three data packets of its flow waiting behind it,
//! and no second one until the first is repaired: fast retransmit then halves the window once, which is all that was
//! wanted. An ECN-capable packet is marked instead, by the same rule, once for each window.

use narrows_flow::FlowId;
use narrows_units::{Duration, Instant, SeqNum};

use super::queues::FlowQueues;
use crate::Packet;

/// Packets behind one that are looked at in search of [`DUP_THRESH`] with data: acknowledgments may stand between them.
const LOOKED_AT: usize = 16;

/// Duplicate acknowledgments that make a fast retransmit (RFC 5681, DupThresh).
pub const DUP_THRESH: u32 = 3;

/// The loss or mark that a flow has still to answer.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct PendingRepair {
    open: bool,
    end: SeqNum,
    since: Instant,
}

impl PendingRepair {
    /// Notes a drop or mark of what ends at `end`.
    pub const fn open(&mut self, end: SeqNum, now: Instant) {
        *self = Self { open: true, end, since: now };
    }
    /// The receiver has everything up to `ack`, which it had not before.
    pub fn acknowledged(&mut self, ack: SeqNum) {
        self.open &= !self.end.at_or_before(ack);
    }
    /// Whether another drop must wait; `patience` bounds it for flows whose acknowledgments are not seen.
    pub fn is_open(&self, now: Instant, patience: Duration) -> bool {
        self.open && now.since(self.since) < patience
    }
}

/// The packet of a flow nearest to the front whose loss TCP repairs by itself. All behind it have fewer data packets
/// behind them, so if it has not enough, none has.
pub fn pick<P: Packet>(queues: &mut FlowQueues<P>, flow: FlowId) -> Option<u32> {
    let first = queues.first_repairable(flow)?;
    let (mut behind, mut next) = (0, queues.behind(first));
    for _ in 0..LOOKED_AT {
        let at = next?;
        behind += u32::from(queues.packet(at).header().is_tcp_data());
        if behind == DUP_THRESH {
            return Some(first);
        }
        next = queues.behind(at);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::taq::default::queues::samples::queued;

    fn picked(new: &[bool]) -> Option<u64> {
        let data: Vec<_> = new.iter().map(|new| (100, *new)).collect();
        let (mut queues, flow) = queued(&data);
        pick(&mut queues, flow).map(|at| queues.packet(at).id)
    }

    #[test]
    fn three_must_stand_behind_the_victim() {
        assert_eq!(picked(&[true, true, true]), None);
        assert_eq!(picked(&[true, true, true, true, true]), Some(0));
    }

    #[test]
    fn a_retransmission_is_passed_over() {
        assert_eq!(picked(&[false, true, false, true, true, true]), Some(1));
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
