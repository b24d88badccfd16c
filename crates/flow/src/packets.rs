//! Packets of a flow: what each is, and what it changes in the record.
//!
//! A segment at or below the highest sequence number seen is a retransmission unless
//! - it fills a hole ([`crate::sequence`]) and was overtaken on its way here;
//! - it is a keep-alive (RFC 9293, section 3.8.4): at most one byte, just below the next to be sent;
//! - it is a zero-window probe (section 3.8.6.1): at most one byte at the edge of a window the receiver has closed.

use narrows_units::{Instant, SeqNum};
use narrows_wire::{Flags, Header, TcpHeader};

use crate::TrackerConfig;
use crate::flags::FlowFlags;
use crate::flow::Flow;
use crate::phase::Phase;
use crate::ranges::MAX_SPAN;
use crate::sequence::Place;
use crate::times::Coarse;

/// Kind of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum PacketKind {
    /// Packet that opens a connection, sent for the first time or again.
    Syn,
    /// Packet that answers a SYN, sent for the first time or again.
    SynAck,
    /// Data of which at least one byte was not seen before.
    New,
    /// Data all of which was seen before, or whose first copy must have been lost before this box.
    Retransmission,
    /// Data that was overtaken on the way to this box.
    Reordered,
    /// Probe that asks whether the other end is still there.
    KeepAlive,
    /// Asks whether a closed window has opened.
    WindowProbe,
    /// A segment without data.
    PureAck,
    /// The first FIN, without data.
    Fin,
    /// A reset.
    Rst,
    /// A packet that is not TCP, or TCP whose header cannot be read.
    NotTcp,
}

impl PacketKind {
    /// Tells whether the packet brings data that was not seen before.
    #[must_use]
    pub const fn is_new_data(self) -> bool {
        matches!(self, Self::New | Self::Reordered)
    }

    /// Kind of a packet of which no record can be kept.
    pub(crate) fn alone(h: &Header) -> Self {
        let Some(tcp) = h.tcp.as_ref() else { return Self::NotTcp };
        let has = |f| tcp.flags.has(f);
        match () {
            () if has(Flags::RST) => Self::Rst,
            () if has(Flags::SYN.and(Flags::ACK)) => Self::SynAck,
            () if has(Flags::SYN) => Self::Syn,
            () if tcp.payload > 0 => Self::New,
            () if has(Flags::FIN) => Self::Fin,
            () => Self::PureAck,
        }
    }
}

impl Flow {
    /// Ends every epoch that is over.
    #[inline]
    pub(crate) fn advance_to(&mut self, now: Instant, config: &TrackerConfig) {
        // Most packets come within an epoch.
        if let Some(elapsed) = self.epoch.is_over(now) {
            self.end_epochs(elapsed, config);
        }
    }

    #[inline(never)]
    fn end_epochs(&mut self, elapsed: u64, config: &TrackerConfig) {
        self.sequence.forget_far();
        let data = self.flags.has(FlowFlags::DATA);
        self.epoch.end_all(elapsed, self.sequence.unrepaired(), data, config.ewma_shift);
    }

    /// Takes a packet of the queued direction that arrives; the record has been advanced to `now`.
    pub(crate) fn arrive(&mut self, now: Instant, h: &Header, config: &TrackerConfig) -> PacketKind {
        if !config.rate_of_departures {
            self.epoch.add_bytes(u32::try_from(h.len.get()).unwrap_or(u32::MAX));
        }
        self.seen = Coarse::at(now);
        let Some(tcp) = h.tcp.as_ref() else {
            return self.arrive_other(now);
        };
        self.flags.set(FlowFlags::TCP);
        if tcp.flags.has(Flags::RST) {
            // The sender's next number, or one that was acknowledged (RFC 9293, section 3.10.7.1).
            if self.sequence.is_plausible(tcp.seq, tcp.seq) {
                self.close();
            }
            return PacketKind::Rst;
        }
        if tcp.flags.has(Flags::SYN) {
            return self.arrive_syn(now, tcp, config);
        }
        if self.round_trip.is_timing_sender() && self.sequence.is_plausible(tcp.seq, tcp.seq_end()) {
            self.round_trip.time_answer(now, &mut self.epoch, config);
            self.round_trip.hear_echo(now, tcp);
        }
        self.see_twice();
        let kind = self.classify(now, tcp);
        if kind == PacketKind::Retransmission && self.flags.has(FlowFlags::OUT_OF_WINDOW) {
            // A sender that lives sends it no more: it says nothing of this one.
            return kind;
        }
        if matches!(
            kind,
            PacketKind::New | PacketKind::Fin | PacketKind::Reordered | PacketKind::Retransmission
        ) {
            self.data(now, tcp, kind, config);
        }
        if tcp.flags.has(Flags::FIN) && self.has_passed(tcp) {
            self.flags.set(FlowFlags::FIN);
            self.close_if_both_finished();
        }
        kind
    }

    fn arrive_other(&mut self, now: Instant) -> PacketKind {
        self.see_twice();
        if !self.flags.has(FlowFlags::TCP) {
            self.packets = self.packets.saturating_add(1);
            self.last_data = now;
        }
        PacketKind::NotTcp
    }

    /// Takes the second packet that is not a SYN as a proof of the flow: it is not a scan.
    fn see_twice(&mut self) {
        if self.flags.has(FlowFlags::ONCE) {
            self.flags.set(FlowFlags::PROVEN);
        }
        self.flags.set(FlowFlags::ONCE);
    }

    fn classify(&mut self, now: Instant, tcp: &TcpHeader) -> PacketKind {
        let (seq, end) = (tcp.seq, tcp.seq_end());
        let fin = tcp.flags.has(Flags::FIN);
        let fresh = if fin && tcp.payload == 0 { PacketKind::Fin } else { PacketKind::New };
        if !self.sequence.is_known() {
            // Picked up in its middle. What an ACK says of the next number is as good as data.
            self.sequence.begin(end);
            return if end == seq { PacketKind::PureAck } else { fresh };
        }
        if tcp.payload <= 1 && !fin {
            if self.is_window_probe(tcp) {
                self.sequence.extend(end);
                return PacketKind::WindowProbe;
            }
            if self.is_keep_alive(tcp) {
                return PacketKind::KeepAlive;
            }
        }
        if end == seq {
            return PacketKind::PureAck;
        }
        match self.sequence.take(now, seq, end, self.epoch.len()) {
            Place::New => fresh,
            Place::Overlapping => {
                self.flags.set(FlowFlags::OVERLAP);
                fresh
            }
            Place::Repeated => PacketKind::Retransmission,
            Place::Reordered => PacketKind::Reordered,
            Place::Doubted => {
                self.flags.set(FlowFlags::OUT_OF_WINDOW);
                fresh
            }
            Place::Bygone => {
                self.flags.set(FlowFlags::OUT_OF_WINDOW);
                PacketKind::Retransmission
            }
            Place::Elsewhere => {
                self.flags.set(FlowFlags::OUT_OF_WINDOW);
                self.round_trip.stop();
                fresh
            }
        }
    }

    /// Whether a segment has at most one byte at the edge (some stacks send that byte, some none and one number lower)
    /// of a closed window.
    fn is_window_probe(&self, tcp: &TcpHeader) -> bool {
        let closed = self.sequence.highest_ack().filter(|_| self.flags.has(FlowFlags::ZERO_WINDOW));
        let edge = closed.map(|ack| tcp.seq.distance_from(ack));
        edge == Some(-1) || (edge == Some(0) && tcp.payload == 1)
    }

    /// Whether a segment is just below the next number to be sent. With a byte of payload it could be the
    /// retransmission of a last segment of one byte: not if everything is acknowledged, and, where ACKs are not seen,
    /// not if the last segment was longer.
    fn is_keep_alive(&self, tcp: &TcpHeader) -> bool {
        let max = self.sequence.max();
        if tcp.seq + 1 != max || self.flags.has(FlowFlags::FIN) {
            return false;
        }
        let settled = match self.sequence.highest_ack() {
            Some(ack) => max.at_or_before(ack),
            None => !self.flags.has(FlowFlags::TAIL_BYTE),
        };
        tcp.payload == 0 || (settled && !self.sequence.is_unrepaired(tcp.seq, tcp.seq + 1))
    }

    /// Takes a segment with data.
    fn data(&mut self, now: Instant, tcp: &TcpHeader, kind: PacketKind, config: &TrackerConfig) {
        let retransmission = kind == PacketKind::Retransmission;
        match self.epoch.phase() {
            None => {
                self.flags.set(FlowFlags::DATA);
                let syn = self.flags.has(FlowFlags::SYN);
                self.round_trip.first_data(now, syn, &mut self.epoch, config);
                self.epoch.open(now);
                self.epoch.set_phase(Phase::SlowStart);
            }
            Some(phase) => {
                let gap = now.since(self.last_data);
                let timeout_proven = retransmission && self.sequence.is_redropped(tcp.seq, tcp.seq_end());
                self.epoch.ends_silence(now, gap, phase, retransmission);
                self.round_trip.later_data(now, gap, &mut self.epoch, config);
                self.epoch.set_phase(phase.after_data(retransmission, timeout_proven));
            }
        }
        self.last_data = now;
        self.packets = self.packets.saturating_add(1);
        if retransmission {
            self.epoch.add_retransmission();
            self.round_trip.spoil(tcp.seq);
            return;
        }
        self.epoch.add_new();
        if kind != PacketKind::Reordered && !self.flags.has(FlowFlags::OUT_OF_WINDOW) {
            self.flags.put(FlowFlags::TAIL_BYTE, tcp.payload == 1);
            self.round_trip.time_segment(now, tcp.seq_end(), self.sequence.is_whole());
        }
    }

    /// Takes a packet that the discipline dropped.
    pub(crate) fn drop_packet(&mut self, h: &Header) {
        self.epoch.add_drop();
        let Some(tcp) = h.tcp.as_ref() else { return };
        if tcp.flags.has(Flags::SYN) {
            self.round_trip.stop();
            return;
        }
        let (seq, end) = (tcp.seq, tcp.seq_end());
        let ours = self.sequence.max() - end <= MAX_SPAN && !self.flags.has(FlowFlags::CLOSED);
        let Some(phase) = self.epoch.phase().filter(|_| end != seq && ours) else { return };
        self.sequence.drop_segment(seq, end);
        self.round_trip.spoil(seq);
        self.epoch.set_phase(phase.after_drop());
    }

    /// Takes a packet that was sent on.
    pub(crate) fn depart(&mut self, now: Instant, h: &Header, config: &TrackerConfig) {
        if config.rate_of_departures {
            self.epoch.add_bytes(u32::try_from(h.len.get()).unwrap_or(u32::MAX));
        }
        let Some(tcp) = h.tcp.as_ref() else { return };
        let (seq, end) = (tcp.seq, tcp.seq_end());
        if seq == end {
            return;
        }
        self.round_trip.time_departure(now, end);
        self.sequence.depart(seq, end);
        if let Some(phase) = self.epoch.phase() {
            self.epoch.set_phase(phase.after_departure(self.sequence.unrepaired()));
        }
    }

    /// Takes a packet of the other direction; `waits` tells whether it has to wait here.
    pub(crate) fn on_reverse(&mut self, now: Instant, tcp: &TcpHeader, waits: bool, config: &TrackerConfig) {
        self.seen = Coarse::at(now);
        if tcp.flags.has(Flags::RST) {
            // One without ACK cannot be judged: what is acknowledged later shows that it was none.
            if !tcp.flags.has(Flags::ACK) || self.believes(tcp.ack) {
                self.close();
            }
            return;
        }
        if tcp.flags.has(Flags::SYN) {
            self.on_reverse_syn(now, tcp, config);
        }
        if !tcp.flags.has(Flags::ACK) || !self.believes(tcp.ack) {
            return;
        }
        if !tcp.flags.has(Flags::SYN) {
            if self.flags.has(FlowFlags::ONCE) {
                self.flags.set(FlowFlags::PROVEN);
            }
            self.round_trip.await_echo(now, tcp, waits);
        }
        self.on_reverse_ack(now, tcp, config);
        if tcp.flags.has(Flags::FIN) {
            self.flags.set(FlowFlags::REVERSE_FIN);
            self.close_if_both_finished();
        }
    }

    /// Whether an acknowledgment can be one of this flow's data, as far as is known. If it is of a segment that was
    /// doubted, the record goes on from there.
    fn believes(&mut self, ack: SeqNum) -> bool {
        if !self.sequence.is_known() || self.sequence.permits(ack) {
            return true;
        }
        let told = self.sequence.believe(ack);
        if told {
            self.round_trip.stop();
        }
        told
    }

    fn on_reverse_ack(&mut self, now: Instant, tcp: &TcpHeader, config: &TrackerConfig) {
        if self.sequence.highest_ack().is_some_and(|known| tcp.ack.before(known)) {
            return;
        }
        self.flags.put(FlowFlags::ZERO_WINDOW, tcp.window == 0);
        if self.sequence.acknowledge(tcp.ack) {
            if !self.flags.has(FlowFlags::FIN | FlowFlags::REVERSE_FIN) {
                self.flags.clear(FlowFlags::CLOSED);
            }
            self.round_trip.time_ack(now, tcp.ack, &mut self.epoch, config);
        }
    }

    fn close_if_both_finished(&mut self) {
        if self.flags.has(FlowFlags::FIN | FlowFlags::REVERSE_FIN) {
            self.flags.set(FlowFlags::CLOSED);
        }
    }

    /// Ends the connection at once, as a RST does.
    #[cold]
    fn close(&mut self) {
        self.flags.set(FlowFlags::CLOSED);
        self.round_trip.stop();
        self.sequence.forget_drops();
        self.epoch.reset();
    }

    /// Time at which the phase would change if nothing more came.
    pub(crate) fn quiet_at(&self) -> Instant {
        self.epoch.quiet_at()
    }

    /// Whether epochs without packets would change nothing that is counted.
    pub(crate) fn is_quiescent(&self) -> bool {
        self.epoch.is_quiescent(self.sequence.unrepaired())
    }

    /// Time until which the flow counts as active after data.
    pub(crate) fn active_until(&self, config: &TrackerConfig) -> Instant {
        self.last_data + config.active_for.max(self.epoch.len() * u64::from(config.active_epochs))
    }
}
