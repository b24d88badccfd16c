//! What happens when the retransmission timer expires: a time-out (RFC 6298, section 5; RFC 5681, section 3.1), a SYN
//! that is sent again, or a probe of a closed window.

use super::extras::with_cc;
use super::{Context, RecoveryPhase, Sender, Timer};
use crate::cc::CongestionControl;
use crate::{Handshake, Io, Recovery, RtoRecovery, TcpEvent};

impl Sender {
    /// The retransmission or the persist timer has expired. `false` if the connection is given up.
    pub(crate) fn on_retransmit_timer<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        self.stop_timer(Timer::Retransmit);
        if self.board.is_empty() {
            self.probe_window(cx);
            true
        } else if !self.is_synchronized() && cx.config.handshake == Handshake::ThreeWay {
            self.retry_syn(cx)
        } else {
            self.on_timeout(cx)
        }
    }

    /// Sends the SYN or SYN-ACK again and waits twice as long as the last time.
    fn retry_syn<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        if self.rto.retries() >= cx.config.syn_retries {
            return false;
        }
        self.rto.count_retry();
        cx.counters.count_syn_retry();
        self.timed.stop();
        self.resend_first(cx);
        self.start_syn_timer(cx);
        true
    }

    pub(super) fn start_syn_timer<I: Io>(&mut self, cx: &Context<'_, I>) {
        let timeout = cx.config.syn_timeout * (1 << self.rto.retries().min(16));
        self.set_timer(Timer::Retransmit, cx.now + timeout);
    }

    /// RFC 6298, sections 5.4 to 5.6; RFC 5681, section 3.1.
    fn on_timeout<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        if self.rto.retries() >= cx.config.rto.retries {
            return false;
        }
        self.rto.count_retry();
        cx.counters.timeouts += 1;
        self.rto.back_off(&cx.config.rto);
        cx.counters.note_backoff(self.rto.backoff());
        cx.io.event(TcpEvent::Timeout { backoff: self.rto.backoff() });
        let go_back = cx.config.rto_recovery == RtoRecovery::GoBackN;
        let frto = cx.config.rto_recovery == RtoRecovery::Frto;
        let repeated = self.loss.phase == RecoveryPhase::Loss && self.rto.retries() > 1;
        // Linux has reduced for what was outstanding when the recovery began.
        let reduced = frto && self.loss.is_recovering() && self.board.una() < self.loss.recover;
        // RFC 5682, section 3: not during another recovery, unless the timer has expired for the same data before.
        let doubted = self.loss.is_open() || self.rto.retries() > 1;
        if go_back || !(repeated || reduced) {
            self.remember(cx);
            let base = self.reduction_base(cx.config);
            with_cc(&mut self.extras, |cc| cc.on_rto(&mut self.window, cx.config, cx.now, base));
            self.round_ssthresh(cx.config);
        }
        self.tell_loss();
        self.window.cwnd = 1.0;
        self.timed.stop();
        self.loss.begin_loss(self.board.max());
        self.set_inflation(0);
        self.stop_timer(Timer::Reorder);
        if go_back || cx.config.recovery != Recovery::Sack {
            self.board.go_back();
        } else {
            let (now, patience) = (cx.now, self.rack_patience(cx.config));
            self.board.mark_all_lost(|sent| patience.is_some_and(|patience| sent + patience > now));
            if frto {
                // What RACK still waits for stays in the pipe.
                self.window.cwnd = f64::from(self.board.pipe() + 1);
                self.doubt_timeout(doubted);
            }
            if patience.is_some() {
                // RACK may still wait for it, but the time-out is for the first segment.
                self.resend_first(cx);
            }
        }
        self.restart_rto(cx);
        true
    }

    /// Nothing is outstanding and the peer's window has no room for the next segment: what it has room for leaves. If
    /// it is closed, a byte that the peer has already makes it announce its window again. The interval doubles like the
    /// RTO, and the sender never gives up (RFC 9293, section 3.8.6.1).
    fn probe_window<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        let fits = self.usable().min(self.unsent()).min(self.peer.mss.into());
        if fits > 0 {
            return self.send_new(cx, fits as u16, 0);
        }
        self.emit_window_probe(cx);
        self.rto.back_off(&cx.config.rto);
        self.restart_rto(cx);
    }
}
