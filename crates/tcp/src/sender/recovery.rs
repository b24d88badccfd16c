//! What duplicate ACKs, partial ACKs, time-outs and echoes of congestion do: RFC 5681 (Reno; Tahoe is its slow start after
//! a fast retransmit), RFC 6582 (NewReno), RFC 6675 (SACK), RFC 6937 (proportional rate reduction), RFC 3168 (ECN).
//!
//! Where we differ: what duplicate ACKs add to the window is kept apart from cwnd; without SACK the ACK that ends a recovery
//! opens the window like any other, as 4.4BSD and ns-2 do; RFC 6675's rescue retransmission spares a segment whose second
//! copy is still out.

use narrows_units::Instant;

use super::scoreboard::{Delivered, RETRANS};
use super::{Context, Phase, Sender, Timer};
use crate::cc::CongestionControl;
use crate::startup::Startup;
use crate::{Config, Handshake, Io, Recovery, ReduceFrom, RtoRecovery, TcpEvent};

impl Sender {
    /// A duplicate ACK came.
    pub(super) fn on_duplicate<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        let sack = cx.config.recovery == Recovery::Sack;
        match self.phase {
            // What follows a time-out tells of copies, not of losses (RFC 6582, section 4). Where the sender goes back,
            // limited transmit goes on by it; ns-2's Sack1 does not listen before the first new ACK.
            Phase::Loss => {
                let counts = cx.config.rto_recovery == RtoRecovery::GoBackN && !(sack && self.retries > 0);
                self.dupacks = self.dupacks.saturating_add(u16::from(counts));
            }
            Phase::Open => {
                self.dupacks = self.dupacks.saturating_add(1);
                if !sack && u32::from(self.dupacks) >= cx.config.dupthresh && self.board.una() > self.recover
                {
                    self.begin(cx);
                }
            }
            // With SACK the pipe says the same more exactly.
            Phase::Recovery if sack => {}
            Phase::Recovery => self.inflation += 1,
        }
    }

    /// Whether a new recovery may begin: more than what was out at the last one is acknowledged (RFC 6582, section 3.2, step 2);
    /// with SACK as much is enough (RFC 6675, section 5.1).
    pub(super) fn may_recover(&self, config: &Config) -> bool {
        let una = self.board.una();
        match config.recovery {
            Recovery::Sack => una >= self.recover,
            _ => una > self.recover,
        }
    }

    /// SACK: loss may be known now, or less be in the network.
    pub(super) fn on_delivered<I: Io>(&mut self, cx: &mut Context<'_, I>, told: &Delivered) {
        if self.phase == Phase::Open && self.may_recover(cx.config) {
            // DupAcks >= DupThresh or IsLost(HighACK + 1) (RFC 6675, section 5).
            let counted = u32::from(self.dupacks) >= cx.config.dupthresh && !cx.config.rack_tlp;
            if self.board.pending() > 0 || counted && !self.board.is_empty() {
                self.begin(cx);
            }
        }
        if self.phase == Phase::Recovery && cx.config.prr {
            self.reduce_in_proportion(told.segments);
        }
    }

    /// Of how many segments a loss takes its share.
    pub(super) fn reduction_base(&self, config: &Config) -> f64 {
        match config.reduce_from {
            // What limited transmit sent does not count (RFC 3042; RFC 5681, section 3.2).
            ReduceFrom::FlightSize => {
                f64::from(self.board.outstanding().saturating_sub(u32::from(self.limited_sent)))
            }
            ReduceFrom::Cwnd => self.window.cwnd.min(f64::from(self.peer_window / u32::from(self.mss))),
        }
    }

    /// Cuts the ssthresh that congestion control has set to whole segments and to at least 2 (RFC 5681, equation 4). Returns
    /// the window that goes with it: 4.4BSD and its kin halve cwnd itself, which may fall to one segment.
    pub(super) fn cut_ssthresh(&mut self, config: &Config) -> f64 {
        let share = self.window.ssthresh;
        self.window.ssthresh = f64::max((share as u64) as f64, 2.0);
        match config.reduce_from {
            ReduceFrom::Cwnd if !config.prr => share.max(1.0),
            _ => self.window.ssthresh,
        }
    }

    /// Fast retransmit.
    fn begin<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        let flight = self.board.outstanding();
        let base = self.reduction_base(cx.config);
        self.cc.on_loss(&mut self.window, cx.config, cx.now, base);
        self.start.on_loss();
        self.pace = Instant::ZERO;
        let cwnd = self.cut_ssthresh(cx.config);
        self.recover = self.board.max();
        self.timed = 0;
        self.limited_sent = 0;
        self.partial = false;
        self.rescued = false;
        cx.counters.fast_retransmits += 1;
        cx.io.event(TcpEvent::FastRetransmit);
        if cx.config.restart_timer {
            self.start_timer(cx);
        }
        if cx.config.recovery == Recovery::Tahoe {
            self.window.cwnd = 1.0;
            self.phase = Phase::Loss;
            self.board.go_back();
            return;
        }
        self.phase = Phase::Recovery;
        self.window.cwnd = cwnd;
        if cx.config.recovery == Recovery::Sack {
            (self.prr_delivered, self.prr_out, self.recover_flight) = (0, 0, flight);
            self.high_rxt = self.board.una();
            if self.board.pending() == 0 {
                self.board.mark_first_lost();
            }
            self.resend_next(cx);
        } else {
            self.inflation = cx.config.dupthresh;
            self.resend_first(cx);
        }
    }

    /// New data was acknowledged during fast recovery. Whether that ends it.
    pub(super) fn recovery_ack<I: Io>(
        &mut self,
        cx: &mut Context<'_, I>,
        ack: u64,
        told: &Delivered,
    ) -> bool {
        if ack >= self.recover || cx.config.recovery == Recovery::Reno {
            self.finish(cx);
            return true;
        }
        self.partial = true;
        if cx.config.recovery == Recovery::NewReno {
            // RFC 6582, section 3.2, step 3: deflate by what was acknowledged, add back one segment, send the next hole.
            let acked = told.segments;
            if self.inflation > acked {
                self.inflation -= acked.max(1) - 1;
            } else {
                self.window.cwnd = (self.window.cwnd - f64::from(acked - self.inflation)).max(1.0);
                self.inflation = 1;
            }
            self.resend_first(cx);
        } else if cx.config.recovery == Recovery::Sack && cx.config.rto_recovery == RtoRecovery::GoBackN {
            self.answer_partial(cx);
        }
        false
    }

    /// ns-2's Sack1 (`partial_ack_`): so as never to do worse than slow start, two segments answer a partial ACK whatever the
    /// pipe, and it ends the back-off.
    fn answer_partial<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        self.rto.end_back_off();
        let mut due = 2;
        if !self.board.has(0, RETRANS) {
            self.resend_first(cx);
            due -= 1;
        }
        for _ in 0..due {
            // What lies below and is not SACKed has been sent again.
            match self.board.next_hole(self.high_rxt) {
                Some(at) => self.resend(cx, at),
                None => self.output_new(cx, 0, 1),
            };
        }
    }

    fn finish<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        let flight = f64::from(self.board.outstanding());
        self.phase = Phase::Open;
        self.dupacks = 0;
        self.limited_sent = 0;
        self.inflation = 0;
        let sack = cx.config.recovery == Recovery::Sack;
        if sack {
            // What is SACKed from now on is no copy.
            self.recover = 0;
        }
        match cx.config.reduce_from {
            _ if sack && cx.config.prr => self.window.cwnd = self.window.ssthresh,
            // RFC 6582, section 3.2, step 3, option 1: no burst if little is out.
            ReduceFrom::FlightSize if !sack => {
                self.window.cwnd = self.window.ssthresh.min(flight.max(1.0) + 1.0);
            }
            _ => {}
        }
        cx.io.event(TcpEvent::Recovered);
    }

    /// RFC 6937, section 3, with the slow start reduction bound.
    fn reduce_in_proportion(&mut self, delivered: u32) {
        self.prr_delivered += delivered;
        let pipe = self.board.pipe();
        let ssthresh = self.window.ssthresh as u32;
        let may_send = if pipe > ssthresh {
            let share = u64::from(self.prr_delivered) * u64::from(ssthresh);
            (share.div_ceil(u64::from(self.recover_flight.max(1))) as u32).saturating_sub(self.prr_out)
        } else {
            let limit = self.prr_delivered.saturating_sub(self.prr_out).max(delivered) + 1;
            limit.min(ssthresh - pipe)
        };
        self.window.cwnd = f64::from((pipe + may_send).max(1));
    }

    /// An echo of congestion (RFC 3168, section 6.1.2), answered once per window of data and not beside a loss.
    pub(super) fn on_echo<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        // CWR left with the first segment after `ecn_until`: up to there the receiver could not know.
        if self.phase != Phase::Open || self.seq(self.board.una()).at_or_before(self.ecn_until) {
            return;
        }
        let base = self.reduction_base(cx.config);
        self.cc.on_ecn(&mut self.window, cx.config, cx.now, base);
        self.start.on_loss();
        self.window.cwnd = self.cut_ssthresh(cx.config);
        self.ecn_until = self.seq(self.board.max());
        self.cwr = true;
        cx.io.event(TcpEvent::EcnReduced);
    }

    /// The timer expired. `false` if the connection is given up.
    pub(crate) fn on_timer<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        let timer = self.timer;
        self.stop_timer();
        match timer {
            Timer::Off => true,
            Timer::Persist => self.probe(cx),
            Timer::Retransmit if !self.is_synchronized() && cx.config.handshake == Handshake::ThreeWay => {
                self.retry_syn(cx)
            }
            Timer::Retransmit => self.on_timeout(cx),
        }
    }

    /// SYN or SYN-ACK again, after twice the time each time.
    fn retry_syn<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        if self.retries >= cx.config.syn_retries {
            return false;
        }
        self.retries += 1;
        cx.counters.syn_retries += 1;
        self.timed = 0;
        self.resend_first(cx);
        self.start_syn_timer(cx);
        true
    }

    pub(super) fn start_syn_timer<I: Io>(&mut self, cx: &Context<'_, I>) {
        self.timer = Timer::Retransmit;
        self.deadline = cx.now + cx.config.syn_timeout * (1 << self.retries.min(16));
    }

    /// RFC 6298, section 5.4 to 5.6; RFC 5681, section 3.1.
    fn on_timeout<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        if self.retries >= cx.config.rto.retries {
            return false;
        }
        self.retries += 1;
        cx.counters.timeouts += 1;
        self.rto.back_off(&cx.config.rto);
        cx.counters.max_backoff = cx.counters.max_backoff.max(self.rto.factor());
        cx.io.event(TcpEvent::Timeout { backoff: self.rto.factor() });
        let go_back = cx.config.rto_recovery == RtoRecovery::GoBackN;
        let again = self.phase == Phase::Loss && self.retries > 1;
        if go_back || !again {
            self.inflation = 0;
            let base = self.reduction_base(cx.config);
            self.cc.on_rto(&mut self.window, cx.config, cx.now, base);
            self.cut_ssthresh(cx.config);
        }
        self.start.on_loss();
        self.window.cwnd = 1.0;
        self.inflation = 0;
        self.dupacks = 0;
        self.limited_sent = 0;
        self.timed = 0;
        self.recover = self.board.max();
        self.phase = Phase::Loss;
        self.pace = Instant::ZERO;
        if go_back || cx.config.recovery != Recovery::Sack {
            self.board.go_back();
        } else {
            let (now, patience) = (cx.now, self.rack_patience(cx.config));
            self.board.mark_all_lost(|sent| patience.is_some_and(|patience| sent + patience > now));
            if patience.is_some() {
                // Whatever is still waited for.
                self.resend_first(cx);
            }
        }
        self.start_timer(cx);
        true
    }

    /// The peer's window is shut and nothing is out: a byte it has already makes it say where it stands. The interval
    /// doubles like the RTO, and there is no end to it (RFC 9293, section 3.8.6.1).
    fn probe<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        self.emit_probe(cx);
        self.rto.back_off(&cx.config.rto);
        self.start_persist_timer(cx);
        true
    }

    pub(super) fn start_persist_timer<I: Io>(&mut self, cx: &Context<'_, I>) {
        self.timer = Timer::Persist;
        self.deadline = cx.now + self.rto.timeout(&cx.config.rto);
    }
}
