//! Where loss recovery stands: RFC 5681, RFC 6582 and RFC 6675 share [`LossRecovery`]; proportional rate reduction (RFC
//! 9937, section 6; RFC 6937, section 3) has [`Prr`]. What they do with it is in `recovery.rs`. Units: segments.

use crate::{Config, Recovery, RtoRecovery};

/// Phase of loss recovery; the names are those of Linux (`TCP_CA_Open` and so on).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossPhase {
    /// No loss is known.
    #[default]
    Open,
    /// ACKs have shown a loss. The phase ends when everything that was outstanding then is acknowledged.
    Recovery,
    /// The retransmission timer has expired. The phase ends likewise.
    Loss,
}

/// State of recovery from losses.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct LossRecovery {
    /// snd_max when the last recovery began (`recover`, RFC 6582; `RecoveryPoint`, RFC 6675).
    pub(super) recover: u64,
    /// Duplicate ACKs since the last ACK of new data.
    pub(super) dupacks: u16,
    /// Segments that limited transmit has sent since the first duplicate ACK.
    pub(super) limited_sent: u8,
    pub(super) phase: LossPhase,
    /// Whether the recovery has seen a partial ACK.
    pub(super) partial_seen: bool,
    /// This recovery has sent its rescue retransmission (RFC 6675, section 4, `NextSeg`, rule 4).
    pub(super) rescued: bool,
}

impl LossRecovery {
    pub(super) fn is_open(&self) -> bool {
        self.phase == LossPhase::Open
    }

    pub(super) fn is_recovering(&self) -> bool {
        self.phase == LossPhase::Recovery
    }

    /// Whether a new recovery may begin while all below `una` is acknowledged. Sequence number `una` has to be above
    /// what was outstanding at the last recovery (RFC 6582, section 3.2, step 2); with SACK as much is enough (RFC
    /// 6675, section 5.1).
    pub(super) const fn may_begin(&self, recovery: Recovery, una: u64) -> bool {
        match recovery {
            Recovery::Sack => una >= self.recover,
            _ => una > self.recover,
        }
    }

    /// Fast retransmit: `max` is snd_max.
    pub(super) const fn begin(&mut self, max: u64) {
        self.recover = max;
        self.limited_sent = 0;
        self.partial_seen = false;
        self.rescued = false;
    }

    /// The retransmission timer has expired: `max` is snd_max.
    pub(super) const fn begin_loss(&mut self, max: u64) {
        self.recover = max;
        self.phase = LossPhase::Loss;
        self.dupacks = 0;
        self.limited_sent = 0;
    }

    /// Fast recovery ends.
    pub(super) const fn finish(&mut self, recovery: Recovery) {
        self.phase = LossPhase::Open;
        self.dupacks = 0;
        self.limited_sent = 0;
        if matches!(recovery, Recovery::Sack) {
            // No copy is outstanding, so the next loss that SACK shows is a new one.
            self.recover = 0;
        }
    }

    /// The last time-out was not needed.
    pub(super) const fn undo(&mut self) {
        self.finish(Recovery::Sack);
    }

    /// New data was acknowledged, and no recovery is under way any more.
    pub(super) const fn on_new_ack(&mut self, ack: u64) {
        if matches!(self.phase, LossPhase::Loss) && ack >= self.recover {
            self.phase = LossPhase::Open;
        }
        self.dupacks = 0;
        self.limited_sent = 0;
    }

    /// How many segments limited transmit allows beyond cwnd: one for each of the first two duplicate ACKs (RFC 3042,
    /// section 2). With SACK the pipe allows them by itself, as SACKed segments are no longer in it.
    pub(super) fn limited_transmit(&self, config: &Config, recovery: Recovery) -> u32 {
        // Most ACKs are of new data: it is told at once for them.
        if self.dupacks == 0 || !config.limited_transmit {
            return 0;
        }
        let dupacks = u32::from(self.dupacks);
        let allowed = match self.phase {
            LossPhase::Open => recovery != Recovery::Sack,
            LossPhase::Loss => config.rto_recovery == RtoRecovery::GoBackN && dupacks < config.dupthresh,
            LossPhase::Recovery => false,
        };
        if allowed { dupacks.min(2) } else { 0 }
    }

    /// A segment was sent beyond cwnd, as limited transmit allows.
    pub(super) const fn on_limited_transmit(&mut self) {
        self.limited_sent = self.limited_sent.saturating_add(1);
    }
}

/// The state of one recovery, with the RFC's names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    /// `prr_delivered`: delivered since recovery began.
    delivered: u32,
    /// `prr_out`: sent since recovery began.
    out: u32,
    /// `RecoverFS`: outstanding when recovery began.
    recover_fs: u32,
}

impl Prr {
    /// Recovery begins.
    pub(super) const fn new(flight_size: u32) -> Self {
        Self { delivered: 0, out: 0, recover_fs: flight_size }
    }

    /// A segment was sent during recovery.
    pub(super) const fn on_sent(&mut self) {
        self.out += 1;
    }

    /// Computes the congestion window that lets `sndcnt` segments leave, after an ACK has delivered `delivered`
    /// segments. `safe`: the pipe may grow as in slow start.
    pub(super) fn on_delivered(&mut self, delivered: u32, pipe: u32, ssthresh: u32, safe: bool) -> u32 {
        self.delivered += delivered;
        let sndcnt = if pipe > ssthresh {
            let share = u64::from(self.delivered) * u64::from(ssthresh);
            (share.div_ceil(u64::from(self.recover_fs.max(1))) as u32).saturating_sub(self.out)
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(delivered) + u32::from(safe);
            limit.min(ssthresh - pipe)
        };
        // The fast retransmission leaves whatever the pipe says (RFC 9937, section 6).
        pipe + sndcnt.max(u32::from(self.out == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_recovery_needs_new_data_acknowledged() {
        let mut loss = LossRecovery::default();
        loss.begin(1000);
        assert!(!loss.may_begin(Recovery::NewReno, 1000) && loss.may_begin(Recovery::NewReno, 1001));
        assert!(!loss.may_begin(Recovery::Sack, 999) && loss.may_begin(Recovery::Sack, 1000));
        loss.finish(Recovery::NewReno);
        assert!(!loss.may_begin(Recovery::NewReno, 1000));
        loss.finish(Recovery::Sack);
        assert!(loss.may_begin(Recovery::Sack, 1));
    }

    #[test]
    fn limited_transmit_answers_the_first_two_duplicate_acks() {
        let config = Config { recovery: Recovery::NewReno, limited_transmit: true, ..Config::default() };
        let of = |dupacks, phase, config: &Config| {
            LossRecovery { dupacks, phase, ..LossRecovery::default() }
                .limited_transmit(config, config.recovery)
        };
        assert_eq!([0, 1, 2, 3].map(|n| of(n, LossPhase::Open, &config)), [0, 1, 2, 2]);
        assert_eq!(of(2, LossPhase::Recovery, &config), 0);
        assert_eq!(of(2, LossPhase::Open, &Config { recovery: Recovery::Sack, ..config }), 0);
        assert_eq!(of(2, LossPhase::Open, &Config { limited_transmit: false, ..config }), 0);
        // After a time-out only where all is sent again (ns-2).
        let ns2 = Config { rto_recovery: RtoRecovery::GoBackN, ..config };
        assert_eq!([2, 3].map(|n| of(n, LossPhase::Loss, &ns2)), [2, 0]);
        let linux = Config { rto_recovery: RtoRecovery::Scoreboard, ..config };
        assert_eq!(of(2, LossPhase::Loss, &linux), 0);
    }

    #[test]
    fn a_time_out_ends_with_what_was_outstanding() {
        let mut loss = LossRecovery { dupacks: 2, ..LossRecovery::default() };
        loss.begin_loss(500);
        assert_eq!((loss.phase, loss.dupacks), (LossPhase::Loss, 0));
        loss.on_new_ack(499);
        assert_eq!(loss.phase, LossPhase::Loss);
        loss.on_new_ack(500);
        assert!(loss.is_open());
    }
}

#[cfg(test)]
mod prr_tests {
    use super::*;

    #[test]
    fn every_other_ack_lets_a_segment_go() {
        // 20 segments are out and ssthresh is 10. The first is lost, so the pipe is 19 and every ACK takes one off.
        // CEIL(n * 10 / 20) less what was sent is 1, 0, 1, 0 ..
        let (mut prr, mut pipe, mut sent) = (Prr::new(20), 19, vec![]);
        for _ in 0..8 {
            pipe -= 1;
            let sndcnt = prr.on_delivered(1, pipe, 10, true) - pipe;
            for _ in 0..sndcnt {
                prr.on_sent();
            }
            pipe += sndcnt;
            sent.push(sndcnt);
        }
        assert_eq!(sent, [1, 0, 1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn below_ssthresh_the_pipe_grows_as_in_slow_start() {
        // After a loss of 16 segments of 20, the pipe of 3 lies below ssthresh = 10. An ACK that delivers one lets two
        // go, until the pipe is ssthresh.
        let mut prr = Prr::new(20);
        assert_eq!(prr.on_delivered(1, 3, 10, true), 5);
        prr.on_sent();
        prr.on_sent();
        // prr_delivered - prr_out = 2 - 2, so DeliveredData = 1 is the limit, plus 1.
        assert_eq!(prr.on_delivered(1, 4, 10, true), 6);
        assert_eq!(prr.on_delivered(5, 9, 10, true), 10, "no further than ssthresh");
        assert_eq!(prr.on_delivered(1, 10, 10, true), 10);
    }

    #[test]
    fn an_ack_that_tells_of_more_losses_lets_out_what_it_delivers() {
        // RFC 9937: the same without SafeACK. One for one, so the pipe stays.
        let mut prr = Prr::new(20);
        assert_eq!(prr.on_delivered(1, 3, 10, false), 4);
        prr.on_sent();
        assert_eq!(prr.on_delivered(1, 3, 10, false), 4);
        prr.on_sent();
        // As many have left as came; the next is safe.
        assert_eq!(prr.on_delivered(1, 3, 10, true), 5);
    }
}
