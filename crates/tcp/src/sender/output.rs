//! Output of segments: cwnd, the peer's window, limited transmit (RFC 3042), the order of `NextSeg` (RFC
//! 6675, section 4), pacing, the restart after idling (RFC 5681, section 4.1), and the headers of segments.

use narrows_units::{Bytes, Duration, Ecn, Instant};
use narrows_wire::{Flags, TcpHeader};

use super::extras::initial_window;
use super::peer::{Remainder, patience};
use super::scoreboard::{EVER_RETRANS, FIN, RETRANS, SYN, SentSegment};
use super::{Context, Sender, Timer};
use crate::cc::CongestionControl;
use crate::receiver::Receiver;
use crate::startup::{FirstRtt, Startup};
use crate::{Config, Handshake, Io, Recovery, RtoRecovery, SwsAvoidance};

/// The earliest time at which the next segment may leave. Without pacing it lies in the past.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    release: Instant,
}

impl Pacer {
    /// A segment has left; the next one leaves at least `interval` later. Time in which nothing left is not made up
    /// for.
    pub(super) fn on_sent(&mut self, now: Instant, interval: Duration) {
        self.release = self.release.max(now) + interval;
    }

    /// The next segment leaves at `at` at the earliest.
    pub(super) fn hold_until(&mut self, at: Instant) {
        self.release = self.release.max(at);
    }

    /// Time until which the next segment has to wait; `None` if it may leave now.
    pub(super) fn held_until(&self, now: Instant) -> Option<Instant> {
        (self.release > now).then_some(self.release)
    }

    /// Forgets what was sent: the next segment may leave at once.
    pub(super) const fn reset(&mut self) {
        self.release = Instant::ZERO;
    }
}

/// Most new segments per ACK during fast recovery without SACK, because an ACK that fills a hole may open the window by
/// many (RFC 3782, section 5, and ns-2).
const RECOVERY_BURST: u32 = 2;

/// Segments in flight, and how many the windows allow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) flight: u32,
    /// Segments that the congestion window allows.
    pub(super) allowed: u32,
    /// Segments that limited transmit allows beyond the congestion window.
    pub(super) limited: u32,
}

impl Sender {
    /// Opens: sends our SYN, with an ACK if the peer's was seen. The SYN is the first thing in the stream.
    pub(crate) fn send_syn<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        if cx.config.handshake == Handshake::SynIsPacketZero {
            self.window.cwnd = 1.0;
        }
        self.board.push(cx.now, 0, SYN);
        self.time_segment(cx);
        self.emit(cx, 0, 0, SYN);
        if cx.config.handshake == Handshake::ThreeWay {
            self.start_syn_timer(cx);
        } else {
            self.restart_rto(cx);
        }
    }

    /// Answers a SYN, where the answer is an acknowledgment like any other and no segment of ours to be retransmitted.
    pub(crate) fn answer_syn<I: Io>(&self, cx: &mut Context<'_, I>) {
        self.emit(cx, 0, 0, SYN);
    }

    /// Sends our SYN-ACK again, because the peer has not seen the first one.
    pub(crate) fn repeat_syn<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        self.tell_established(FirstRtt::SynLost, cx.config);
        self.answer_syn(cx);
    }

    /// Sends whatever may leave now.
    #[inline(always)]
    pub(crate) fn output<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        self.stop_timer(Timer::Pacing);
        if self.board.is_empty() && self.unsent() == 0 && !self.closing {
            self.cwnd_limited = false;
        } else {
            let before = cx.new_segments;
            self.output_all(cx);
            self.note_usage(cx, cx.new_segments > before);
        }
        if self.has_rack {
            self.schedule_probe(cx);
        }
    }

    /// Notes how far the congestion window is used, if segments of new data were `sent` or are held back.
    fn note_usage<I: Io>(&mut self, cx: &Context<'_, I>, sent: bool) {
        if self.extras.is_none() {
            return;
        }
        let flight = self.in_flight(cx.recovery());
        let limited = self.cwnd_limited || f64::from(flight) >= self.window.cwnd.floor();
        if !(sent || limited && self.unsent() > 0) {
            return;
        }
        let (out, una, max) = (self.board.outstanding(), self.board.una(), self.board.max());
        if let Some(extras) = &mut self.extras {
            extras.usage.note(out, una, max, limited);
        }
    }

    /// Sends segment after segment until none may leave any more. Not in line: an end that only receives never comes
    /// here.
    #[inline(never)]
    fn output_all<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        let limited = self.loss.is_recovering() && cx.recovery() != Recovery::Sack;
        let mut burst = if limited { RECOVERY_BURST } else { u32::MAX };
        loop {
            while burst > 0 && self.output_one(cx) {
                burst -= 1;
            }
            if !self.tries_new_data() {
                return;
            }
            self.end_trial();
            if self.board.max() != self.loss.recover {
                return;
            }
            // No new data could leave, so what counts as lost does.
            burst = u32::MAX;
        }
    }

    /// Sends one segment, if one may leave.
    #[inline(always)]
    fn output_one<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        let sack = cx.recovery() == Recovery::Sack;
        let flight = self.in_flight(cx.recovery());
        let inflation = if sack { 0 } else { self.inflation() };
        let allowed = self.allowed(flight).saturating_add(inflation);
        let room = flight < allowed;
        let limited = self.loss.limited_transmit(cx.config, cx.recovery());
        if !room && self.unsent() > 0 && self.is_synchronized() && limited == 0 {
            // Neither old nor new data may leave. Most acknowledgments end here.
            self.cwnd_limited = true;
            return false;
        }
        if self.board.rewound() > 0 {
            self.cwnd_limited = !room;
            let room = flight < allowed.saturating_add(limited);
            return room && self.pacing_allows(cx) && self.resend_next(cx);
        }
        if sack && self.board.pending() > 0 && !self.tries_new_data() {
            self.cwnd_limited = !room;
            return room && self.pacing_allows(cx) && self.resend_next(cx);
        }
        if self.output_new(cx, Room { flight, allowed, limited }) {
            return true;
        }
        sack && room && self.loss.is_recovering() && self.fills_holes(cx) && self.resend_hole(cx)
    }

    /// Segments by which duplicate ACKs inflate the window.
    pub(super) fn inflation(&self) -> u32 {
        self.extras.as_ref().map_or(0, |extras| extras.inflation)
    }

    pub(super) fn set_inflation(&mut self, segments: u32) {
        if let Some(extras) = &mut self.extras {
            extras.inflation = segments;
        }
    }

    /// How many segments the window allows in flight. Where segments are small, the window counts bytes: it allows
    /// those that are outstanding and as many more as fit, or fewer if they exceed it.
    fn allowed(&self, flight: u32) -> u32 {
        let Some(segment) = self.small_segment() else { return self.window.cwnd as u32 };
        let window = (self.window.cwnd * f64::from(self.peer.mss)) as u64;
        let (out, segment) = (self.board.bytes(), u64::from(segment));
        if out <= window {
            flight + ((window - out) / segment) as u32
        } else {
            flight.saturating_sub((out - window).div_ceil(segment) as u32)
        }
    }

    /// The payload of a segment; `None` unless the start-up makes segments smaller.
    fn small_segment(&self) -> Option<u16> {
        let extras = self.extras.as_ref()?;
        extras.startup.segment(&self.window, self.peer.mss)
    }

    /// Whether pacing lets a segment leave now. If not, the timer is set for when it does.
    fn pacing_allows<I: Io>(&mut self, cx: &Context<'_, I>) -> bool {
        let held = self.extras.as_ref().and_then(|extras| extras.pacer.held_until(cx.now));
        if let Some(at) = held {
            self.set_timer(Timer::Pacing, at);
        }
        held.is_none()
    }

    /// Sends a segment of new data, if both windows allow one.
    #[inline(always)]
    pub(super) fn output_new<I: Io>(&mut self, cx: &mut Context<'_, I>, room: Room) -> bool {
        let Room { flight, allowed, limited } = room;
        if !self.is_synchronized() {
            return false;
        }
        let unsent = self.unsent();
        if unsent == 0 {
            self.cwnd_limited = false;
            if self.closing && self.board.max() == self.end {
                // cwnd does not hold back a FIN alone: it is small, and nothing follows it.
                self.send_new(cx, 0, FIN);
                return true;
            }
            return false;
        }
        if self.board.is_empty() {
            self.restart_after_idle(cx);
        }
        let flight = if self.loss.is_open() && !cx.config.limited_transmit {
            self.board.outstanding()
        } else {
            flight
        };
        self.cwnd_limited = flight >= allowed;
        if flight >= allowed.saturating_add(limited) {
            return false;
        }
        let Some(len) = self.next_len(cx, unsent) else { return false };
        if !self.is_released(cx) {
            return false;
        }
        if self.board.outstanding() >= allowed && self.loss.is_open() {
            self.loss.on_limited_transmit();
        }
        if let Some(extras) = &mut self.extras {
            extras.startup.on_sent(cx.now, cx.config);
        }
        let last = len == unsent && self.closing;
        self.send_new(cx, len as u16, if last { FIN } else { 0 });
        true
    }

    /// The length of the next segment of new data: a full one or the last of it, if the peer's window has room for it
    /// and Nagle's rule does not hold it back, or what fills the window where that is allowed.
    #[inline(always)]
    fn next_len<I: Io>(&mut self, cx: &Context<'_, I>, unsent: u64) -> Option<u64> {
        let usable = self.usable();
        let segment = u64::from(self.next_segment(cx));
        let whole = unsent.min(segment);
        if usable >= whole {
            let held = whole < segment && !self.closing && self.is_held_by_nagle(cx);
            return (!held).then_some(whole);
        }
        self.fill_window(cx, usable)
    }

    /// The payload of the next segment, if there is as much: a full one, unless the start-up makes it smaller.
    fn next_segment<I: Io>(&self, cx: &Context<'_, I>) -> u16 {
        let Some(extras) = &self.extras else { return self.peer.mss };
        let starting = extras.startup.segment(&self.window, self.peer.mss);
        starting.unwrap_or_else(|| extras.small.segment(cx.sws_avoidance(), self.peer.mss))
    }

    /// Bytes up to the right edge of the peer's window.
    pub(super) fn usable(&self) -> u64 {
        (self.board.una() + u64::from(self.peer.window)).saturating_sub(self.board.max())
    }

    /// Whether Nagle's rule holds a small segment back; in Linux only behind another one (Minshall).
    fn is_held_by_nagle<I: Io>(&self, cx: &Context<'_, I>) -> bool {
        let small = self.extras.as_ref().filter(|_| cx.has_nagle()).map(|extras| extras.small);
        small.is_some_and(|small| match cx.sws_avoidance() {
            SwsAvoidance::Linux => small.is_small_out(self.board.una()),
            _ => !self.board.is_empty(),
        })
    }

    /// The next segment does not fit into the `usable` bytes of the window: what fits leaves, where that is allowed. If
    /// nothing does and nothing is outstanding, the persist timer starts.
    #[inline(never)]
    fn fill_window<I: Io>(&mut self, cx: &Context<'_, I>, usable: u64) -> Option<u64> {
        let (rule, idle) = (cx.sws_avoidance(), self.board.is_empty());
        let rest = Remainder { usable, idle, follows: cx.new_segments > 0, held: self.is_held_by_nagle(cx) };
        let small = self.extras.as_ref().map(|extras| extras.small).unwrap_or_default();
        if small.fills(rule, rest) {
            return Some(usable);
        }
        if idle && !self.is_timer_set(Timer::Retransmit) {
            self.restart_rto(cx);
            let rto = self.timer_at(Timer::Retransmit).since(cx.now);
            self.set_timer(Timer::Retransmit, cx.now + patience(rule, usable, rto));
        }
        None
    }

    /// Whether neither the start-up nor pacing holds new data back.
    fn is_released<I: Io>(&mut self, cx: &Context<'_, I>) -> bool {
        let Some(extras) = &mut self.extras else { return true };
        if let Some(at) = extras.startup.release_at(cx.now) {
            extras.pacer.hold_until(at);
        }
        self.pacing_allows(cx)
    }

    /// RFC 5681, section 4.1: after idling for longer than an RTO, cwnd says nothing about the path any more.
    fn restart_after_idle<I: Io>(&mut self, cx: &Context<'_, I>) {
        if cx.config.restart_after_idle
            && self.last_sent > Instant::ZERO
            && cx.now.since(self.last_sent) > self.rto.timeout(&cx.config.rto)
        {
            self.window.cwnd = self.window.cwnd.min(initial_window(&self.extras, cx.config));
        }
    }

    #[inline(always)]
    pub(super) fn send_new<I: Io>(&mut self, cx: &mut Context<'_, I>, len: u16, flags: u8) {
        let offset = self.board.max();
        self.board.push(cx.now, len, flags);
        self.time_segment(cx);
        self.count_for_prr(cx);
        cx.new_segments += 1;
        self.emit(cx, offset, len, flags);
        if len > 0 {
            if let Some(extras) = &mut self.extras {
                extras.ecn.on_new_data_sent();
                if len < self.peer.mss {
                    extras.small.note_small(offset + u64::from(len));
                }
            }
            cx.counters.data_sent += 1;
        }
        self.on_sent(cx, len);
    }

    /// Rate reduction counts what leaves in a recovery.
    fn count_for_prr<I: Io>(&mut self, cx: &Context<'_, I>) {
        if cx.prr().is_on()
            && self.loss.is_recovering()
            && let Some(extras) = &mut self.extras
        {
            extras.prr.on_sent();
        }
    }

    /// Times the segment that was sent just now, unless another one is timed or all are.
    fn time_segment<I: Io>(&mut self, cx: &Context<'_, I>) {
        if cx.times_one() && !self.timed.is_running() {
            self.timed.start(self.board.max());
        }
    }

    #[inline]
    fn on_sent<I: Io>(&mut self, cx: &Context<'_, I>, len: u16) {
        self.last_sent = cx.now;
        if !self.is_timer_set(Timer::Retransmit) {
            self.restart_rto(cx);
        }
        let Some(extras) = &self.extras else { return };
        let interval = if let Some(rate) = extras.cc.pacing_rate(&self.window, cx.config) {
            rate.time_to_send(Bytes(u64::from(len)))
        } else if extras.startup.is_paced(&self.window) {
            self.pacing_interval(cx.config)
        } else {
            return;
        };
        if let Some(extras) = &mut self.extras {
            extras.pacer.on_sent(cx.now, interval);
        }
    }

    /// The interval from one paced segment to the next: SRTT / cwnd.
    fn pacing_interval(&self, config: &Config) -> Duration {
        let rtt = match self.srtt(config) {
            Duration::ZERO => config.start.rtt,
            srtt => srtt,
        };
        Duration::from_nanos((rtt.as_nanos() as f64 / self.window.cwnd) as u64)
    }

    /// Sends the first segment again, whatever the window says.
    pub(super) fn resend_first<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        self.resend(cx, 0);
    }

    /// Sends again the next segment that counts as lost.
    pub(super) fn resend_next<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        let at = self.board.next_rewound().or_else(|| self.board.next_pending());
        at.is_some_and(|at| self.resend(cx, at))
    }

    /// Whether rules 3 and 4 of `NextSeg` apply. With RACK they do not, because a loss is known by time and tails are
    /// probed; ns-2's Sack1 is older than they are.
    fn fills_holes<I: Io>(&self, cx: &Context<'_, I>) -> bool {
        !self.has_rack && cx.config.rto_recovery != RtoRecovery::GoBackN
    }

    /// `NextSeg` (RFC 6675, section 4), rules 3 and 4: no segment is known to be lost, and no new one may be sent.
    #[inline(never)]
    fn resend_hole<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        if let Some(at) = self.board.next_hole() {
            return self.pacing_allows(cx) && self.resend(cx, at);
        }
        if self.loss.rescued {
            return false;
        }
        let Some(at) = self.board.last_hole().filter(|&at| !self.board.has(at, RETRANS)) else {
            return false;
        };
        if !self.pacing_allows(cx) {
            return false;
        }
        self.loss.rescued = true;
        let Some((offset, segment)) = self.board.rescue(at, cx.now) else { return false };
        self.emit_again(cx, offset, &segment);
        true
    }

    /// Sends the segment at index `at` of the scoreboard again.
    pub(super) fn resend<I: Io>(&mut self, cx: &mut Context<'_, I>, at: usize) -> bool {
        let Some((offset, segment)) = self.board.resend(at, cx.now) else { return false };
        self.emit_again(cx, offset, &segment);
        if at == 0 {
            self.on_first_resent(cx);
        }
        true
    }

    fn emit_again<I: Io>(&mut self, cx: &mut Context<'_, I>, offset: u64, segment: &SentSegment) {
        self.timed.on_resent(self.board.una(), offset, offset + u64::from(segment.len));
        self.count_for_prr(cx);
        if let Some(rack) = self.rack_mut() {
            rack.on_copy(cx.now, offset);
        }
        self.emit(cx, offset, segment.len, segment.flags);
        if segment.len > 0 {
            cx.counters.data_sent += 1;
            cx.counters.retransmitted += 1;
        } else if segment.flags & SYN != 0 && cx.config.handshake == Handshake::SynIsPacketZero {
            cx.counters.count_syn_retry();
        }
        if self.is_synchronized() {
            self.on_sent(cx, segment.len);
        }
    }

    /// Sends the segment at `offset`. Not in line: it is long, and several places call it.
    #[inline(never)]
    pub(super) fn emit<I: Io>(&self, cx: &mut Context<'_, I>, offset: u64, len: u16, flags: u8) {
        let (mut ecn, mut bits) = (Ecn::NotEct, Flags::default());
        // Retransmissions are not ECN-capable (RFC 3168, section 6.1.5).
        if let Some(extras) = &self.extras
            && flags & EVER_RETRANS == 0
        {
            if extras.ecn.is_on() && flags & (SYN | FIN) == 0 {
                ecn = Ecn::Ect0;
            }
            if len > 0 && extras.ecn.announces() {
                bits = bits.and(Flags::CWR);
            }
            if len > 0 && self.pushes(cx) {
                bits = bits.and(Flags::PSH);
            }
        }
        let Context { config, now, receiver, io, .. } = cx;
        io.compose(ecn, |tcp| {
            (tcp.seq, tcp.payload, tcp.flags) = (self.seq(offset), u32::from(len), bits);
            if flags & (SYN | FIN) != 0 {
                self.fill_syn_fin(config, receiver, tcp, flags);
            }
            receiver.fill_ack(config, *now, tcp);
        });
        cx.sent = true;
    }

    /// Whether both ends use ECN.
    fn has_ecn(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.ecn.is_on())
    }

    /// Whether the new segment bears PSH: each `push_every`-th of a burst does, and the last of the application's data.
    fn pushes<I: Io>(&self, cx: &Context<'_, I>) -> bool {
        let every = cx.config.push_every;
        every != u32::MAX && (self.unsent() == 0 || cx.new_segments.is_multiple_of(every))
    }

    /// Fills in what only a SYN or a FIN bears.
    #[cold]
    fn fill_syn_fin(&self, config: &Config, receiver: &Receiver, tcp: &mut TcpHeader, flags: u8) {
        if flags & FIN != 0 {
            tcp.flags = tcp.flags.and(Flags::FIN);
        }
        if flags & SYN == 0 {
            return;
        }
        tcp.flags = tcp.flags.and(Flags::SYN);
        // Options do not count (RFC 6691, section 2).
        tcp.mss = Some((config.mss + config.timestamp_bytes()).min(u32::from(u16::MAX)) as u16);
        // An answer scales only if the SYN did (RFC 7323, section 2.2).
        tcp.window_scale = (!receiver.started() || self.peer.scales()).then(|| config.window_shift());
        if !config.ecn {
            return;
        }
        // A SYN asks with ECE and CWR, a SYN-ACK agrees with ECE (RFC 3168, section 6.1.1).
        if !receiver.started() {
            tcp.flags = tcp.flags.and(Flags::ECE).and(Flags::CWR);
        } else if self.has_ecn() {
            tcp.flags = tcp.flags.and(Flags::ECE);
        }
    }

    /// Sends an acknowledgment alone.
    #[inline(always)]
    pub(crate) fn emit_ack<I: Io>(&self, cx: &mut Context<'_, I>) {
        self.emit_bare(cx, self.board.max(), 0, Flags::default());
    }

    /// Sends a byte that the peer has already, or none as Linux's `tcp_xmit_probe_skb`: either makes the peer answer
    /// (RFC 9293, section 3.8.6.1).
    pub(super) fn emit_window_probe<I: Io>(&self, cx: &mut Context<'_, I>) {
        let bytes = u32::from(cx.sws_avoidance() != SwsAvoidance::Linux);
        self.emit_bare(cx, self.board.una().saturating_sub(1), bytes, Flags::default());
    }

    /// Gives the connection up (RFC 9293, section 3.10.5).
    pub(crate) fn emit_reset<I: Io>(&self, cx: &mut Context<'_, I>) {
        self.emit_bare(cx, self.board.max(), 0, Flags::RST);
    }

    /// Sends a segment without new data. Not in line, as [`Sender::emit`]: its parts are in line here.
    #[inline(never)]
    fn emit_bare<I: Io>(&self, cx: &mut Context<'_, I>, offset: u64, payload: u32, flags: Flags) {
        let Context { config, now, receiver, io, .. } = cx;
        io.compose(Ecn::NotEct, |tcp| {
            (tcp.seq, tcp.payload, tcp.flags) = (self.seq(offset), payload, flags);
            receiver.fill_ack(config, *now, tcp);
        });
        cx.sent = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::tests::ms;

    #[test]
    fn segments_leave_an_interval_apart() {
        let (mut pacer, interval) = (Pacer::default(), Duration::from_millis(10));
        assert_eq!(pacer.held_until(ms(0)), None);
        pacer.on_sent(ms(100), interval);
        assert_eq!((pacer.held_until(ms(105)), pacer.held_until(ms(110))), (Some(ms(110)), None));
        // A segment that leaves early, as the first of a recovery does, moves the next one back.
        pacer.on_sent(ms(105), interval);
        assert_eq!(pacer.held_until(ms(110)), Some(ms(120)));
        // After a pause the interval counts from the segment that ends it.
        pacer.on_sent(ms(500), interval);
        assert_eq!(pacer.held_until(ms(500)), Some(ms(510)));
        pacer.hold_until(ms(505));
        assert_eq!(pacer.held_until(ms(500)), Some(ms(510)), "it holds already for longer");
        pacer.reset();
        assert_eq!(pacer.held_until(ms(500)), None);
    }
}
