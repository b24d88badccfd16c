//! Prediction of what a drop would do to the sender: the paper's next state (section 4; 4.1), by which packets are
//! chosen to be lost.
//!
//! The sizes that decide are those of the model (3.1): three duplicate acknowledgments repair one loss in a window of
//! four packets and more; a second loss, or the loss of a repair, is a timeout. The window is roughly the number of new
//! packets in an epoch (4 s4).

use narrows_flow::{Flow, PacketKind, Phase};

/// The state a sender would come to by the loss of one packet, the cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum NextState {
    /// No timeout: fast retransmit repairs it (4.1 s9, s10), or nothing needs to be repaired.
    LossRecovery,
    /// A timeout: the window is too small for three duplicate acknowledgments.
    Timeout,
    /// A timeout of a flow that has a loss in this epoch or the last: "multiple losses are much harder" (4.1 s10, s12).
    SecondLoss,
    /// A repetitive timeout: the flow is in timeout recovery, or in the slow start that follows it, whose packets
    /// "immediately following retransmissions" cost as much (3.2; 4 s2).
    Repeated,
}

impl NextState {
    /// Number of states.
    pub(super) const COUNT: usize = 4;
}

/// The least window in which fast retransmit repairs a loss (3.1: three more packets must get through).
const REPAIRABLE_WINDOW: u32 = 4;

/// Packets of the flow that were dropped here in this epoch or the last (3.3 s8d; 4.1 s12).
pub(super) const fn drops_lately(flow: &Flow) -> u32 {
    flow.drops_cur() + flow.drops_prev()
}

/// Whether a sender waits for the acknowledgment of a packet of `kind` with a timer.
pub(super) const fn has_timer(flow: &Flow, kind: PacketKind) -> bool {
    flow.is_tcp()
        && !matches!(
            kind,
            PacketKind::PureAck | PacketKind::KeepAlive | PacketKind::WindowProbe | PacketKind::Rst
        )
}

/// The state the sender comes to if this packet, which is no retransmission, is dropped now.
pub(super) fn after_loss(flow: &Flow, kind: PacketKind) -> NextState {
    if !has_timer(flow, kind) {
        return NextState::LossRecovery;
    }
    match flow.phase() {
        // A SYN has no window behind it.
        None => NextState::Timeout,
        Some(Phase::TimeoutRecovery | Phase::TimeoutSilence | Phase::ExtendedSilence) => NextState::Repeated,
        Some(Phase::SlowStart) if flow.previous_phase() == Some(Phase::TimeoutRecovery) => {
            NextState::Repeated
        }
        Some(Phase::LossRecovery) => NextState::SecondLoss,
        Some(_) if drops_lately(flow) > 0 => NextState::SecondLoss,
        Some(_) if flow.window_pkts() >= REPAIRABLE_WINDOW => NextState::LossRecovery,
        Some(_) => NextState::Timeout,
    }
}
