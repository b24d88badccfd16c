//! What duplicate ACKs, partial ACKs and echoes of congestion do: RFC 5681 (Reno; Tahoe is its slow start after a fast
//! retransmit), RFC 6582 (NewReno), RFC 6675 (SACK), RFC 9937 (proportional rate reduction), RFC 3168 (ECN).
//!
//! Where we differ: the inflation of the window by duplicate ACKs is kept apart from cwnd. Without SACK, the ACK that
//! ends a recovery opens the window like any other, as in 4.4BSD and ns-2. RFC 6675's rescue retransmission is not
//! sent for a segment whose second copy is still outstanding.

use super::extras::with_cc;
use super::prr::Prr;
use super::scoreboard::RETRANS;
use super::{Context, RecoveryPhase, Sender};
use crate::cc::CongestionControl;
use crate::startup::Startup;
use crate::{Config, Io, Recovery, ReduceFrom, RestartTimer, RtoRecovery, TcpEvent};

impl Sender {
    /// A duplicate ACK came.
    pub(super) fn on_duplicate<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        let sack = cx.recovery() == Recovery::Sack;
        match self.loss.phase {
            // After a time-out duplicate ACKs come from copies, not from losses (RFC 6582, section 4). A sender that
            // goes back counts them for limited transmit; ns-2's Sack1 does so only from the first new ACK on.
            RecoveryPhase::Loss => {
                let go_back = cx.config.rto_recovery == RtoRecovery::GoBackN;
                let counts = go_back && !(sack && self.rto.retries() > 0);
                self.loss.dupacks = self.loss.dupacks.saturating_add(u16::from(counts));
            }
            RecoveryPhase::Open => {
                self.loss.dupacks = self.loss.dupacks.saturating_add(1);
                let enough = u32::from(self.loss.dupacks) >= cx.config.dupthresh;
                if !sack && enough && self.loss.may_begin(cx.recovery(), self.board.una()) {
                    self.begin_recovery(cx);
                }
            }
            // With SACK the pipe says the same more exactly.
            RecoveryPhase::Recovery if sack => {}
            RecoveryPhase::Recovery => self.set_inflation(self.inflation() + 1),
        }
    }

    /// With SACK: so many segments were delivered. A loss may be known now, or fewer segments be in the network. For
    /// `safe` see [`Prr::on_delivered`].
    #[inline]
    pub(super) fn on_delivered<I: Io>(&mut self, cx: &mut Context<'_, I>, delivered: u32, safe: bool) {
        let opens = self.loss.is_open() && self.loss.may_begin(cx.recovery(), self.board.una());
        if opens || self.reopens(cx) {
            // DupAcks >= DupThresh or IsLost(HighACK + 1) (RFC 6675, section 5).
            let enough = u32::from(self.loss.dupacks) >= cx.config.dupthresh && !cx.has_rack_tlp();
            if self.board.pending() > 0 || enough && !self.board.is_empty() {
                self.begin_recovery(cx);
            }
        }
        if self.loss.is_recovering()
            && cx.prr().is_on()
            && let Some(extras) = &mut self.extras
        {
            let ssthresh = self.window.ssthresh as u32;
            let cwnd = extras.prr.on_delivered(delivered, self.board.pipe(), ssthresh, safe);
            self.window.cwnd = f64::from(cwnd.max(1));
        }
    }

    /// The number of segments from which ssthresh is computed.
    pub(super) fn reduction_base(&self, config: &Config) -> f64 {
        match config.reduce_from {
            // What limited transmit has sent does not count (RFC 3042; RFC 5681, section 3.2).
            ReduceFrom::FlightSize => {
                f64::from(self.board.outstanding().saturating_sub(u32::from(self.loss.limited_sent)))
            }
            ReduceFrom::Cwnd => self.window.cwnd.min(f64::from(self.peer.window / u32::from(self.peer.mss))),
        }
    }

    /// Rounds the ssthresh that congestion control has set down to whole segments, at least 2 (RFC 5681, equation 4).
    /// Returns the cwnd that goes with it: 4.4BSD and its descendants halve cwnd itself, which may fall to one
    /// segment.
    pub(super) fn round_ssthresh(&mut self, config: &Config) -> f64 {
        let share = self.window.ssthresh;
        self.window.ssthresh = f64::max((share as u64) as f64, 2.0);
        match config.reduce_from {
            ReduceFrom::Cwnd if !config.prr.is_on() => share.max(1.0),
            _ => self.window.ssthresh,
        }
    }

    /// Fast retransmit.
    #[cold]
    fn begin_recovery<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        let flight_size = self.board.outstanding();
        let base = self.reduction_base(cx.config);
        self.remember(cx);
        with_cc(&mut self.extras, |cc| cc.on_loss(&mut self.window, cx.config, cx.now, base));
        self.tell_loss();
        let cwnd = self.round_ssthresh(cx.config);
        self.loss.begin(self.board.max());
        self.timed.stop();
        cx.counters.fast_retransmits += 1;
        cx.io.event(TcpEvent::FastRetransmit);
        if cx.config.restart_timer == RestartTimer::On {
            self.restart_rto(cx);
        }
        if cx.config.recovery == Recovery::Tahoe {
            self.window.cwnd = 1.0;
            self.loss.phase = RecoveryPhase::Loss;
            self.board.go_back();
            return;
        }
        self.loss.phase = RecoveryPhase::Recovery;
        self.window.cwnd = cwnd;
        if cx.config.recovery == Recovery::Sack {
            if let Some(extras) = &mut self.extras {
                extras.prr = Prr::new(flight_size);
            }
            self.board.reset_high_rxt();
            if self.board.pending() == 0 {
                self.board.mark_first_lost();
            }
            self.resend_next(cx);
        } else {
            self.set_inflation(cx.config.dupthresh);
            self.resend_first(cx);
        }
    }

    /// Everything below `ack`, `acked` segments more, was acknowledged during fast recovery. Returns whether that
    /// ends it.
    pub(super) fn on_recovery_ack<I: Io>(&mut self, cx: &mut Context<'_, I>, ack: u64, acked: u32) -> bool {
        if ack >= self.loss.recover || cx.recovery() == Recovery::Reno {
            self.finish_recovery(cx);
            return true;
        }
        self.loss.partial_seen = true;
        if cx.recovery() == Recovery::NewReno {
            let rest = self.extras.as_mut().map_or(0, |extras| extras.deflate(acked));
            self.window.cwnd = (self.window.cwnd - f64::from(rest)).max(1.0);
            self.resend_first(cx);
        } else if cx.recovery() == Recovery::Sack && cx.config.rto_recovery == RtoRecovery::GoBackN {
            self.answer_partial_ack(cx);
        }
        false
    }

    /// ns-2's Sack1 (`partial_ack_`): two segments answer a partial ACK whatever the pipe says, so that it never does
    /// worse than slow start, and the back-off ends.
    fn answer_partial_ack<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        self.rto.end_backoff();
        let mut due = 2;
        if !self.board.has(0, RETRANS) {
            self.resend_first(cx);
            due -= 1;
        }
        for _ in 0..due {
            // Below the next hole everything is SACKed or sent again.
            match self.board.next_hole() {
                Some(at) => self.resend(cx, at),
                None => self.output_new(cx, 0, 1),
            };
        }
    }

    fn finish_recovery<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        self.loss.finish(cx.recovery());
        self.set_inflation(0);
        self.forget_before();
        let sack = cx.recovery() == Recovery::Sack;
        match cx.config.reduce_from {
            _ if sack && cx.config.prr.is_on() => self.window.cwnd = self.window.ssthresh,
            // RFC 6582, section 3.2, step 3, option 1: no burst if little is outstanding.
            ReduceFrom::FlightSize if !sack => {
                let flight = f64::from(self.board.outstanding());
                self.window.cwnd = self.window.ssthresh.min(flight.max(1.0) + 1.0);
            }
            _ => {}
        }
        cx.io.event(TcpEvent::Recovered);
    }

    /// The peer echoes a mark (RFC 3168, section 6.1.2). It is answered once per window of data, and not during a
    /// recovery.
    pub(super) fn on_ecn_echo<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        if !self.loss.is_open() {
            return;
        }
        let (una, max) = (self.seq(self.board.una()), self.seq(self.board.max()));
        let base = self.reduction_base(cx.config);
        let Some(extras) = self.extras.as_mut().filter(|extras| !extras.ecn.is_answered(una)) else { return };
        extras.cc.on_ecn(&mut self.window, cx.config, cx.now, base);
        extras.startup.on_loss();
        extras.ecn.answer(max);
        self.window.cwnd = self.round_ssthresh(cx.config);
        cx.io.event(TcpEvent::EcnReduced);
    }
}
