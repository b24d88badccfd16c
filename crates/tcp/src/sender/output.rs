//! What leaves, and when: cwnd, the peer's window, limited transmit (RFC 3042), the order of `NextSeg` (RFC 6675,
//! section 4), pacing, and the restart after idling (RFC 5681, section 4.1).

use narrows_units::{Bytes, Duration, Ecn, Instant};
use narrows_wire::{Flags, TcpHeader};

use super::scoreboard::{AGAIN, FIN, RETRANS, SYN};
use super::{Context, Phase, Sender, Timer};
use crate::cc::CongestionControl;
use crate::receiver::Receiver;
use crate::startup::{FirstRtt, Startup};
use crate::{Config, Handshake, Io, Recovery, RtoRecovery, RttSampling};

/// New segments per ACK during fast recovery without SACK: an ACK that fills a hole may open the window by many
/// (RFC 3782, section 5, and ns-2).
const RECOVERY_BURST: u32 = 2;

impl Sender {
    /// Opens: our SYN (with an ACK, if the peer's was seen) is the first thing in the stream.
    pub(crate) fn send_syn<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        if cx.config.handshake == Handshake::SynIsPacketZero {
            self.window.cwnd = 1.0;
        }
        self.board.push(cx.now, 0, SYN);
        self.time_segment(cx.config);
        self.emit(cx, 0, 0, SYN);
        if cx.config.handshake == Handshake::ThreeWay {
            self.start_syn_timer(cx);
        } else {
            self.start_timer(cx);
        }
    }

    /// Answers a SYN where the answer is an acknowledgment like any other and no segment of ours to be repeated.
    pub(crate) fn answer_syn<I: Io>(&self, cx: &mut Context<'_, I>) {
        self.emit(cx, 0, 0, SYN);
    }

    /// The peer has not seen our SYN-ACK.
    pub(crate) fn repeat_syn<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        self.start.on_established(&mut self.window, FirstRtt::SynLost, cx.config);
        self.answer_syn(cx);
    }

    /// Sends whatever may leave now.
    #[inline]
    pub(crate) fn output<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        self.paced = false;
        if self.board.is_empty() && self.unsent() == 0 && !self.closing {
            self.limited = false;
        } else {
            self.output_all(cx);
        }
        if self.rack.is_some() {
            self.schedule_probe(cx);
        }
    }

    /// Sends what may leave of what there is.
    fn output_all<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        let recovering = self.phase == Phase::Recovery && cx.config.recovery != Recovery::Sack;
        let mut burst = if recovering { RECOVERY_BURST } else { u32::MAX };
        while burst > 0 && self.output_one(cx) {
            burst -= 1;
        }
    }

    /// Sends one segment, if one may leave.
    #[inline]
    fn output_one<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        let sack = cx.config.recovery == Recovery::Sack;
        let flight = self.in_flight(cx.config);
        let allowed = self.allowed(flight).saturating_add(self.inflation);
        let room = flight < allowed;
        if !room && self.unsent() > 0 && self.is_synchronized() && self.extra(cx.config) == 0 {
            // Neither old nor new data may leave: so most acknowledgments end.
            self.limited = true;
            return false;
        }
        if self.board.behind() > 0 {
            self.limited = !room;
            let room = flight < allowed.saturating_add(self.extra(cx.config));
            return room && self.may_leave(cx) && self.resend_next(cx);
        }
        if sack && self.board.pending() > 0 {
            self.limited = !room;
            return room && self.may_leave(cx) && self.resend_next(cx);
        }
        if self.output_new(cx, flight, allowed) {
            return true;
        }
        // With RACK a loss is told by time, not guessed.
        sack && room && self.phase == Phase::Recovery && self.fills_holes(cx.config) && self.resend_hole(cx)
    }

    /// The window in segments: where they are small, those out and as many as it has bytes for, or fewer if more are out.
    fn allowed(&self, flight: u32) -> u32 {
        let Some(segment) = self.start.segment(&self.window, self.mss) else {
            return self.window.cwnd as u32;
        };
        let window = (self.window.cwnd * f64::from(self.mss)) as u64;
        let (out, segment) = (self.board.bytes(), u64::from(segment));
        if out <= window {
            flight + ((window - out) / segment) as u32
        } else {
            flight.saturating_sub((out - window).div_ceil(segment) as u32)
        }
    }

    /// Whether pacing lets a segment go.
    fn may_leave<I: Io>(&mut self, cx: &Context<'_, I>) -> bool {
        self.paced = self.pace > cx.now;
        !self.paced
    }

    /// New data, within both windows.
    #[inline(always)]
    pub(super) fn output_new<I: Io>(&mut self, cx: &mut Context<'_, I>, flight: u32, allowed: u32) -> bool {
        if !self.is_synchronized() {
            return false;
        }
        let unsent = self.unsent();
        if unsent == 0 {
            self.limited = false;
            if self.closing && self.board.max() == self.end {
                // A FIN alone is not held back by cwnd: it is small, and nothing follows it.
                self.send_new(cx, 0, FIN);
                return true;
            }
            return false;
        }
        if self.board.is_empty() {
            self.restart_after_idle(cx);
        }
        let extra = self.extra(cx.config);
        let flight = if self.phase == Phase::Open && !cx.config.limited_transmit {
            self.board.outstanding()
        } else {
            flight
        };
        self.limited = flight >= allowed;
        if flight >= allowed.saturating_add(extra) {
            return false;
        }
        let usable = (self.board.una() + u64::from(self.peer_window)).saturating_sub(self.board.max());
        let segment = self.start.segment(&self.window, self.mss).unwrap_or(self.mss);
        let whole = unsent.min(u64::from(segment));
        let len = if usable >= whole {
            whole
        } else if !self.board.is_empty() {
            return false;
        } else if usable > 0 {
            usable
        } else {
            if self.timer == Timer::Off {
                self.start_persist_timer(cx);
            }
            return false;
        };
        if !self.is_released(cx) {
            return false;
        }
        // Beyond cwnd: what limited transmit allows (RFC 3042, section 2).
        if self.board.outstanding() >= allowed && self.phase == Phase::Open {
            self.limited_sent = self.limited_sent.saturating_add(1);
        }
        self.start.on_sent(cx.now, cx.config);
        let last = len == unsent && self.closing;
        self.send_new(cx, len as u16, if last { FIN } else { 0 });
        true
    }

    /// Segments beyond cwnd that limited transmit allows: one for each of the first two duplicate ACKs (RFC 3042, section 2).
    /// With SACK the pipe, from which SACKed segments are missing, allows them by itself.
    fn extra(&self, config: &Config) -> u32 {
        if !config.limited_transmit {
            return 0;
        }
        let dupacks = u32::from(self.dupacks);
        let counts = match self.phase {
            Phase::Open => config.recovery != Recovery::Sack,
            Phase::Loss => config.rto_recovery == RtoRecovery::GoBackN && dupacks < config.dupthresh,
            Phase::Recovery => false,
        };
        if counts { dupacks.min(2) } else { 0 }
    }

    /// Pacing or the start-up may hold new data back.
    fn is_released<I: Io>(&mut self, cx: &Context<'_, I>) -> bool {
        if let Some(at) = self.start.release_at(cx.now) {
            self.pace = self.pace.max(at);
        }
        self.may_leave(cx)
    }

    /// RFC 5681, section 4.1: after idling longer than an RTO cwnd says nothing of the path.
    fn restart_after_idle<I: Io>(&mut self, cx: &Context<'_, I>) {
        if cx.config.restart_after_idle
            && self.last_sent > Instant::ZERO
            && cx.now.since(self.last_sent) > self.rto.timeout(&cx.config.rto)
        {
            self.window.cwnd = self.window.cwnd.min(self.start.initial_window(cx.config));
        }
    }

    #[inline(always)]
    pub(super) fn send_new<I: Io>(&mut self, cx: &mut Context<'_, I>, len: u16, flags: u8) {
        let offset = self.board.max();
        self.board.push(cx.now, len, flags);
        self.time_segment(cx.config);
        self.prr_out += u32::from(self.phase == Phase::Recovery);
        cx.new += 1;
        self.emit(cx, offset, len, flags);
        if len > 0 {
            self.cwr = false;
            cx.counters.data_sent += 1;
        }
        self.on_sent(cx, len);
    }

    /// One segment at a time is timed (RFC 6298, section 3).
    fn time_segment(&mut self, config: &Config) {
        if self.timed == 0 && config.rtt_sampling == RttSampling::OneAtATime {
            self.timed = self.board.max();
        }
    }

    #[inline]
    fn on_sent<I: Io>(&mut self, cx: &Context<'_, I>, len: u16) {
        self.last_sent = cx.now;
        if self.timer != Timer::Retransmit {
            self.start_timer(cx);
        }
        if let Some(rate) = self.cc.pacing_rate(&self.window, cx.config) {
            self.pace = self.pace.max(cx.now) + rate.time_to_send(Bytes(u64::from(len)));
        } else if self.start.is_paced(&self.window) {
            self.pace = self.pace.max(cx.now) + self.interval(cx.config);
        }
    }

    /// From one paced segment to the next: SRTT / cwnd.
    fn interval(&self, config: &Config) -> Duration {
        let rtt = match self.srtt(config) {
            Duration::ZERO => config.start.rtt,
            srtt => srtt,
        };
        Duration::from_nanos((rtt.as_nanos() as f64 / self.window.cwnd) as u64)
    }

    /// The first segment again, whatever the window says.
    pub(super) fn resend_first<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        self.resend(cx, 0);
    }

    /// The next segment that counts as gone.
    pub(super) fn resend_next<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        let at = self.board.next_behind().or_else(|| self.board.next_pending());
        at.is_some_and(|at| self.resend(cx, at))
    }

    /// RACK has probes of its own for what the rules 3 and 4 of `NextSeg` are for; ns-2's Sack1 is older than they are.
    fn fills_holes(&self, config: &Config) -> bool {
        self.rack.is_none() && config.rto_recovery == RtoRecovery::Scoreboard
    }

    /// `NextSeg` (RFC 6675, section 4), rules 3 and 4: nothing is lost for sure and nothing new may be sent.
    #[inline(never)]
    fn resend_hole<I: Io>(&mut self, cx: &mut Context<'_, I>) -> bool {
        if let Some(at) = self.board.next_hole(self.high_rxt) {
            return self.may_leave(cx) && self.resend(cx, at);
        }
        if self.rescued {
            return false;
        }
        let Some(at) = self.board.last_hole().filter(|&at| !self.board.has(at, RETRANS)) else {
            return false;
        };
        if !self.may_leave(cx) {
            return false;
        }
        self.rescued = true;
        let high_rxt = self.high_rxt;
        let sent = self.resend(cx, at);
        self.high_rxt = high_rxt;
        sent
    }

    pub(super) fn resend<I: Io>(&mut self, cx: &mut Context<'_, I>, at: usize) -> bool {
        let Some((offset, seg)) = self.board.resend(at, cx.now) else { return false };
        let end = offset + u64::from(seg.len);
        self.high_rxt = self.high_rxt.max(end);
        if self.timed > offset && self.timed <= end + 1 {
            // Karn: what was sent twice gives no sample.
            self.timed = 0;
        }
        self.prr_out += u32::from(self.phase == Phase::Recovery);
        if let Some(rack) = &mut self.rack {
            rack.on_copy(cx.now, offset);
        }
        self.emit(cx, offset, seg.len, seg.flags);
        if seg.len > 0 {
            cx.counters.data_sent += 1;
            cx.counters.retransmitted += 1;
        } else if seg.flags & SYN != 0 && cx.config.handshake == Handshake::SynIsPacketZero {
            cx.counters.syn_retries += 1;
        }
        if self.is_synchronized() {
            self.on_sent(cx, seg.len);
        }
        true
    }

    /// Builds a segment and hands it out. Called from several places, and long: once is enough.
    #[inline(never)]
    fn emit<I: Io>(&self, cx: &mut Context<'_, I>, offset: u64, len: u16, flags: u8) {
        let first = flags & AGAIN == 0;
        // Retransmissions are not ECN-capable (RFC 3168, section 6.1.5).
        let capable = self.ecn && first && flags & (SYN | FIN) == 0;
        let mut marks = Flags::default();
        if first && len > 0 {
            if self.cwr {
                marks = marks.and(Flags::CWR);
            }
            if self.pushes(cx) {
                marks = marks.and(Flags::PSH);
            }
        }
        let Context { config, now, receiver, io, .. } = cx;
        io.compose(if capable { Ecn::Ect0 } else { Ecn::NotEct }, |tcp| {
            (tcp.seq, tcp.payload, tcp.flags) = (self.seq(offset), u32::from(len), marks);
            if flags & (SYN | FIN) != 0 {
                self.fill_ends(config, receiver, tcp, flags);
            }
            receiver.fill_ack(config, *now, tcp);
        });
        cx.sent = true;
    }

    /// Whether the segment just taken from the application's data bears PSH: the last of so many, and the last there is.
    fn pushes<I: Io>(&self, cx: &Context<'_, I>) -> bool {
        let every = cx.config.push_every;
        every != u32::MAX && (self.unsent() == 0 || cx.new.is_multiple_of(every))
    }

    /// What only a SYN or a FIN bears.
    #[cold]
    fn fill_ends(&self, config: &Config, receiver: &Receiver, tcp: &mut TcpHeader, flags: u8) {
        if flags & FIN != 0 {
            tcp.flags = tcp.flags.and(Flags::FIN);
        }
        if flags & SYN == 0 {
            return;
        }
        tcp.flags = tcp.flags.and(Flags::SYN);
        tcp.mss = Some(config.mss.min(u32::from(u16::MAX)) as u16);
        tcp.window_scale = Some(config.window_shift());
        if !config.ecn {
            return;
        }
        // Asked with ECE and CWR, granted with ECE (RFC 3168, section 6.1.1).
        if !receiver.started() {
            tcp.flags = tcp.flags.and(Flags::ECE).and(Flags::CWR);
        } else if self.ecn {
            tcp.flags = tcp.flags.and(Flags::ECE);
        }
    }

    /// An acknowledgment alone.
    pub(crate) fn emit_ack<I: Io>(&self, cx: &mut Context<'_, I>) {
        self.emit_bare(cx, self.board.max(), 0);
    }

    /// A byte the peer has already.
    pub(super) fn emit_probe<I: Io>(&self, cx: &mut Context<'_, I>) {
        self.emit_bare(cx, self.board.una().saturating_sub(1), 1);
    }

    fn emit_bare<I: Io>(&self, cx: &mut Context<'_, I>, offset: u64, payload: u32) {
        let Context { config, now, receiver, io, .. } = cx;
        io.compose(Ecn::NotEct, |tcp| {
            (tcp.seq, tcp.payload) = (self.seq(offset), payload);
            receiver.fill_ack(config, *now, tcp);
        });
        cx.sent = true;
    }
}
