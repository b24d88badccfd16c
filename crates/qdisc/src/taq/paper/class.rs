//! The five queues and who belongs in which (notes, section 2.4).

use narrows_flow::{Flow, PacketKind, Phase};
use narrows_units::Instant;

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Retransmissions, by the length of the silence before them; also pure acknowledgments.
    Recovery,
    /// Flows that have just begun.
    New,
    /// Flows with several recent drops.
    Over,
    /// Flows below their fair share.
    Below,
    /// Flows above it.
    Above,
}

impl Class {
    /// In the order of the paper.
    pub(super) const ALL: [Self; 5] = [Self::Recovery, Self::New, Self::Over, Self::Below, Self::Above];
    /// Those of level 2.
    pub(super) const LEVEL2: [Self; 3] = [Self::New, Self::Over, Self::Below];

    /// The name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Recovery => "recovery",
            Self::New => "new_flow",
            Self::Over => "over_penalised",
            Self::Below => "below_fair_share",
            Self::Above => "above_fair_share",
        }
    }

    /// Its number among the queues that are FIFOs.
    pub(super) const fn fifo(self) -> Option<usize> {
        match self {
            Self::Recovery => None,
            Self::New => Some(0),
            Self::Over => Some(1),
            Self::Below => Some(2),
            Self::Above => Some(3),
        }
    }
}

/// A flow counts as new for this many epochs (notes; the paper names no bound) ...
const NEW_EPOCHS: u64 = 5;
/// ... and this many packets.
const NEW_PACKETS: u32 = 20;

/// What classification asks beside the flow's record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Whether the flow ever lost a packet, here or elsewhere.
    pub(super) lost: bool,
    /// Its fair share in bits per second.
    pub(super) share_bps: u64,
    /// More drops than this make it over-penalised.
    pub(super) over_penalised: u32,
}

/// The queue for a packet that is no retransmission and no pure acknowledgment; `rate_bps` is the flow's.
pub(super) fn classify(now: Instant, flow: &Flow, kind: PacketKind, rate_bps: u64, facts: Facts) -> Class {
    // SYNs are no data and start a flow (notes, 2.1).
    if matches!(kind, PacketKind::Syn | PacketKind::SynAck) {
        return Class::New;
    }
    let drops = flow.drops_cur() + flow.drops_prev();
    if flow.phase() == Some(Phase::SlowStart) && !facts.lost && is_new(now, flow) {
        Class::New
    } else if drops > facts.over_penalised {
        Class::Over
    } else if rate_bps < facts.share_bps {
        Class::Below
    } else {
        Class::Above
    }
}

fn is_new(now: Instant, flow: &Flow) -> bool {
    flow.age(now) < flow.epoch_len() * NEW_EPOCHS && flow.sent_packets() <= NEW_PACKETS
}

/// The key of a pure acknowledgment in the recovery queue: behind every retransmission.
pub(super) const ACK_KEY: u64 = 1;

/// The key of a retransmission in the recovery queue: longer silences first. Outside timeout recovery there was no
/// silence, so `last_silence` tells of another loss and does not count.
pub(super) fn recovery_key(flow: &Flow) -> u64 {
    let silence = match flow.phase() {
        Some(Phase::TimeoutRecovery | Phase::TimeoutSilence | Phase::ExtendedSilence) => {
            flow.last_silence().as_nanos()
        }
        _ => 0,
    };
    silence.saturating_add(ACK_KEY + 1)
}
