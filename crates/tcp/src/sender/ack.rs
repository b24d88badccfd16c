//! What an acknowledgment does: the scoreboard, the peer's window, the RTT sample, and the growth of the congestion
//! window.

use narrows_units::{Duration, Instant};
use narrows_wire::{Flags, TcpHeader};

use super::extras::initial_window;
use super::frto::Answer;
use super::scoreboard::{Delivered, RackDelivered};
use super::{Context, RecoveryPhase, Sender, Timer};
use crate::cc::{AckSample, CongestionControl, DeliverySample, Reno};
use crate::receiver::timestamp;
use crate::startup::{FirstRtt, SlowStart, Startup};
use crate::{BackoffEnds, ByteCounting, Handshake, Io, PrrBound, Recovery, RtoRecovery, TcpEvent};

/// An acknowledgment that came while something is outstanding. What it has delivered goes beside it: what is handed on
/// by reference lies in memory.
#[derive(Clone, Copy)]
struct Ack<'a> {
    tcp: &'a TcpHeader,
    /// snd_una before and after it.
    una: u64,
    end: u64,
    /// Segments in flight before it.
    flight: u32,
}

impl Sender {
    /// Takes the acknowledgment in `tcp`. [`Sender::output`] then sends what may leave because of it.
    #[inline(always)]
    pub(crate) fn on_ack<I: Io>(&mut self, cx: &mut Context<'_, I>, tcp: &TcpHeader) {
        let Some(end) = self.offset_ahead(tcp.ack).filter(|&end| end <= self.board.max()) else { return };
        if self.board.is_empty() && tcp.sack.is_empty() && !self.has_rack {
            // Nothing is outstanding: an end that only receives gets such acknowledgments with the peer's data.
            self.take_window(tcp, false);
        } else {
            self.take_ack(cx, tcp, end);
        }
        if self.is_ecn_echo(tcp) {
            self.on_ecn_echo(cx);
        }
    }

    /// Everything below `end` is acknowledged, and something is outstanding. Not in line: an end that only receives
    /// never comes here.
    #[inline(never)]
    fn take_ack<I: Io>(&mut self, cx: &mut Context<'_, I>, tcp: &TcpHeader, end: u64) {
        let una = self.board.una();
        let mut delivered =
            Delivered { rack: self.has_rack.then(RackDelivered::default), ..Delivered::default() };
        let ack = Ack { tcp, una, end, flight: self.in_flight(cx.recovery()) };
        let loses = self.update_scoreboard(cx, ack, &mut delivered);
        let duplicate = end == una && self.is_duplicate(cx, tcp, &delivered);
        self.take_window(tcp, end > una);
        if end > una {
            if una > 0 || cx.config.handshake == Handshake::SynIsPacketZero {
                self.on_new_ack(cx, ack, &delivered);
                if una == 0 {
                    self.on_established(cx, &delivered);
                    // Packet 0 has opened the window like any other; what follows may have the initial window.
                    self.window.cwnd = self.window.cwnd.max(initial_window(&self.extras, cx.config));
                }
            } else {
                self.on_syn_ack(cx, tcp, &delivered);
            }
            let bytes = end.min(self.end).saturating_sub(una.max(1));
            if bytes > 0 {
                cx.io.event(TcpEvent::Acked { bytes });
            }
        } else {
            if delivered.segments > 0 {
                self.report_delivery(cx, None, &delivered);
                self.take_sacked(cx, tcp, &delivered);
            }
            if duplicate {
                self.on_duplicate(cx);
            }
        }
        if cx.recovery() == Recovery::Sack {
            let safe = cx.prr() == PrrBound::SlowStart || end > una && !loses;
            self.on_delivered(cx, delivered.segments, safe);
        }
    }

    /// Enters an acknowledgment into the scoreboard and marks what counts as lost because of it. Tells whether that is
    /// more than before.
    #[inline]
    fn update_scoreboard<I: Io>(
        &mut self,
        cx: &mut Context<'_, I>,
        ack: Ack<'_>,
        delivered: &mut Delivered,
    ) -> bool {
        if ack.end > ack.una {
            let timed = self.timed.take_if_acked(ack.una, ack.end);
            self.board.acknowledge(ack.end, timed, delivered);
        }
        let in_order = delivered.segments;
        let first = if cx.samples_every_ack() { delivered.split() } else { None };
        if !ack.tcp.sack.is_empty() && self.heeds_sack(cx) {
            for &(left, right) in ack.tcp.sack.as_slice() {
                if let (Some(left), Some(right)) = (self.offset_ahead(left), self.offset_ahead(right)) {
                    self.board.sack(left, right, delivered);
                }
            }
        }
        if cx.samples_every_ack() {
            (delivered.sent, delivered.retransmitted) = (first.or(delivered.sent), false);
        }
        let (advances, sacks) = (ack.end > ack.una, delivered.segments > in_order);
        self.judge_timeout(Answer { tcp: ack.tcp, advances, sacks }, delivered);
        let pending = self.board.pending();
        if self.has_rack {
            self.rack_on_ack(cx, ack.tcp, ack.una, delivered);
        } else if !self.loss.is_open() || self.loss.may_begin(cx.recovery(), self.board.una()) {
            self.board.mark_lost(cx.config.dupthresh, u32::from(self.peer.mss));
        }
        self.board.pending() > pending
    }

    /// Whether SACK blocks count. After going back only the cumulative ACK does, until what was outstanding then is
    /// acknowledged.
    fn heeds_sack<I: Io>(&self, cx: &Context<'_, I>) -> bool {
        cx.recovery() == Recovery::Sack
            && (self.loss.phase != RecoveryPhase::Loss || cx.config.rto_recovery != RtoRecovery::GoBackN)
    }

    /// Whether this is a duplicate ACK: RFC 5681, section 2; with SACK, one that reports new data (RFC 6675, section
    /// 2).
    fn is_duplicate<I: Io>(&mut self, cx: &Context<'_, I>, tcp: &TcpHeader, delivered: &Delivered) -> bool {
        if cx.recovery() == Recovery::Sack {
            self.peer.sacks |= !tcp.sack.is_empty();
            if self.heeds_sack(cx) && self.peer.sacks {
                return delivered.segments > 0;
            }
            if self.peer.sacks && tcp.sack.is_empty() {
                return false;
            }
        }
        // The window of a SYN is never scaled, so the first window after it may differ without having changed.
        let same_window = self.peer.announced_window(tcp) == self.peer.window || self.board.una() <= 1;
        !self.board.is_empty() && tcp.is_pure_ack() && same_window
    }

    #[inline]
    fn note_window(&mut self, tcp: &TcpHeader) {
        self.peer.window = self.peer.announced_window(tcp);
        if let Some(extras) = &mut self.extras {
            extras.small.note_window(self.peer.window);
        }
    }

    /// Takes the peer's window. If nothing was outstanding when it came and a timer runs, that is the persist timer,
    /// which has done its work once the window is open.
    #[inline]
    fn take_window(&mut self, tcp: &TcpHeader, advances: bool) {
        self.note_window(tcp);
        let persists = !advances && self.board.is_empty() && self.is_timer_set(Timer::Retransmit);
        if persists && self.peer.window > 0 {
            self.rto.end_backoff();
            self.rto.reset_retries();
            self.stop_timer(Timer::Retransmit);
        }
    }

    /// New data was acknowledged, or ns-2's packet 0.
    fn on_new_ack<I: Io>(&mut self, cx: &mut Context<'_, I>, ack: Ack<'_>, delivered: &Delivered) {
        let config = cx.config;
        let rtt = self.take_rtt(cx, ack.tcp, delivered);
        if ack.end > 1 {
            // Packet 0 is smaller than what follows, so its round trip is shorter.
            self.report_delivery(cx, rtt.filter(|_| sent_once(cx, delivered).is_some()), delivered);
        }
        if rtt.is_some() || config.rto.backoff_ends == BackoffEnds::NewAck {
            self.rto.end_backoff();
        }
        self.rto.reset_retries();
        let recovering = self.loss.is_recovering();
        let later_partial = recovering && ack.end < self.loss.recover && self.loss.partial_seen;
        if self.board.is_empty() {
            self.stop_timer(Timer::Retransmit);
        } else if !(later_partial && first_partial_only(cx)) {
            self.restart_rto(cx);
        }
        if recovering && !self.on_recovery_ack(cx, ack.end, delivered.segments) {
            return;
        }
        self.loss.on_new_ack(ack.end);
        if self.loss.is_open() {
            self.forget_before();
        }
        let echo = self.is_ecn_echo(ack.tcp);
        if !(echo || recovering && cx.recovery() == Recovery::Sack) {
            self.grow(cx, ack.flight, delivered, rtt);
        }
    }

    /// New data was SACKed, and none acknowledged: this gives a sample where each ACK does.
    fn take_sacked<I: Io>(&mut self, cx: &mut Context<'_, I>, tcp: &TcpHeader, delivered: &Delivered) {
        if let Some(sent) = delivered.sent.filter(|_| cx.samples_every_ack()) {
            self.take_rtt(cx, tcp, delivered);
            self.rto.end_backoff();
            self.on_sacked(cx, sent);
        }
    }

    /// Our SYN was acknowledged, and it is not data.
    fn on_syn_ack<I: Io>(&mut self, cx: &mut Context<'_, I>, tcp: &TcpHeader, delivered: &Delivered) {
        let rtt = self.take_rtt(cx, tcp, delivered);
        if self.rto.retries() > 0 {
            // After a lost SYN the initial window is one segment (RFC 5681, section 3.1).
            self.window.cwnd = 1.0;
            if rtt.is_none() {
                self.rto.after_syn_loss();
            }
        }
        self.rto.reset_retries();
        self.stop_timer(Timer::Retransmit);
        self.on_established(cx, delivered);
    }

    /// Tells the start-up that our SYN, and nothing else, was acknowledged.
    fn on_established<I: Io>(&mut self, cx: &Context<'_, I>, delivered: &Delivered) {
        self.board.give_back();
        let first = delivered.sent.map_or(FirstRtt::SynLost, |sent| FirstRtt::Is(cx.now.since(sent)));
        self.tell_established(first, cx.config);
    }

    /// Whether a segment echoes a mark.
    fn is_ecn_echo(&self, tcp: &TcpHeader) -> bool {
        tcp.flags.has(Flags::ECE) && self.extras.as_ref().is_some_and(|extras| extras.ecn.is_echo(tcp))
    }

    /// Takes a sample of the round-trip time, if this acknowledgment gives one.
    fn take_rtt<I: Io>(
        &mut self,
        cx: &mut Context<'_, I>,
        tcp: &TcpHeader,
        delivered: &Delivered,
    ) -> Option<Duration> {
        let rtt = match (sent_once(cx, delivered), tcp.timestamps) {
            (Some(sent), _) => cx.now.since(sent),
            // A retransmission gives one too: the echo says which copy has arrived (RFC 7323, section 4).
            (None, Some((_, echoed))) if cx.has_timestamps() => {
                let ms = timestamp(cx.now).wrapping_sub(echoed);
                if ms > i32::MAX as u32 {
                    return None;
                }
                Duration::from_millis(u64::from(ms.max(1)))
            }
            _ => return None,
        };
        let span = (self.board.una(), self.board.max());
        let spread = self.extras.as_mut().map(|extras| &mut extras.spread);
        self.rto.sample(spread, &cx.config.rto, cx.now, rtt, span);
        cx.io.event(TcpEvent::RttSample(rtt));
        Some(rtt)
    }

    /// Tells congestion control what was acknowledged.
    #[inline]
    fn report_delivery<I: Io>(&mut self, cx: &Context<'_, I>, rtt: Option<Duration>, delivered: &Delivered) {
        let Some(extras) = &mut self.extras else { return };
        let rtt = rtt.map(|rtt| rtt.max(Duration::from_nanos(1)));
        let open = self.loss.is_open();
        let sample = DeliverySample { now: cx.now, segments: delivered.segments, rtt, open };
        extras.cc.on_delivery(&mut self.window, cx.config, &sample);
    }

    /// An ACK of new data opens the window.
    fn grow<I: Io>(
        &mut self,
        cx: &Context<'_, I>,
        flight: u32,
        delivered: &Delivered,
        rtt: Option<Duration>,
    ) {
        let slow_start = self.window.cwnd < self.window.ssthresh;
        // In slow start half of the window is enough, because the next round would use it (RFC 7661, section 4.1).
        let window_limited = self.cwnd_limited || slow_start && self.window.cwnd < 2.0 * f64::from(flight);
        if cx.config.grow_if_used && !window_limited {
            return;
        }
        let credit = match cx.byte_counting() {
            ByteCounting::PerAck => 1.0,
            ByteCounting::Abc { limit } => {
                let segments = delivered.bytes as f64 / f64::from(self.peer.mss);
                if slow_start { segments.min(f64::from(limit)) } else { segments }
            }
        };
        let sample = AckSample {
            now: cx.now,
            acked: delivered.bytes,
            credit,
            by_bytes: cx.byte_counting() != ByteCounting::PerAck,
            rtt,
            srtt: self.srtt(cx.config),
            in_flight: flight,
            window_limited,
        };
        let window = &mut self.window;
        match &mut self.extras {
            Some(extras) => {
                if slow_start {
                    extras.startup.on_ack(window, &sample, cx.config);
                } else {
                    extras.cc.on_ack(window, cx.config, &sample);
                }
                extras.startup.after_ack(window, &sample, cx.config);
            }
            None if slow_start => SlowStart.on_ack(window, &sample, cx.config),
            None => Reno::default().on_ack(window, cx.config, &sample),
        }
    }
}

/// Whether only the first partial ACK of a recovery restarts the retransmission timer: the Impatient variant of
/// NewReno (RFC 3782, section 4). With SACK only ns-2's sender, which goes back, knows partial ACKs.
fn first_partial_only<I: Io>(cx: &Context<'_, I>) -> bool {
    let knows_partial = cx.recovery() != Recovery::Sack || cx.config.rto_recovery == RtoRecovery::GoBackN;
    cx.config.impatient && knows_partial
}

/// When the segment left whose acknowledgment gives an RTT sample: one that was sent only once (Karn).
fn sent_once<I: Io>(cx: &Context<'_, I>, delivered: &Delivered) -> Option<Instant> {
    match (cx.times_one(), cx.has_timestamps()) {
        (true, false) => delivered.timed,
        // Next to a repaired hole lies data that has waited for the repair, so its age is no round trip.
        _ => delivered.sent.filter(|_| !delivered.retransmitted),
    }
}
