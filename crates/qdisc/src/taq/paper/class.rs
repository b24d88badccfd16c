//! The five queues and which packet belongs in which (4.2 s3 to s9, s19). Packets are classified, not flows: what waits
//! stays where it is when its flow changes.

use narrows_flow::{Flow, PacketKind, Phase};
use narrows_units::{Duration, Instant};

use super::predict::{drops_lately, has_timer};

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Retransmissions, ordered by the kind and length of the silence before the retransmission.
    Recovery,
    /// Flows that have just begun.
    New,
    /// Flows with several recent drops.
    Over,
    /// Flows below the fair share.
    Below,
    /// Flows above the fair share.
    Above,
}

impl Class {
    /// Classes in the order of the paper.
    pub(super) const ALL: [Self; 5] = [Self::Recovery, Self::New, Self::Over, Self::Below, Self::Above];
    /// Classes of level 2.
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

    /// Number of the class among the queues that are FIFOs.
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

/// A flow counts as new for this many epochs and this many packets; the paper names no bound.
const NEW_EPOCHS: u64 = 5;
const NEW_PACKETS: u32 = 20;
/// "Multiple packet drops in the past and current epochs cumulatively" (4.2 s7).
const MULTIPLE: u32 = 2;

/// Facts that classification needs beside the flow's record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Whether the flow ever lost a packet, here or elsewhere.
    pub(super) lost: bool,
    /// Fair share of the flow in bits per second.
    pub(super) share_bps: u64,
}

/// The queue for a packet that is no retransmission; `rate_bps` is what the flow transmits.
pub(super) fn classify(now: Instant, flow: &Flow, kind: PacketKind, rate_bps: u64, facts: Facts) -> Class {
    // SYNs are no data and start a flow.
    if matches!(kind, PacketKind::Syn | PacketKind::SynAck) {
        return Class::New;
    }
    // Drops lift what a timeout may follow; the rest stands by its rate.
    let drops = if has_timer(flow, kind) { drops_lately(flow) } else { 0 };
    if flow.phase() == Some(Phase::SlowStart) && !facts.lost && is_new(now, flow) {
        Class::New
    } else if drops >= MULTIPLE {
        Class::Over
    } else if drops > 0 || rate_bps < facts.share_bps {
        // After one loss, too, what is in the window has priority (4.1 s12): never level 3.
        Class::Below
    } else {
        Class::Above
    }
}

fn is_new(now: Instant, flow: &Flow) -> bool {
    flow.age(now) < flow.epoch_len() * NEW_EPOCHS && flow.sent_packets() <= NEW_PACKETS
}

/// The key of a retransmission in the recovery queue, the largest first (4.1 s16, s17; 4.2 s5): out of an extended
/// silence, out of a silence, none; then the longer silence; then the longer time since new data was sent on. Times to
/// a millisecond or so.
pub(super) fn recovery_key(flow: &Flow, since_normal: Duration) -> u64 {
    let silence = || flow.last_silence();
    let (kind, silence) = match (flow.phase(), flow.previous_phase()) {
        (Some(Phase::TimeoutRecovery), Some(Phase::ExtendedSilence)) => (3, silence()),
        (Some(Phase::TimeoutRecovery), Some(Phase::TimeoutSilence | Phase::Idle)) => (2, silence()),
        // A timeout that no silence was seen of: straight into recovery (3.3).
        (Some(Phase::TimeoutRecovery), _) => (2, Duration::ZERO),
        _ => (1, Duration::ZERO),
    };
    let coarse = |time: Duration| (time.as_nanos() >> 20).min((1 << 31) - 1);
    kind << 62 | coarse(silence) << 31 | coarse(since_normal)
}
