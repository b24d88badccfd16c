//! The sending half of a connection.
//!
//! Offsets: the SYN is stream offset 0, data begins at 1, the FIN follows the last byte. Windows count segments, as in
//! ns-2 and Linux, where RFC 5681 counts bytes: with full segments it is the same. Loss recovery is in `recovery.rs`, what
//! leaves and when in `output.rs`, the books of what is out in `scoreboard.rs`.

mod output;
mod rack;
mod ranges;
mod recovery;
mod scoreboard;

use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::{Flags, TcpHeader};

use crate::cc::{AckSample, AnyCc, CcEstimates, CongestionControl, DeliverySample, Window};
use crate::receiver::{Receiver, timestamp};
use crate::rto::Rto;
use crate::startup::{AnyStartup, FirstRtt, Startup};
use crate::{
    BackoffEnds, ByteCounting, Config, EndpointCounters, Handshake, Io, Recovery, RtoRecovery, RttSampling,
    TcpEvent,
};
use rack::Rack;
use scoreboard::{Delivered, Scoreboard};

/// What a call works with besides the sender itself.
pub(crate) struct Context<'a, I> {
    pub(crate) config: &'a Config,
    pub(crate) now: Instant,
    /// Every segment carries an acknowledgment.
    pub(crate) receiver: &'a mut Receiver,
    pub(crate) counters: &'a mut EndpointCounters,
    pub(crate) io: &'a mut I,
    /// Whether a segment left, and an acknowledgment with it.
    pub(crate) sent: bool,
    /// How many segments of new data left.
    pub(crate) new: u32,
}

/// What the sender makes of the ACKs it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No loss is known of.
    Open,
    /// Loss was inferred from ACKs; ends when what was out then is acknowledged.
    Recovery,
    /// The retransmission timer expired; ends likewise.
    Loss,
}

/// Why the timer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Off,
    /// Data is out.
    Retransmit,
    /// The peer's window is shut (RFC 9293, section 3.8.6.1).
    Persist,
}

/// What an end needs that has nothing to send comes first, up to the head of the scoreboard.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Sender {
    /// Offset after the application's last byte.
    end: u64,
    /// When the timer expires, and why it runs.
    deadline: Instant,
    /// With RACK and TLP only.
    rack: Option<Box<Rack>>,
    /// When the next segment may leave, if paced.
    pace: Instant,
    isn: SeqNum,
    /// The peer's window, bytes.
    peer_window: u32,
    mss: u16,
    dupacks: u16,
    peer_shift: u8,
    timer: Timer,
    phase: Phase,
    /// The application has closed: a FIN follows `end`.
    closing: bool,
    /// The window was what held the sender back last.
    limited: bool,
    /// A segment waits for `pace`.
    paced: bool,
    /// ECN is on for this connection.
    ecn: bool,
    /// The next new segment tells that the window was reduced.
    cwr: bool,
    /// The first partial ACK of this recovery was seen.
    partial: bool,
    /// The rescue retransmission of this recovery was done.
    rescued: bool,
    /// The peer has sent SACK blocks.
    peer_sacks: bool,
    /// Segments sent by limited transmit since the last new ACK.
    limited_sent: u8,
    board: Scoreboard,
    window: Window,
    cc: AnyCc,
    start: AnyStartup,
    rto: Rto,
    /// When the last segment with data left.
    last_sent: Instant,
    /// End of the one segment that is timed; 0 for none.
    timed: u64,
    /// snd_max when the last recovery began (`recover`, RFC 6582; `RecoveryPoint`, RFC 6675).
    recover: u64,
    /// Highest offset sent again in this recovery (`HighRxt`, RFC 6675).
    high_rxt: u64,
    /// Consecutive time-outs.
    retries: u32,
    /// What duplicate ACKs add to cwnd during fast recovery without SACK, segments (RFC 6582).
    inflation: u32,
    /// Proportional rate reduction (RFC 6937): delivered and sent since recovery began, and what was out then.
    prr_delivered: u32,
    prr_out: u32,
    recover_flight: u32,
    /// Echoes of congestion for data below were already answered.
    ecn_until: SeqNum,
}

/// What comes before the scoreboard, bytes.
#[cfg(test)]
pub(crate) const HEAD: usize = core::mem::offset_of!(Sender, board);

impl Sender {
    pub(crate) fn new(config: &Config, isn: SeqNum) -> Self {
        let start = AnyStartup::new(config);
        let cwnd = start.initial_window(config);
        let mut board = Scoreboard::default();
        board.start(0);
        Self {
            board,
            window: Window { cwnd, ssthresh: config.initial_ssthresh },
            cc: AnyCc::new(config),
            rack: (config.rack_tlp && config.recovery == Recovery::Sack).then(Box::default),
            start,
            rto: Rto::new(&config.rto),
            deadline: Instant::FAR_FUTURE,
            timer: Timer::Off,
            phase: Phase::Open,
            closing: false,
            limited: false,
            ecn: false,
            cwr: false,
            partial: false,
            rescued: false,
            peer_sacks: false,
            peer_shift: 0,
            retries: 0,
            isn,
            mss: config.mss.clamp(1, u32::from(u16::MAX)) as u16,
            peer_window: u32::from(u16::MAX),
            dupacks: 0,
            inflation: 0,
            limited_sent: 0,
            prr_delivered: 0,
            prr_out: 0,
            recover_flight: 0,
            end: 1,
            recover: 0,
            high_rxt: 0,
            ecn_until: isn,
            timed: 0,
            last_sent: Instant::ZERO,
            pace: Instant::ZERO,
            paced: false,
        }
    }

    /// The peer takes our SYN without acknowledging it.
    pub(crate) fn skip_own_syn(&mut self, config: &Config) {
        self.board.start(1);
        let known = config.start.rtt > Duration::ZERO;
        let first = if known { FirstRtt::Is(config.start.rtt) } else { FirstRtt::Unknown };
        self.start.on_established(&mut self.window, first, config);
    }

    /// The connection exists already: the SYN counts as acknowledged, the peer is set as we are.
    pub(crate) fn skip_handshake(&mut self, config: &Config) {
        self.skip_own_syn(config);
        self.peer_shift = config.window_shift();
        self.peer_window = config.receive_window;
        self.ecn = config.ecn;
    }

    /// What the peer's SYN says.
    pub(crate) fn learn(&mut self, config: &Config, syn: &TcpHeader) {
        if let Some(mss) = syn.mss {
            self.mss = self.mss.min(mss).max(1);
        }
        self.peer_shift = syn.window_scale.unwrap_or(0).min(14);
        self.peer_window = u32::from(syn.window);
        // A SYN asks with ECE and CWR, a SYN-ACK agrees with ECE (RFC 3168, section 6.1.1).
        self.ecn =
            config.ecn && syn.flags.has(Flags::ECE) && syn.flags.has(Flags::ACK) != syn.flags.has(Flags::CWR);
    }

    /// The application has `bytes` more.
    pub(crate) const fn write(&mut self, bytes: u64) {
        self.end = self.end.saturating_add(bytes);
    }

    pub(crate) const fn close(&mut self) {
        self.closing = true;
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.closing
    }
    /// Our SYN was acknowledged.
    pub(crate) const fn is_synchronized(&self) -> bool {
        self.board.una() > 0
    }
    /// Our FIN was acknowledged.
    pub(crate) fn fin_acknowledged(&self) -> bool {
        self.fin_sent() && self.board.is_empty()
    }
    /// The FIN follows the last byte.
    const fn fin_sent(&self) -> bool {
        self.board.max() > self.end
    }
    pub(crate) const fn window(&self) -> Window {
        self.window
    }
    pub(crate) fn cc_estimates(&self) -> Option<CcEstimates> {
        self.cc.estimates()
    }
    pub(crate) fn srtt(&self, config: &Config) -> Duration {
        self.rto.srtt(&config.rto)
    }
    pub(crate) const fn backoff(&self) -> u32 {
        self.rto.factor()
    }
    /// Bytes sent and not acknowledged, a SYN or FIN counted as one.
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
    pub(crate) fn in_flight(&self, config: &Config) -> u32 {
        if config.recovery == Recovery::Sack { self.board.pipe() } else { self.board.outstanding() }
    }
    pub(crate) const fn deadline(&self) -> Instant {
        self.deadline
    }
    /// When [`Sender::on_timer`] or [`Sender::output`] is worth calling.
    pub(crate) fn next_wake(&self) -> Instant {
        let deadline = self.deadline.min(self.rack_wake());
        if self.paced { deadline.min(self.pace) } else { deadline }
    }
    pub(crate) const fn isn(&self) -> SeqNum {
        self.isn
    }

    /// The sequence number of a stream offset.
    fn seq(&self, offset: u64) -> SeqNum {
        self.isn + offset as u32
    }

    /// The stream offset an acknowledgment number stands for: the one nearest to snd_una; `None` below the SYN.
    fn offset_of(&self, seq: SeqNum) -> Option<u64> {
        let una = self.board.una();
        una.checked_add_signed(i64::from(seq.distance_from(self.seq(una))))
    }

    /// Whether an acknowledgment number is for something that was sent.
    pub(crate) fn is_acceptable(&self, ack: SeqNum) -> bool {
        self.offset_of(ack).is_some_and(|ack| ack <= self.board.max())
    }

    /// Takes the acknowledgment in `tcp`. What may leave because of it is left to [`Sender::output`].
    #[inline]
    pub(crate) fn on_ack<I: Io>(&mut self, cx: &mut Context<'_, I>, tcp: &TcpHeader) {
        let Some(ack) = self.offset_of(tcp.ack).filter(|&ack| ack <= self.board.max()) else { return };
        if ack < self.board.una() {
            return;
        }
        if self.board.is_empty() && tcp.sack.as_slice().is_empty() && self.rack.is_none() {
            // Nothing is out: what data bears that comes to an end which has none to send.
            self.take_window(cx, tcp);
        } else {
            self.take_ack(cx, tcp, ack);
        }
        if self.is_echo(tcp) {
            self.on_echo(cx);
        }
    }

    /// Whether it tells of congestion (RFC 3168, section 6.1.2).
    fn is_echo(&self, tcp: &TcpHeader) -> bool {
        self.ecn && tcp.flags.has(Flags::ECE) && !tcp.flags.has(Flags::SYN)
    }

    /// An acknowledgment of all below `ack` came while something is out.
    fn take_ack<I: Io>(&mut self, cx: &mut Context<'_, I>, tcp: &TcpHeader, ack: u64) {
        let una = self.board.una();
        let echo = self.is_echo(tcp);
        let mut told = Delivered { by_time: self.rack.is_some(), ..Delivered::default() };
        let flight = self.in_flight(cx.config);
        if ack > una {
            let timed = self.take_timed(ack);
            self.board.acknowledge(ack, &mut told);
            told.timed = timed;
        }
        if !tcp.sack.as_slice().is_empty() && self.listens_to_sack(cx.config) {
            for &(left, right) in tcp.sack.as_slice() {
                if let (Some(left), Some(right)) = (self.offset_of(left), self.offset_of(right)) {
                    self.board.sack(left, right, &mut told);
                }
            }
        }
        if self.rack.is_some() {
            self.rack_on_ack(cx, tcp, una, &told);
        } else if self.phase != Phase::Open || self.may_recover(cx.config) {
            self.board.mark_lost(cx.config.dupthresh, u32::from(self.mss));
        }
        let duplicate = ack == una && self.is_duplicate(cx.config, tcp, &told);
        self.take_window(cx, tcp);
        if ack > una {
            if una > 0 || cx.config.handshake == Handshake::SynIsPacketZero {
                self.on_new_ack(cx, tcp, ack, flight, echo, &told);
                if una == 0 {
                    self.on_established(cx, &told);
                    // Packet 0 opened the window like any other; the initial window is for what follows.
                    self.window.cwnd = self.window.cwnd.max(self.start.initial_window(cx.config));
                }
            } else {
                self.on_syn_ack(cx, tcp, &told);
            }
            let bytes = ack.min(self.end).saturating_sub(una.max(1));
            if bytes > 0 {
                cx.io.event(TcpEvent::Acked { bytes });
            }
        } else {
            if told.segments > 0 {
                self.tell_delivery(cx, None, &told);
            }
            if duplicate {
                self.on_duplicate(cx);
            }
        }
        if cx.config.recovery == Recovery::Sack {
            self.on_delivered(cx, &told);
        }
    }

    /// After going back only the cumulative ACK counts, until what was out then is acknowledged.
    fn listens_to_sack(&self, config: &Config) -> bool {
        config.recovery == Recovery::Sack
            && (self.phase != Phase::Loss || config.rto_recovery == RtoRecovery::Scoreboard)
    }

    /// RFC 5681, section 2; with SACK one that tells of new data (RFC 6675, section 2).
    fn is_duplicate(&mut self, config: &Config, tcp: &TcpHeader, told: &Delivered) -> bool {
        if config.recovery == Recovery::Sack {
            self.peer_sacks |= !tcp.sack.as_slice().is_empty();
            if self.listens_to_sack(config) && self.peer_sacks {
                return told.segments > 0;
            }
            if self.peer_sacks && tcp.sack.as_slice().is_empty() {
                return false;
            }
        }
        // The window of a SYN is never scaled, so the first one after it may seem to be another.
        let same = self.scaled(tcp) == self.peer_window || self.board.una() <= 1;
        !self.board.is_empty() && tcp.is_pure_ack() && same
    }

    fn scaled(&self, tcp: &TcpHeader) -> u32 {
        if tcp.flags.has(Flags::SYN) {
            u32::from(tcp.window)
        } else {
            u32::from(tcp.window) << self.peer_shift
        }
    }

    /// The peer's window; if it opens, the persist timer has done its work.
    #[inline]
    fn take_window<I: Io>(&mut self, cx: &Context<'_, I>, tcp: &TcpHeader) {
        self.peer_window = self.scaled(tcp);
        if self.timer == Timer::Persist && self.peer_window > 0 {
            self.rto.end_back_off();
            self.retries = 0;
            self.stop_timer();
            if !self.board.is_empty() {
                self.start_timer(cx);
            }
        }
    }

    fn on_new_ack<I: Io>(
        &mut self,
        cx: &mut Context<'_, I>,
        tcp: &TcpHeader,
        ack: u64,
        flight: u32,
        echo: bool,
        told: &Delivered,
    ) {
        let rtt = self.take_rtt(cx, tcp, told);
        if ack > 1 {
            // A packet 0 is smaller than what follows, so its round trip is shorter.
            self.tell_delivery(cx, rtt.filter(|_| sent_once(cx.config, told).is_some()), told);
        }
        if rtt.is_some() || cx.config.rto.backoff_ends == BackoffEnds::NewAck {
            self.rto.end_back_off();
        }
        self.retries = 0;
        let impatient = match cx.config.recovery {
            Recovery::Sack => cx.config.impatient && cx.config.rto_recovery == RtoRecovery::GoBackN,
            _ => cx.config.impatient,
        };
        let partial = self.phase == Phase::Recovery && ack < self.recover;
        if self.board.is_empty() {
            self.stop_timer();
        } else if !(partial && self.partial && impatient) {
            self.start_timer(cx);
        }
        let recovered = self.phase == Phase::Recovery;
        if recovered && !self.recovery_ack(cx, ack, told) {
            return;
        }
        if self.phase == Phase::Loss && ack >= self.recover {
            self.phase = Phase::Open;
        }
        self.dupacks = 0;
        self.limited_sent = 0;
        if !(echo || recovered && cx.config.recovery == Recovery::Sack) {
            self.grow(cx, flight, rtt, told);
        }
    }

    /// Our SYN was acknowledged, and is no data.
    fn on_syn_ack<I: Io>(&mut self, cx: &mut Context<'_, I>, tcp: &TcpHeader, told: &Delivered) {
        let rtt = self.take_rtt(cx, tcp, told);
        if self.retries > 0 {
            // After a lost SYN the initial window is one segment (RFC 5681, section 3.1).
            self.window.cwnd = 1.0;
            if rtt.is_none() {
                self.rto.after_syn_loss();
            }
        }
        self.retries = 0;
        self.stop_timer();
        self.on_established(cx, told);
    }

    /// What the start-up learns when our SYN, and nothing else, was acknowledged.
    fn on_established<I: Io>(&mut self, cx: &Context<'_, I>, told: &Delivered) {
        let first = told.sent.map_or(FirstRtt::SynLost, |sent| FirstRtt::Is(cx.now.since(sent)));
        self.start.on_established(&mut self.window, first, cx.config);
    }

    /// When the timed segment left, if `ack` covers it; then nothing is timed any more.
    fn take_timed(&mut self, ack: u64) -> Option<Instant> {
        if self.timed == 0 || ack < self.timed {
            return None;
        }
        let end = core::mem::take(&mut self.timed);
        self.board.sent_before(end)
    }

    /// A sample of the round-trip time, if this ACK gives one.
    fn take_rtt<I: Io>(
        &mut self,
        cx: &mut Context<'_, I>,
        tcp: &TcpHeader,
        told: &Delivered,
    ) -> Option<Duration> {
        let rtt = match (sent_once(cx.config, told), tcp.timestamps) {
            (Some(sent), _) => cx.now.since(sent),
            // Also of what was sent twice: the echo says which copy it was (RFC 7323, section 4).
            (None, Some((_, echoed))) if cx.config.timestamps => {
                let ms = timestamp(cx.now).wrapping_sub(echoed);
                if ms > i32::MAX as u32 {
                    return None;
                }
                Duration::from_millis(u64::from(ms.max(1)))
            }
            _ => return None,
        };
        self.rto.sample(&cx.config.rto, cx.now, rtt);
        cx.io.event(TcpEvent::RttSample(rtt));
        Some(rtt)
    }

    /// Congestion control learns of what was acknowledged.
    fn tell_delivery<I: Io>(&mut self, cx: &Context<'_, I>, rtt: Option<Duration>, told: &Delivered) {
        let (open, rtt) = (self.phase == Phase::Open, rtt.map(|rtt| rtt.max(Duration::from_nanos(1))));
        let delivery = DeliverySample { now: cx.now, segments: told.segments, rtt, open };
        self.cc.on_delivery(&mut self.window, cx.config, &delivery);
    }

    /// The window grows by an ACK of new data.
    fn grow<I: Io>(&mut self, cx: &Context<'_, I>, flight: u32, rtt: Option<Duration>, told: &Delivered) {
        let slow_start = self.window.cwnd < self.window.ssthresh;
        // In slow start half the window in use is enough: the next round would use it (RFC 7661, section 4.1 discusses why).
        let window_limited = self.limited || slow_start && self.window.cwnd < 2.0 * f64::from(flight);
        if cx.config.grow_if_used && !window_limited {
            return;
        }
        let credit = match cx.config.byte_counting {
            ByteCounting::PerAck => 1.0,
            ByteCounting::Abc { limit } => {
                let segments = told.bytes as f64 / f64::from(self.mss);
                if slow_start { segments.min(f64::from(limit)) } else { segments }
            }
        };
        let sample = AckSample {
            now: cx.now,
            acked: told.bytes,
            credit,
            by_bytes: cx.config.byte_counting != ByteCounting::PerAck,
            rtt,
            srtt: self.srtt(cx.config),
            in_flight: flight,
            window_limited,
        };
        if slow_start {
            self.start.on_ack(&mut self.window, &sample, cx.config);
        } else {
            self.cc.on_ack(&mut self.window, cx.config, &sample);
        }
        self.start.after_ack(&mut self.window, &sample, cx.config);
    }

    fn start_timer<I: Io>(&mut self, cx: &Context<'_, I>) {
        self.timer = Timer::Retransmit;
        self.deadline = cx.now + self.rto.timeout(&cx.config.rto);
    }

    fn stop_timer(&mut self) {
        self.timer = Timer::Off;
        self.deadline = Instant::FAR_FUTURE;
    }
}

/// When the segment left whose acknowledgment gives an RTT sample: one that was sent only once (Karn).
fn sent_once(config: &Config, told: &Delivered) -> Option<Instant> {
    match (config.rtt_sampling, config.timestamps) {
        (RttSampling::OneAtATime, false) => told.timed,
        // Beside a repaired hole lies data that has waited for the repair: its age is no round trip.
        _ => told.sent.filter(|_| !told.again),
    }
}
