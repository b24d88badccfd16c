//! The approximate state of a TCP sender: seven phases and the guards between them.
//!
//! Source: TAQ (EuroSys 2014), Fig. 7 and section 3.3; the drawing's transitions as rebuilt from its text. There are no
//! probabilities: four observed counters drive it (new, retransmitted, dropped and unrepaired packets).
//!
//! Where we differ from the table, because it says nothing of the case:
//! - a drop from the queue of an IDLE flow leads to LOSS_RECOVERY, as from NORMAL;
//! - a silence whose losses turn out to be repaired (an ACK covers them, or the retransmission that was waiting here
//!   went out) ends in IDLE at the next epoch end: nothing is left to repair.

/// Apparent activity of a flow's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(u8)]
pub enum Phase {
    /// The window grows by half or more an epoch.
    SlowStart,
    /// Congestion avoidance: about as many packets an epoch as before.
    Normal,
    /// A packet was lost and the sender still sends.
    LossRecovery,
    /// A loss is not repaired yet and nothing comes: the sender waits for its timer.
    TimeoutSilence,
    /// The timer fired and the retransmissions come.
    TimeoutRecovery,
    /// A loss in the recovery from a timeout: the sender waits for the doubled timer.
    ExtendedSilence,
    /// The sender has nothing to repair, and sends nothing.
    Idle,
}

impl Phase {
    /// All phases, in the order of [`Phase::index`].
    pub const ALL: [Self; 7] = [
        Self::SlowStart,
        Self::Normal,
        Self::LossRecovery,
        Self::TimeoutSilence,
        Self::TimeoutRecovery,
        Self::ExtendedSilence,
        Self::Idle,
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SlowStart => "slow_start",
            Self::Normal => "normal",
            Self::LossRecovery => "loss_recovery",
            Self::TimeoutSilence => "timeout_silence",
            Self::TimeoutRecovery => "timeout_recovery",
            Self::ExtendedSilence => "extended_silence",
            Self::Idle => "idle",
        }
    }

    /// Place of the phase in [`Phase::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the sender is silent because of a loss.
    #[must_use]
    pub const fn is_silent(self) -> bool {
        matches!(self, Self::TimeoutSilence | Self::ExtendedSilence)
    }

    /// The phase after an epoch with the counts `e`.
    pub(crate) const fn after_epoch(self, e: &EpochCounts) -> Self {
        let quiet = e.new == 0 && e.retx == 0;
        // new >= 1.5 * previous, in integers.
        let grows = 2 * e.new as u64 >= 3 * e.prev_new as u64;
        match self {
            Self::SlowStart | Self::Normal if quiet && e.unrepaired == 0 => Self::Idle,
            Self::SlowStart if !quiet && !grows && e.drops == 0 => Self::Normal,
            Self::Normal if !quiet && grows && e.drops == 0 => Self::SlowStart,
            Self::LossRecovery if quiet && e.unrepaired > 0 => Self::TimeoutSilence,
            Self::LossRecovery if e.unrepaired == 0 && e.drops == 0 => Self::Normal,
            Self::TimeoutRecovery if quiet && e.unrepaired > 0 => Self::ExtendedSilence,
            Self::TimeoutRecovery if e.unrepaired == 0 => Self::SlowStart,
            Self::TimeoutSilence | Self::ExtendedSilence if e.unrepaired == 0 => Self::Idle,
            same => same,
        }
    }

    /// The phase once a segment with data has arrived. `timeout_proven`: it repeats a packet whose own retransmission
    /// was dropped here, which only a timer can bring about.
    pub(crate) const fn after_data(self, retransmission: bool, timeout_proven: bool) -> Self {
        match self {
            Self::TimeoutSilence | Self::ExtendedSilence => Self::TimeoutRecovery,
            Self::Idle if retransmission => Self::TimeoutRecovery,
            Self::Idle => Self::SlowStart,
            // A loss elsewhere on the path: seen as a retransmission of what was not dropped here.
            Self::SlowStart | Self::Normal if retransmission => Self::LossRecovery,
            Self::LossRecovery if timeout_proven => Self::TimeoutRecovery,
            same => same,
        }
    }

    /// The phase once a packet with data was dropped.
    pub(crate) const fn after_drop(self) -> Self {
        match self {
            Self::SlowStart | Self::Normal | Self::Idle => Self::LossRecovery,
            Self::TimeoutRecovery => Self::ExtendedSilence,
            same => same,
        }
    }

    /// The phase once a packet with data was sent on, while `unrepaired` packets are still to be repaired.
    pub(crate) const fn after_departure(self, unrepaired: u16) -> Self {
        match self {
            Self::TimeoutRecovery if unrepaired == 0 => Self::SlowStart,
            same => same,
        }
    }

    /// Whether an epoch without a packet leaves the phase unchanged.
    pub(crate) const fn is_quiescent(self, unrepaired: u16) -> bool {
        match self {
            Self::Idle => true,
            Self::TimeoutSilence | Self::ExtendedSilence => unrepaired > 0,
            _ => false,
        }
    }
}

/// Counts of an epoch, on which the next phase depends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EpochCounts {
    pub(crate) new: u16,
    pub(crate) retx: u16,
    pub(crate) prev_new: u16,
    pub(crate) drops: u16,
    pub(crate) unrepaired: u16,
}

#[cfg(test)]
mod tests {
    use super::Phase::*;
    use super::*;

    fn epoch(new: u16, retx: u16, prev_new: u16, drops: u16, unrepaired: u16) -> EpochCounts {
        EpochCounts { new, retx, prev_new, drops, unrepaired }
    }

    #[test]
    fn every_epoch_end_of_the_table() {
        // from, (new, retx, previous new, drops, unrepaired), to
        let rows = [
            (SlowStart, epoch(4, 0, 2, 0, 0), SlowStart),
            (SlowStart, epoch(3, 0, 2, 0, 0), SlowStart), // 3 is not below 1.5 * 2
            (SlowStart, epoch(4, 0, 3, 0, 0), Normal),    // 4 < 4.5
            (SlowStart, epoch(4, 0, 3, 1, 0), SlowStart), // a drop forbids it
            (SlowStart, epoch(0, 0, 3, 0, 0), Idle),
            (Normal, epoch(6, 0, 4, 0, 0), SlowStart), // 6 >= 6
            (Normal, epoch(5, 0, 4, 0, 0), Normal),
            (Normal, epoch(6, 0, 4, 1, 0), Normal),
            (Normal, epoch(0, 0, 4, 0, 0), Idle),
            (LossRecovery, epoch(2, 0, 4, 1, 1), LossRecovery),
            (LossRecovery, epoch(2, 1, 4, 1, 0), LossRecovery), // repaired, but a drop this epoch
            (LossRecovery, epoch(2, 1, 4, 0, 0), Normal),
            (LossRecovery, epoch(0, 0, 4, 0, 1), TimeoutSilence),
            (LossRecovery, epoch(0, 0, 4, 1, 1), TimeoutSilence),
            (TimeoutSilence, epoch(0, 0, 0, 0, 1), TimeoutSilence),
            (TimeoutSilence, epoch(0, 0, 0, 0, 0), Idle),
            (TimeoutRecovery, epoch(0, 1, 0, 0, 1), TimeoutRecovery),
            (TimeoutRecovery, epoch(0, 1, 0, 0, 0), SlowStart),
            (TimeoutRecovery, epoch(0, 0, 0, 0, 1), ExtendedSilence),
            (ExtendedSilence, epoch(0, 0, 0, 0, 1), ExtendedSilence),
            (Idle, epoch(0, 0, 0, 0, 0), Idle),
        ];
        for (from, counts, to) in rows {
            assert_eq!(from.after_epoch(&counts), to, "{from:?} {counts:?}");
        }
    }

    #[test]
    fn every_event_of_the_table() {
        assert_eq!(SlowStart.after_drop(), LossRecovery);
        assert_eq!(Normal.after_drop(), LossRecovery);
        assert_eq!(TimeoutRecovery.after_drop(), ExtendedSilence);
        assert_eq!(Idle.after_data(false, false), SlowStart);
        assert_eq!(Idle.after_data(true, false), TimeoutRecovery);
        assert_eq!(Normal.after_data(true, false), LossRecovery);
        assert_eq!(LossRecovery.after_data(true, true), TimeoutRecovery);
        assert_eq!(LossRecovery.after_data(true, false), LossRecovery);
        assert_eq!(TimeoutSilence.after_data(true, false), TimeoutRecovery);
        assert_eq!(ExtendedSilence.after_data(true, false), TimeoutRecovery);
        assert_eq!(TimeoutRecovery.after_departure(0), SlowStart);
        assert_eq!(TimeoutRecovery.after_departure(1), TimeoutRecovery);
    }

    #[test]
    fn a_resting_phase_stays_under_empty_epochs() {
        for phase in Phase::ALL {
            assert_eq!(Phase::ALL[phase.index()], phase);
            for unrepaired in [0, 1] {
                let stays = phase.after_epoch(&epoch(0, 0, 0, 0, unrepaired)) == phase;
                assert!(stays || !phase.is_quiescent(unrepaired), "{phase:?} {unrepaired}");
            }
        }
    }
}
