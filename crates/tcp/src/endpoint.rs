//! One end of a TCP connection: the handshake, and a sender and a receiver behind one interface.
//!
//! RFC 9293, section 3.3.2 has eleven states. Six are enough here, because the two halves know by themselves which
//! FINs were sent, acknowledged and received. TIME-WAIT lasts as long as the end does: a FIN that comes again is
//! acknowledged again.

mod figures;

use narrows_units::{Ecn, Instant, SeqNum};
use narrows_wire::{Flags, TcpHeader};

use crate::cc::OwnControl;
use crate::receiver::{AckTime, Receiver};
use crate::sender::{Context, Sender, Timer};
use crate::{Config, Handshake, Io, Segment, TcpEvent};

/// Counts of an end host since the end host was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Segments sent with data, retransmissions included.
    pub data_sent: u64,
    /// Retransmitted segments.
    pub retransmitted: u32,
    /// Time-outs: expiries of the retransmission timer for data.
    pub timeouts: u32,
    /// Entries into fast recovery.
    pub fast_retransmits: u32,
    /// Retransmissions of a SYN or SYN-ACK.
    pub syn_retries: u32,
    /// The largest factor of the back-off so far.
    pub max_backoff: u32,
}

/// Counts of an end host as an endpoint keeps them, in less memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) data_sent: u64,
    pub(crate) retransmitted: u32,
    pub(crate) timeouts: u32,
    pub(crate) fast_retransmits: u32,
    /// Retries of SYNs. The pauses between retries double, so the count never overflows.
    syn_retries: u16,
    /// The bits of the factor.
    backoff_bits: u8,
}

impl Counts {
    pub(crate) const fn count_syn_retry(&mut self) {
        self.syn_retries = self.syn_retries.saturating_add(1);
    }

    /// Notes that the timer has backed off to `factor`: a power of two, or all bits are set.
    #[inline]
    pub(crate) fn note_backoff(&mut self, factor: u32) {
        let bits = if factor == u32::MAX { 33 } else { (u32::BITS - factor.leading_zeros()) as u8 };
        self.backoff_bits = self.backoff_bits.max(bits);
    }

    const fn told(&self) -> EndpointCounters {
        let Self { data_sent, retransmitted, timeouts, fast_retransmits, syn_retries, backoff_bits } = *self;
        let max_backoff = match backoff_bits {
            0 => 0,
            bits @ 1..=32 => 1 << (bits - 1),
            _ => u32::MAX,
        };
        let syn_retries = syn_retries as u32;
        EndpointCounters { data_sent, retransmitted, timeouts, fast_retransmits, syn_retries, max_backoff }
    }
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Neither side has opened the connection.
    Idle,
    /// Our SYN was sent.
    SynSent,
    /// Our SYN-ACK was sent.
    SynReceived,
    /// Data may flow.
    Established,
    /// The FINs of both ends were sent and acknowledged (TIME-WAIT).
    Closed,
    /// As `Closed`, and the peer was the first to close: nothing is left to wait for (LAST-ACK has ended).
    Gone,
    /// The connection was given up or reset.
    Failed,
}

/// FIN of the peer: awaited, or come in order, before ours was sent or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerFin {
    /// No FIN has come.
    Awaited,
    /// The FIN came before ours was sent.
    First,
    /// The FIN came after ours was sent.
    Second,
}

/// One end of a connection. Every call takes the settings, because thousands of ends share them.
///
/// With [`Handshake::None`], both ends must be made with the same `isn`, and each assumes that the other has its own
/// settings.
///
/// Fields are in the order in which they are needed. An end that only receives data uses the first 128 bytes.
#[derive(Debug)]
#[repr(C)]
pub struct Endpoint {
    state: State,
    /// FIN of the peer, and which of the two was first.
    peer_fin: PeerFin,
    /// The peer's SYN, ns-2's packet 0, is not acknowledged yet.
    owes_answer: bool,
    /// Bytes given to the application.
    delivered: u64,
    receiver: Receiver,
    sender: Sender,
    counters: Counts,
}

impl Endpoint {
    /// Makes an end host that has done nothing yet; `isn` is the end host's first sequence number.
    #[must_use]
    pub fn new(config: &Config, isn: SeqNum) -> Self {
        Self {
            sender: Sender::new(config, isn),
            receiver: Receiver::new(config),
            counters: Counts::default(),
            delivered: 0,
            state: State::Idle,
            peer_fin: PeerFin::Awaited,
            owes_answer: false,
        }
    }

    /// As [`Endpoint::new`], with a congestion control of the caller's own: `config` has
    /// [`CcKind::Own`](crate::CcKind::Own), and whatever its number means is the caller's to know.
    #[must_use]
    pub fn with_control(config: &Config, isn: SeqNum, control: OwnControl) -> Self {
        let mut end = Self::new(config, isn);
        end.sender.bring(control);
        end
    }

    /// Opens actively: sends a SYN, or with [`crate::Handshake::None`] is established at once.
    pub fn open(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        if self.state != State::Idle {
            return;
        }
        if config.handshake == Handshake::None {
            self.assume_established(config, now, io);
        } else {
            self.state = State::SynSent;
            self.with(config, now, io, |sender, cx| sender.send_syn(cx));
        }
    }

    /// Appends `bytes` of the application's to the stream; `u64::MAX` for a source that never ends.
    pub fn write(&mut self, config: &Config, now: Instant, bytes: u64, io: &mut impl Io) {
        if !self.sender.is_closing() {
            self.sender.write(bytes);
            self.settle_packet_zero(config, now, io);
            self.output(config, now, io);
        }
    }

    /// The application will write no more: a FIN follows the last byte.
    pub fn close(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        self.sender.close();
        self.settle_packet_zero(config, now, io);
        self.output(config, now, io);
    }

    /// Gives the connection up: the peer hears of it by a RST (RFC 9293, section 3.10.5). So does Linux when an
    /// application closes and leaves data unread (RFC 2525, section 2.17).
    pub fn abort(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        if matches!(self.state, State::SynReceived | State::Established) {
            self.with(config, now, io, |sender, cx| sender.emit_reset(cx));
        }
        if !matches!(self.state, State::Failed | State::Closed | State::Gone) {
            self.fail(io);
        }
    }

    /// Takes a segment of the connection, with `ecn` in the segment's IP header. An idle end takes a SYN as a passive
    /// open.
    #[inline]
    pub fn receive(&mut self, config: &Config, now: Instant, tcp: &TcpHeader, ecn: Ecn, io: &mut impl Io) {
        match self.state {
            State::Established | State::Closed => self.on_segment(config, now, tcp, ecn, io),
            _ => self.on_handshake(config, now, tcp, ecn, io),
        }
    }

    /// Does what is due at `now`, if anything is.
    pub fn wake(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        if matches!(self.state, State::Failed | State::Gone) {
            return;
        }
        if self.sender.is_due(Timer::Reorder, now) || self.sender.is_due(Timer::Probe, now) {
            self.with(config, now, io, |sender, cx| sender.on_rack_timer(cx));
        }
        if self.sender.is_due(Timer::Retransmit, now)
            && !self.with(config, now, io, |sender, cx| sender.on_retransmit_timer(cx)).0
        {
            self.fail(io);
            return;
        }
        // A segment that pacing held back leaves here.
        let sent = self.output(config, now, io);
        if self.receiver.is_due(now) {
            self.settle_packet_zero(config, now, io);
        }
        if !sent && self.receiver.is_due(now) {
            self.with(config, now, io, |sender, cx| sender.emit_ack(cx));
        }
    }

    /// When to call [`Endpoint::wake`]; `None` if only a segment or the application can change anything.
    #[must_use]
    #[inline]
    pub fn next_wake(&self) -> Option<Instant> {
        let at = self.wake_at();
        (at != Instant::FAR_FUTURE).then_some(at)
    }

    /// When to call [`Endpoint::wake`]; [`Instant::FAR_FUTURE`] if only a segment or the application can change
    /// anything.
    #[must_use]
    #[inline]
    pub fn wake_at(&self) -> Instant {
        if matches!(self.state, State::Failed | State::Gone) {
            return Instant::FAR_FUTURE;
        }
        self.sender.next_wake().min(self.receiver.next_wake())
    }

    /// Runs `work` on the sender and also returns whether a segment has left.
    fn with<I: Io, T>(
        &mut self,
        config: &Config,
        now: Instant,
        io: &mut I,
        work: impl FnOnce(&mut Sender, &mut Context<'_, I>) -> T,
    ) -> (T, bool) {
        let receiver = &mut self.receiver;
        let mut cx =
            Context { config, now, receiver, counters: &mut self.counters, io, sent: false, new_segments: 0 };
        let result = work(&mut self.sender, &mut cx);
        (result, cx.sent)
    }

    fn output(&mut self, config: &Config, now: Instant, io: &mut impl Io) -> bool {
        match self.state {
            State::Idle | State::Failed | State::Gone => false,
            _ => self.with(config, now, io, |sender, cx| sender.output(cx)).1,
        }
    }

    fn assume_established(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        self.sender.skip_handshake(config);
        self.receiver.start(self.sender.isn());
        self.state = State::Established;
        io.event(TcpEvent::Established);
        self.output(config, now, io);
    }

    /// A segment before the connection is established.
    #[cold]
    fn on_handshake(&mut self, config: &Config, now: Instant, tcp: &TcpHeader, ecn: Ecn, io: &mut impl Io) {
        let flags = tcp.flags;
        match self.state {
            State::Idle if config.handshake == Handshake::None => {
                self.assume_established(config, now, io);
                self.on_segment(config, now, tcp, ecn, io);
            }
            State::Idle if flags.has(Flags::SYN) && !flags.has(Flags::ACK) && !flags.has(Flags::RST) => {
                self.on_first_syn(config, now, tcp, ecn, io);
            }
            State::Idle | State::Failed | State::Gone => refuse(tcp, io),
            State::SynSent => self.on_answer(config, now, tcp, ecn, io),
            _ => self.on_third(config, now, tcp, ecn, io),
        }
    }

    /// Passive open.
    fn on_first_syn(&mut self, config: &Config, now: Instant, tcp: &TcpHeader, ecn: Ecn, io: &mut impl Io) {
        self.take_syn(config, now, tcp, ecn);
        if config.handshake == Handshake::ThreeWay {
            self.state = State::SynReceived;
            self.with(config, now, io, |sender, cx| sender.send_syn(cx));
        } else {
            self.sender.skip_own_syn(config);
            self.state = State::Established;
            self.owes_answer = true;
            io.event(TcpEvent::Established);
            let silent = self.sender.unsent() == 0 && !self.sender.is_closing();
            match config.delayed_ack.filter(|d| d.quick == 0 && silent) {
                // As ns-2's DelAck sink.
                Some(delayed) => self.receiver.delay_until(now + delayed.timeout),
                None => self.settle_packet_zero(config, now, io),
            }
            self.output(config, now, io);
        }
    }

    /// Acknowledges packet 0 if that is due: whatever else this end sends comes after it.
    fn settle_packet_zero(&mut self, config: &Config, now: Instant, io: &mut impl Io) {
        if core::mem::take(&mut self.owes_answer) {
            self.with(config, now, io, |sender, cx| sender.answer_syn(cx));
        }
    }

    fn take_syn(&mut self, config: &Config, now: Instant, tcp: &TcpHeader, ecn: Ecn) {
        self.receiver.start(tcp.seq);
        self.receiver.on_data(config, now, tcp, ecn);
        if tcp.window_scale.is_none() {
            self.receiver.leave_unscaled(config);
        }
        self.sender.on_peer_syn(config, tcp);
    }

    /// A segment came in state SYN-SENT (RFC 9293, section 3.10.7.3).
    fn on_answer(&mut self, config: &Config, now: Instant, tcp: &TcpHeader, ecn: Ecn, io: &mut impl Io) {
        let acknowledges = tcp.flags.has(Flags::ACK);
        if acknowledges && tcp.ack != self.sender.isn() + 1 {
            return;
        }
        if tcp.flags.has(Flags::RST) {
            if acknowledges {
                self.fail(io);
            }
            return;
        }
        if !tcp.flags.has(Flags::SYN) {
            return;
        }
        self.take_syn(config, now, tcp, ecn);
        if acknowledges {
            self.with(config, now, io, |sender, cx| sender.on_ack(cx, tcp));
            self.state = State::Established;
            io.event(TcpEvent::Established);
            if config.handshake == Handshake::ThreeWay {
                // As in Linux, the third segment carries no data; data follows.
                self.with(config, now, io, |sender, cx| sender.emit_ack(cx));
            }
            self.output(config, now, io);
        } else {
            // A SYN without an ACK: the two ends have opened at the same time.
            self.state = State::SynReceived;
            self.with(config, now, io, |sender, cx| sender.answer_syn(cx));
        }
    }

    /// A segment came in state SYN-RECEIVED.
    fn on_third(&mut self, config: &Config, now: Instant, tcp: &TcpHeader, ecn: Ecn, io: &mut impl Io) {
        if tcp.flags.has(Flags::RST) {
            self.fail(io);
        } else if !tcp.flags.has(Flags::ACK) {
            if tcp.flags.has(Flags::SYN) && tcp.seq + 1 == self.receiver.rcv_nxt() {
                self.with(config, now, io, |sender, cx| sender.repeat_syn(cx));
            }
        } else if tcp.ack != self.sender.isn() && self.sender.is_acceptable(tcp.ack) {
            self.with(config, now, io, |sender, cx| sender.on_ack(cx, tcp));
            self.state = State::Established;
            io.event(TcpEvent::Established);
            self.on_segment(config, now, tcp, ecn, io);
        }
    }

    /// Takes a segment of an established connection (RFC 9293, section 3.10.7.4).
    #[inline]
    fn on_segment(&mut self, config: &Config, now: Instant, tcp: &TcpHeader, ecn: Ecn, io: &mut impl Io) {
        if tcp.flags.0 & (Flags::RST.0 | Flags::SYN.0) != 0 {
            return self.on_control(config, now, tcp, io);
        }
        if self.sender.is_beyond(tcp) {
            // Nothing in it counts. RFC 9293 answers with an ACK, Linux's `tcp_ack` with nothing.
            return;
        }
        let receiver = &mut self.receiver;
        let mut cx =
            Context { config, now, receiver, counters: &mut self.counters, io, sent: false, new_segments: 0 };
        if tcp.flags.has(Flags::ACK) {
            if config.timestamps {
                // Data that this ACK lets go echoes its timestamp, so the timestamp is noted first.
                cx.receiver.note_timestamp(tcp);
            }
            self.sender.on_ack(&mut cx, tcp);
        }
        let mut arrival = cx.receiver.on_data(config, now, tcp, ecn);
        if arrival.delivered > 0 {
            self.delivered += arrival.delivered;
            cx.io.event(TcpEvent::Delivered { bytes: arrival.delivered });
        }
        if arrival.fin && self.peer_fin == PeerFin::Awaited {
            self.peer_fin = if self.sender.fin_sent() { PeerFin::Second } else { PeerFin::First };
            cx.io.event(TcpEvent::PeerClosed);
            if self.peer_fin == PeerFin::Second {
                // The peer waits for nothing else.
                arrival.ack = AckTime::Now;
            }
        }
        self.sender.output(&mut cx);
        if arrival.ack == AckTime::Now && !cx.sent {
            self.sender.emit_ack(&mut cx);
        }
        if self.peer_fin != PeerFin::Awaited
            && self.state == State::Established
            && self.sender.fin_acknowledged()
        {
            self.state = if self.peer_fin == PeerFin::First { State::Gone } else { State::Closed };
            cx.io.event(TcpEvent::Closed);
        }
    }

    /// A RST or SYN came on an established connection.
    fn on_control(&mut self, config: &Config, now: Instant, tcp: &TcpHeader, io: &mut impl Io) {
        if tcp.flags.has(Flags::RST) {
            // A RST outside the window is not the peer's (RFC 9293, section 3.10.7.4, first).
            let ahead = tcp.seq - self.receiver.rcv_nxt();
            if self.state == State::Established && ahead <= config.receive_window {
                self.fail(io);
            }
        } else if config.handshake == Handshake::SynIsPacketZero {
            // Our answer was lost. A repeated answer of the peer's needs nothing.
            if !tcp.flags.has(Flags::ACK) {
                self.owes_answer = true;
                self.settle_packet_zero(config, now, io);
            }
        } else {
            // The third segment was lost, or this SYN is an old one. Our ACK settles it.
            self.with(config, now, io, |sender, cx| sender.emit_ack(cx));
        }
    }

    fn fail(&mut self, io: &mut impl Io) {
        self.state = State::Failed;
        io.event(TcpEvent::Failed);
    }
}

/// Answers a segment for a connection that does not exist with a RST (RFC 9293, section 3.10.7.1).
fn refuse(tcp: &TcpHeader, io: &mut impl Io) {
    if tcp.flags.has(Flags::RST) {
        return;
    }
    let mut answer = TcpHeader { flags: Flags::RST, ..TcpHeader::default() };
    if tcp.flags.has(Flags::ACK) {
        answer.seq = tcp.ack;
    } else {
        answer.ack = tcp.seq_end();
        answer.flags = Flags::RST.and(Flags::ACK);
    }
    io.transmit(&Segment { tcp: answer, ecn: Ecn::NotEct });
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;
    use crate::sender::HEAD;

    #[test]
    fn an_end_stays_small() {
        // Two ends are seven cache lines.
        assert!(size_of::<Endpoint>() <= 224, "{}", size_of::<Endpoint>());
        assert_eq!(offset_of!(Endpoint, sender) + HEAD, 128);
    }
}
