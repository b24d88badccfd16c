//! The sending half of a connection.
//!
//! Stream offsets count from the SYN, which is offset 0; data begins at 1, and the FIN follows the last byte. Windows
//! count segments, as in ns-2 and Linux, where RFC 5681 counts bytes; with full segments there is no difference.
//!
//! This file takes acknowledgments: the scoreboard, the peer's window, the sample of the round trip and the growth of
//! the congestion window. `recovery.rs` repairs losses, `output.rs` decides what may leave and builds the segments.

mod ecn;
mod extras;
mod loss;
mod output;
mod peer;
mod recovery;
mod rto;
mod scoreboard;

use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::{Flags, TcpHeader};

use crate::cc::{AckSample, CcEstimates, CongestionControl, DeliverySample, OwnControl, Reno, Window};
use crate::endpoint::Counts;
use crate::receiver::{Receiver, timestamp};
use crate::startup::{FirstRtt, SlowStart, Startup};
use crate::{
    BackoffEnds, ByteCounting, Config, Handshake, Io, PrrBound, Recovery, RestartTimer, RtoRecovery,
    RttSampling, SwsAvoidance, TcpEvent,
};
use extras::{Extras, initial_window};
pub use loss::LossPhase;
use loss::LossRecovery;
use peer::PeerState;
use recovery::{Answer, Rack};
use rto::{Rto, TimedSegment};
pub use scoreboard::SegmentMarks;
use scoreboard::{Delivered, RackDelivered, Scoreboard};

/// Surroundings of a call: settings, time, the receiving half, counters and the driver.
pub(crate) struct Context<'a, I> {
    pub(crate) config: &'a Config,
    pub(crate) now: Instant,
    /// Every segment carries an acknowledgment.
    pub(crate) receiver: &'a mut Receiver,
    pub(crate) counters: &'a mut Counts,
    pub(crate) io: &'a mut I,
    /// Whether the call has sent a segment, and an acknowledgment with the segment.
    pub(crate) sent: bool,
    /// How many segments of new data the call has sent.
    pub(crate) new_segments: u32,
}

impl<I: Io> Context<'_, I> {
    pub(crate) const fn recovery(&self) -> Recovery {
        self.config.recovery
    }
    pub(crate) const fn has_timestamps(&self) -> bool {
        self.config.timestamps
    }
    pub(crate) const fn has_rack_tlp(&self) -> bool {
        self.config.rack_tlp
    }
    /// Whether an ACK that only SACKs gives a sample too.
    pub(crate) fn samples_every_ack(&self) -> bool {
        self.config.rtt_sampling == RttSampling::EveryAck
    }
    pub(crate) const fn sws_avoidance(&self) -> SwsAvoidance {
        self.config.sws_avoidance
    }
    pub(crate) const fn has_nagle(&self) -> bool {
        self.config.nagle
    }
    pub(crate) fn times_one(&self) -> bool {
        self.config.rtt_sampling == RttSampling::OneAtATime
    }
    pub(crate) fn has_linux_timer(&self) -> bool {
        self.config.restart_timer == RestartTimer::Linux
    }
    pub(crate) const fn prr(&self) -> PrrBound {
        self.config.prr
    }
    pub(crate) const fn byte_counting(&self) -> ByteCounting {
        self.config.byte_counting
    }
}

/// Timers of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A segment counts as lost if it is not acknowledged until then (RFC 8985, section 6.2, step 5).
    Reorder,
    /// The tail loss probe (RFC 8985, section 7.2).
    Probe,
    /// Pacing: a segment that may leave waits for its turn.
    Pacing,
    /// The retransmission timer (RFC 6298, section 5), for data, SYN and FIN. With nothing outstanding it is the
    /// persist timer, which waits for the peer's closed window to open (RFC 9293, section 3.8.6.1): a sender never
    /// needs both.
    Retransmit,
}

/// All timers but that for retransmission, the only one of an end without [`super::extras::Extras`].
#[derive(Clone, Copy, Debug)]
pub(super) struct TimerTable([Instant; 3]);

impl Default for TimerTable {
    fn default() -> Self {
        Self([Instant::FAR_FUTURE; 3])
    }
}

impl TimerTable {
    /// Time at which the first of the timers expires.
    #[inline]
    fn next(&self) -> Instant {
        let [a, b, c] = self.0;
        a.min(b).min(c)
    }
}

/// An acknowledgment that came while something is outstanding. What it has delivered goes beside it: what is handed on
/// by reference lies in memory.
#[derive(Clone, Copy)]
struct Ack<'a> {
    tcp: &'a TcpHeader,
    /// snd_una before and after the ACK.
    una: u64,
    end: u64,
    /// Segments in flight before the ACK.
    flight: u32,
}

/// An acknowledgment of new data, as the window sees it.
#[derive(Clone, Copy)]
struct Growth {
    /// Segments in flight before the ACK.
    flight: u32,
    /// Segments that duplicate ACKs without SACK have told of before: in slow start they count no second time.
    told: u32,
    /// The sample of the round trip that the ACK gives.
    rtt: Option<Duration>,
}

/// An end that has nothing to send touches only the fields before the window.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Sender {
    retransmit_at: Instant,
    /// The offset after the application's last byte.
    end: u64,
    extras: Option<Box<Extras>>,
    isn: SeqNum,
    /// Whether the application has closed, so a FIN follows `end`.
    closing: bool,
    /// Whether the congestion window was what stopped the last output.
    cwnd_limited: bool,
    /// Whether losses are found by time.
    has_rack: bool,
    peer: PeerState,
    board: Scoreboard,
    window: Window,
    rto: Rto,
    /// Time at which the last segment with data left.
    last_sent: Instant,
    loss: LossRecovery,
    timed: TimedSegment,
}

/// Bytes of a sender before the window.
#[cfg(test)]
pub(crate) const HEAD: usize = core::mem::offset_of!(Sender, window);

impl Sender {
    pub(crate) fn new(config: &Config, isn: SeqNum) -> Self {
        let extras = Extras::new(config, isn);
        let cwnd = extras::initial_window(&extras, config);
        let mut board = Scoreboard::default();
        board.start(0);
        Self {
            end: 1,
            retransmit_at: Instant::FAR_FUTURE,
            extras,
            isn,
            closing: false,
            cwnd_limited: false,
            has_rack: config.rack_tlp && config.recovery == Recovery::Sack,
            peer: PeerState::new(config),
            board,
            window: Window { cwnd, ssthresh: config.initial_ssthresh },
            rto: Rto::new(),
            last_sent: Instant::ZERO,
            loss: LossRecovery::default(),
            timed: TimedSegment::default(),
        }
    }

    /// Takes a congestion control of the caller's in place of its own, if its settings ask for one.
    pub(crate) fn bring(&mut self, control: OwnControl) {
        if let Some(extras) = &mut self.extras {
            extras.cc.bring(control);
        }
    }

    /// Opens the connection to a peer that takes our SYN without acknowledging the SYN.
    pub(crate) fn skip_own_syn(&mut self, config: &Config) {
        self.board.start(1);
        let known = config.start.rtt > Duration::ZERO;
        let first = if known { FirstRtt::Is(config.start.rtt) } else { FirstRtt::Unknown };
        self.tell_established(first, config);
    }

    /// The start-up hears that the connection exists.
    fn tell_established(&mut self, first: FirstRtt, config: &Config) {
        if let Some(extras) = &mut self.extras {
            extras.startup.on_established(&mut self.window, first, config);
        }
    }

    /// The start-up hears of a loss, and pacing begins anew.
    fn tell_loss(&mut self) {
        if let Some(extras) = &mut self.extras {
            extras.startup.on_loss();
            extras.pacer.reset();
        }
    }

    /// The connection exists already: our SYN counts as acknowledged, and the peer has the same settings.
    pub(crate) fn skip_handshake(&mut self, config: &Config) {
        self.skip_own_syn(config);
        self.peer.assume(config);
        if let Some(extras) = &mut self.extras {
            extras.small.note_window(self.peer.window);
            extras.ecn.assume(config);
        }
    }

    /// Takes over what the peer's SYN says.
    pub(crate) fn on_peer_syn(&mut self, config: &Config, syn: &TcpHeader) {
        self.peer.on_syn(config, syn);
        if let Some(extras) = &mut self.extras {
            // The window of a SYN that asks is replaced before anything is sent.
            if syn.flags.has(Flags::ACK) {
                extras.small.note_window(self.peer.window);
            }
            extras.ecn.on_syn(config, syn);
        }
    }

    /// The application has `bytes` more to send.
    pub(crate) const fn write(&mut self, bytes: u64) {
        self.end = self.end.saturating_add(bytes);
    }

    pub(crate) const fn close(&mut self) {
        self.closing = true;
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.closing
    }
    /// Whether our SYN was acknowledged.
    pub(crate) const fn is_synchronized(&self) -> bool {
        self.board.una() > 0
    }
    /// Whether our FIN was acknowledged.
    pub(crate) fn fin_acknowledged(&self) -> bool {
        self.fin_sent() && self.board.is_empty()
    }
    /// Only a FIN lies beyond the last byte.
    pub(crate) const fn fin_sent(&self) -> bool {
        self.board.max() > self.end
    }
    pub(crate) const fn window(&self) -> Window {
        self.window
    }
    pub(crate) fn cc_estimates(&self) -> Option<CcEstimates> {
        self.extras.as_ref()?.cc.estimates()
    }
    pub(crate) fn srtt(&self, config: &Config) -> Duration {
        self.rto.srtt(&config.rto)
    }
    pub(crate) const fn backoff(&self) -> u32 {
        self.rto.backoff()
    }
    pub(crate) fn rto(&self, config: &Config) -> Duration {
        self.rto.timeout(&config.rto)
    }
    pub(crate) const fn loss_phase(&self) -> LossPhase {
        self.loss.phase
    }
    pub(crate) fn marks(&self) -> SegmentMarks {
        self.board.marks()
    }
    /// The degree of reordering, segments: what was seen, and no less than the threshold of duplicate ACKs.
    pub(crate) fn reordering(&self, config: &Config) -> u32 {
        let seen = self.rack().map_or(0, Rack::extent).div_ceil(u32::from(self.peer.mss));
        seen.max(config.dupthresh)
    }
    pub(crate) const fn segment(&self) -> u16 {
        self.peer.mss
    }
    /// Bytes sent and not acknowledged; a SYN or FIN counts as one.
    pub(crate) const fn unacked(&self) -> u64 {
        self.board.bytes()
    }
    /// Bytes written and never sent.
    pub(crate) const fn unsent(&self) -> u64 {
        self.end.saturating_sub(self.board.max())
    }
    /// Bytes acknowledged.
    pub(crate) fn acked(&self) -> u64 {
        self.board.una().min(self.end).saturating_sub(1)
    }
    /// Segments in the network, as far as is known.
    pub(crate) fn in_flight(&self, recovery: Recovery) -> u32 {
        if recovery == Recovery::Sack { self.board.pipe() } else { self.board.outstanding() }
    }
    fn rack(&self) -> Option<&Rack> {
        self.extras.as_ref()?.rack.as_deref()
    }
    fn rack_mut(&mut self) -> Option<&mut Rack> {
        self.extras.as_mut()?.rack.as_deref_mut()
    }
    pub(crate) const fn isn(&self) -> SeqNum {
        self.isn
    }

    /// The sequence number of a stream offset.
    fn seq(&self, offset: u64) -> SeqNum {
        self.isn + offset as u32
    }

    /// The stream offset of an acknowledgment number: of all that fit, the one nearest to snd_una. `None` if it would
    /// lie before the SYN.
    fn offset_of(&self, seq: SeqNum) -> Option<u64> {
        let una = self.board.una();
        una.checked_add_signed(i64::from(seq.distance_from(self.seq(una))))
    }

    /// The stream offset of a sequence number that does not lie below snd_una; `None` if it does.
    fn offset_ahead(&self, seq: SeqNum) -> Option<u64> {
        let una = self.board.una();
        u32::try_from(seq.distance_from(self.seq(una))).ok().map(|ahead| una + u64::from(ahead))
    }

    /// Whether a segment acknowledges what was never sent.
    pub(crate) fn is_beyond(&self, tcp: &TcpHeader) -> bool {
        tcp.flags.has(Flags::ACK) && self.offset_ahead(tcp.ack).is_some_and(|ack| ack > self.board.max())
    }

    /// Whether an acknowledgment number acknowledges nothing that was never sent.
    pub(crate) fn is_acceptable(&self, ack: SeqNum) -> bool {
        self.offset_of(ack).is_some_and(|ack| ack <= self.board.max())
    }
}

/// Timers. [`Instant::FAR_FUTURE`] stands for one that does not run.
impl Sender {
    #[inline(always)]
    pub(super) fn set_timer(&mut self, timer: Timer, at: Instant) {
        match (timer, &mut self.extras) {
            (Timer::Retransmit, _) => self.retransmit_at = at,
            (other, Some(extras)) => extras.timers.0[other as usize] = at,
            (_, None) => {
                debug_assert_eq!(at, Instant::FAR_FUTURE, "an end without extras has no other timers")
            }
        }
    }
    #[inline(always)]
    pub(super) fn stop_timer(&mut self, timer: Timer) {
        self.set_timer(timer, Instant::FAR_FUTURE);
    }
    /// Time at which a timer expires.
    #[inline(always)]
    pub(super) fn timer_at(&self, timer: Timer) -> Instant {
        match (timer, &self.extras) {
            (Timer::Retransmit, _) => self.retransmit_at,
            (other, Some(extras)) => extras.timers.0[other as usize],
            (_, None) => Instant::FAR_FUTURE,
        }
    }
    #[inline(always)]
    pub(super) fn is_timer_set(&self, timer: Timer) -> bool {
        self.timer_at(timer) != Instant::FAR_FUTURE
    }
    /// Whether a timer has expired.
    #[inline(always)]
    pub(crate) fn is_due(&self, timer: Timer, now: Instant) -> bool {
        self.timer_at(timer) <= now
    }
    /// Time at which the first timer expires.
    #[inline]
    pub(crate) fn next_wake(&self) -> Instant {
        self.extras.as_ref().map_or(self.retransmit_at, |extras| self.retransmit_at.min(extras.timers.next()))
    }
}

/// Acknowledgments.
impl Sender {
    /// Takes the acknowledgment in `tcp`, which is of nothing that was never sent. [`Sender::output`] then sends what
    /// may leave because of it.
    #[inline(always)]
    pub(crate) fn on_ack<I: Io>(&mut self, cx: &mut Context<'_, I>, tcp: &TcpHeader) {
        let Some(end) = self.offset_ahead(tcp.ack) else { return self.take_old_ack(cx, tcp) };
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

    /// An ACK came that is older than another one. What it SACKs counts, as in Linux's `tcp_ack` (RFC 6675, section 5:
    /// the scoreboard is updated by any ACK with SACK blocks); its window does not (RFC 9293, section 3.10.7.4).
    #[cold]
    fn take_old_ack<I: Io>(&mut self, cx: &mut Context<'_, I>, tcp: &TcpHeader) {
        if tcp.sack.is_empty() || cx.recovery() != Recovery::Sack || self.board.is_empty() {
            return;
        }
        let una = self.board.una();
        let mut delivered =
            Delivered { rack: self.has_rack.then(RackDelivered::default), ..Delivered::default() };
        let ack = Ack { tcp, una, end: una, flight: self.in_flight(cx.recovery()) };
        self.update_scoreboard(cx, ack, &mut delivered);
        if delivered.segments > 0 {
            self.report_delivery(cx, None, &delivered);
            self.on_duplicate(cx);
            self.on_delivered(cx, delivered.segments, cx.prr() == PrrBound::SlowStart);
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
            && (self.loss.phase != LossPhase::Loss || cx.config.rto_recovery != RtoRecovery::GoBackN)
    }

    /// Tells whether an ACK is a duplicate: RFC 5681, section 2; with SACK, an ACK that reports new data (RFC 6675,
    /// section 2).
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
        let told = if config.recovery == Recovery::Sack { 0 } else { u32::from(self.loss.dupacks) };
        let rtt = self.take_rtt(cx, ack.tcp, delivered);
        if ack.end > 1 {
            // Packet 0 is smaller than what follows, so its round trip is shorter.
            self.report_delivery(cx, rtt, delivered);
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
            self.grow(cx, Growth { flight: ack.flight, told, rtt }, delivered);
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

    /// Takes the acknowledgment of our SYN, which is not data.
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
        let (una, max) = (self.board.una(), self.board.max());
        let spread = self.extras.as_mut().map(|extras| &mut extras.spread);
        self.rto.sample(spread, &cx.config.rto, cx.now, rtt, una, max);
        cx.io.event(TcpEvent::RttSample(rtt));
        Some(rtt)
    }

    /// Tells congestion control what was acknowledged, and the sample of the round trip if it is one of a segment that
    /// was sent only once.
    #[inline]
    fn report_delivery<I: Io>(&mut self, cx: &Context<'_, I>, rtt: Option<Duration>, delivered: &Delivered) {
        let Some(extras) = &mut self.extras else { return };
        let rtt =
            rtt.filter(|_| sent_once(cx, delivered).is_some()).map(|rtt| rtt.max(Duration::from_nanos(1)));
        let open = self.loss.is_open();
        let sample = DeliverySample { now: cx.now, segments: delivered.segments, rtt, open };
        extras.cc.on_delivery(&mut self.window, cx.config, &sample);
    }

    /// An ACK of new data opens the window.
    fn grow<I: Io>(&mut self, cx: &Context<'_, I>, growth: Growth, delivered: &Delivered) {
        let Growth { flight, told, rtt } = growth;
        let slow_start = self.window.cwnd < self.window.ssthresh;
        let used =
            self.extras.as_ref().is_none_or(|extras| extras.usage.lets_grow(self.window.cwnd, slow_start));
        if cx.config.grow_if_used && !used {
            return;
        }
        let credit = match cx.byte_counting() {
            ByteCounting::PerAck => 1.0,
            ByteCounting::Abc { limit } => {
                let segments = delivered.bytes as f64 / f64::from(self.peer.mss);
                if slow_start {
                    (segments - f64::from(told)).max(1.0).min(segments).min(f64::from(limit))
                } else {
                    segments
                }
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
            window_limited: used,
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

/// Time at which the segment left whose acknowledgment gives an RTT sample: one that was sent only once (Karn).
fn sent_once<I: Io>(cx: &Context<'_, I>, delivered: &Delivered) -> Option<Instant> {
    match (cx.times_one(), cx.has_timestamps()) {
        (true, false) => delivered.timed,
        // Next to a repaired hole lies data that has waited for the repair, so its age is no round trip.
        _ => delivered.sent.filter(|_| !delivered.retransmitted),
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::SeqNum;

    use super::*;
    use crate::Config;
    use crate::cc::tests::ms;

    #[test]
    fn each_timer_runs_by_itself() {
        let mut sender = Sender::new(&Config::default(), SeqNum(0));
        assert_eq!(sender.next_wake(), Instant::FAR_FUTURE);
        sender.set_timer(Timer::Retransmit, ms(300));
        sender.set_timer(Timer::Probe, ms(200));
        assert_eq!((sender.next_wake(), sender.timer_at(Timer::Retransmit)), (ms(200), ms(300)));
        assert!(sender.is_due(Timer::Probe, ms(200)) && !sender.is_due(Timer::Probe, ms(199)));
        assert!(sender.is_timer_set(Timer::Retransmit) && !sender.is_timer_set(Timer::Pacing));
        sender.set_timer(Timer::Pacing, ms(10));
        sender.set_timer(Timer::Reorder, ms(20));
        assert_eq!(sender.next_wake(), ms(10));
        for (stopped, next) in [(Timer::Pacing, 20), (Timer::Reorder, 200), (Timer::Probe, 300)] {
            sender.stop_timer(stopped);
            assert_eq!(sender.next_wake(), ms(next));
        }
    }
}
