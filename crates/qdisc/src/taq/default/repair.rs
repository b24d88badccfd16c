//! Drops a flow can repair.
//!
//! A drop becomes a stall when the sender does not see three duplicate acknowledgments for it (RFC 5681, section
//! 3.2). So a packet is dropped only if it is new data with at least three data packets of its flow waiting behind it,
//! and no second one until the first is repaired: fast retransmit then halves the window once, which is all that was
//! wanted. An ECN-capable packet is marked instead, by the same rule, once for each window.

use narrows_flow::FlowId;

use super::pending_repair::DUP_THRESH;
use super::queues::FlowQueues;
use crate::Packet;

/// Packets behind one that are looked at in search of [`DUP_THRESH`] with data: acknowledgments may stand between them.
const LOOKED_AT: usize = 16;

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
}
