//! What one segment is: new, a retransmission, late, a keep-alive, a probe - and what it changes in the record.
//!
//! A segment at or below the highest sequence number seen is a retransmission unless
//! - it fills a hole: bytes that were skipped and never seen. Within half an epoch of the skip that is reordering on
//!   the way here; later it is the repair of a loss before this box, because no sender learns of a loss in less than a
//!   round trip;
//! - it is a keep-alive (RFC 9293, section 3.8.4): at most one byte, just below the next to be sent;
//! - it is a zero-window probe (section 3.8.6.1): at most one byte at the edge of a window the receiver has closed.

use narrows_units::{Instant, SeqNum};
use narrows_wire::{Flags, Header, TcpHeader};

use crate::flags::FlowFlags;
use crate::flow::Flow;
use crate::phase::Phase;
use crate::ranges::MAX_SPAN;
use crate::times::{Coarse, Micros};
use crate::{PacketKind, TrackerConfig};

/// How far beyond what has been seen a segment is believed by itself, in bytes. On a thin link nobody has so much under
/// way; a segment beyond it was forged, or many have passed elsewhere.
const JUMP: i32 = 4 << 20;

impl Flow {
    /// A packet of the queued direction arrives; the record has been advanced to `now`.
    pub(crate) fn arrive(&mut self, now: Instant, h: &Header, config: &TrackerConfig) -> PacketKind {
        let len = u32::try_from(h.len.get()).unwrap_or(u32::MAX);
        if !config.rate_of_departures {
            self.epoch_bytes = self.epoch_bytes.saturating_add(len);
        }
        self.seen = Coarse::at(now);
        let Some(tcp) = h.tcp.as_ref() else {
            return self.arrive_other(now, len);
        };
        self.flags.set(FlowFlags::TCP);
        if tcp.flags.has(Flags::RST) {
            self.close();
            return PacketKind::Rst;
        }
        if tcp.flags.has(Flags::SYN) {
            return self.arrive_syn(now, tcp, config);
        }
        self.time_answer(now, config);
        self.hear_echo(now, tcp);
        self.see_twice();
        let kind = self.classify(now, tcp);
        if matches!(
            kind,
            PacketKind::New | PacketKind::Fin | PacketKind::Reordered | PacketKind::Retransmission
        ) {
            self.data(now, tcp, kind, config);
        }
        if tcp.flags.has(Flags::FIN) {
            self.flags.set(FlowFlags::FIN);
            self.close_if_both_finished();
        }
        kind
    }

    fn arrive_other(&mut self, now: Instant, len: u32) -> PacketKind {
        self.see_twice();
        if !self.flags.has(FlowFlags::TCP) {
            self.packets = self.packets.saturating_add(1);
            self.payload = self.payload.saturating_add(u64::from(len));
            self.last_data = now;
        }
        PacketKind::NotTcp
    }

    /// The second packet that is not a SYN proves the flow: it is not a scan.
    pub(crate) fn see_twice(&mut self) {
        if self.flags.has(FlowFlags::ONCE) {
            self.flags.set(FlowFlags::PROVEN);
        }
        self.flags.set(FlowFlags::ONCE);
    }

    fn classify(&mut self, now: Instant, tcp: &TcpHeader) -> PacketKind {
        let (seq, end) = (tcp.seq, tcp.seq_end());
        let fin = tcp.flags.has(Flags::FIN);
        let fresh = if fin && tcp.payload == 0 { PacketKind::Fin } else { PacketKind::New };
        if !self.flags.has(FlowFlags::SEQ) {
            // Picked up in its middle. What an ACK says of the next number is as good as data.
            self.first_seq(end);
            return if end == seq { PacketKind::PureAck } else { fresh };
        }
        if tcp.payload <= 1 && !fin {
            if self.is_window_probe(tcp) {
                self.max_seq = self.max_seq.max(end);
                return PacketKind::WindowProbe;
            }
            if self.is_keep_alive(tcp) {
                return PacketKind::KeepAlive;
            }
        }
        if end == seq {
            return PacketKind::PureAck;
        }
        if self.flags.has(FlowFlags::ACKED) && end.distance_from(self.max_seq) > JUMP {
            // Believed as soon as the receiver acknowledges it.
            self.redropped = end;
            self.flags.clear(FlowFlags::REDROPPED);
            self.flags.set(FlowFlags::OUT_OF_WINDOW);
            return fresh;
        }
        if end.distance_from(self.max_seq).unsigned_abs() > MAX_SPAN {
            // No window reaches there: the record is wrong, or the packet. Follow the packet.
            self.resynchronize(end);
            return fresh;
        }
        if end.at_or_before(self.max_seq) {
            return self.below_max(now, seq, end);
        }
        if seq.before(self.max_seq) {
            self.flags.set(FlowFlags::OVERLAP);
            self.holes.remove(seq, self.max_seq);
        } else if self.max_seq.before(seq) {
            self.holes.add(self.max_seq, seq, Micros::at(now));
            self.flags.set(FlowFlags::HOLES);
        }
        self.max_seq = end;
        fresh
    }

    /// The first thing known of the sender's sequence numbers.
    pub(crate) fn first_seq(&mut self, end: SeqNum) {
        self.flags.set(FlowFlags::SEQ);
        (self.max_seq, self.redropped) = (end, end);
        if end.before(self.highest_ack) {
            // An ACK of what nobody sent.
            self.flags.clear(FlowFlags::ACKED);
        }
    }

    fn below_max(&mut self, now: Instant, seq: SeqNum, end: SeqNum) -> PacketKind {
        if !self.flags.has(FlowFlags::HOLES) {
            return PacketKind::Retransmission;
        }
        let Some(hole) = self.holes.hit(seq, end) else { return PacketKind::Retransmission };
        let age = Micros::at(now).since(hole.tag);
        self.holes.remove(seq, end);
        if age < self.epoch_len() / 2 { PacketKind::Reordered } else { PacketKind::Retransmission }
    }

    /// At most one byte at the edge (some stacks send that byte, some none and one number lower) of a closed window.
    fn is_window_probe(&self, tcp: &TcpHeader) -> bool {
        let edge = tcp.seq.distance_from(self.highest_ack);
        self.flags.has(FlowFlags::ZERO_WINDOW | FlowFlags::ACKED)
            && (edge == -1 || (edge == 0 && tcp.payload == 1))
    }

    /// Just below the next number to be sent. With a byte of payload it could be the retransmission of a last segment
    /// of one byte: not if everything is acknowledged, and, where ACKs are not seen, not if the last segment was
    /// longer.
    fn is_keep_alive(&self, tcp: &TcpHeader) -> bool {
        if tcp.seq + 1 != self.max_seq || self.flags.has(FlowFlags::FIN) {
            return false;
        }
        let settled = if self.flags.has(FlowFlags::ACKED) {
            self.max_seq.at_or_before(self.highest_ack)
        } else {
            !self.flags.has(FlowFlags::TAIL_BYTE)
        };
        tcp.payload == 0 || (settled && !self.is_unrepaired(tcp.seq, 1))
    }

    #[cold]
    fn resynchronize(&mut self, end: SeqNum) {
        (self.max_seq, self.redropped) = (end, end);
        self.flags.set(FlowFlags::OUT_OF_WINDOW);
        self.flags.clear(FlowFlags::ACKED | FlowFlags::SAMPLING | FlowFlags::REDROPPED);
        self.holes.clear();
        self.forget_drops();
    }

    /// Forgets every drop: nothing is left to repair.
    pub(crate) fn forget_drops(&mut self) {
        self.dropped.clear();
        self.unrepaired = 0;
    }

    /// What a segment with data changes.
    fn data(&mut self, now: Instant, tcp: &TcpHeader, kind: PacketKind, config: &TrackerConfig) {
        let retransmission = kind == PacketKind::Retransmission;
        let gap = now.since(self.last_data);
        let timeout_proven = retransmission
            && self.flags.has(FlowFlags::REDROPPED)
            && tcp.seq.at_or_before(self.redropped)
            && self.redropped.before(tcp.seq_end());
        match self.phase {
            None => {
                self.flags.set(FlowFlags::DATA);
                self.first_data(now, config);
                self.open_epoch(now);
                self.set_phase(Phase::SlowStart);
            }
            Some(phase) => {
                let after_loss = phase.is_silent() || (phase == Phase::Idle && retransmission);
                if after_loss && gap >= self.epoch_len() {
                    self.last_silence_us = u32::try_from(gap.as_nanos() / 1_000).unwrap_or(u32::MAX);
                }
                if self.silent_epochs > 0 {
                    self.open_epoch(now);
                }
                self.later_data(now, gap, config);
                self.set_phase(phase.after_data(retransmission, timeout_proven));
            }
        }
        self.silent_epochs = 0;
        self.last_data = now;
        self.packets = self.packets.saturating_add(1);
        if retransmission {
            self.retx_pkts = self.retx_pkts.saturating_add(1);
            self.spoil_timing(tcp.seq);
            return;
        }
        self.new_pkts = self.new_pkts.saturating_add(1);
        self.payload = self.payload.saturating_add(u64::from(tcp.payload));
        if kind != PacketKind::Reordered && !self.flags.has(FlowFlags::OUT_OF_WINDOW) {
            self.flags.put(FlowFlags::TAIL_BYTE, tcp.payload == 1);
            self.time_segment(now, tcp.seq_end());
        }
    }

    /// The discipline dropped this packet.
    pub(crate) fn drop_packet(&mut self, h: &Header) {
        self.drops_cur = self.drops_cur.saturating_add(1);
        let Some(tcp) = h.tcp.as_ref() else { return };
        if tcp.flags.has(Flags::SYN) {
            self.flags.clear(FlowFlags::SAMPLING);
            return;
        }
        let (seq, end) = (tcp.seq, tcp.seq_end());
        let ours = self.max_seq - end <= MAX_SPAN && !self.flags.has(FlowFlags::CLOSED);
        let Some(phase) = self.phase.filter(|_| end != seq && ours) else { return };
        if self.is_unrepaired(seq, end - seq) {
            self.redropped = seq;
            self.flags.set(FlowFlags::REDROPPED);
        } else {
            self.unrepaired = self.unrepaired.saturating_add(1);
        }
        self.dropped.add(seq, end, ());
        self.spoil_timing(seq);
        self.set_phase(phase.after_drop());
    }

    /// The packet was sent on.
    pub(crate) fn depart(&mut self, now: Instant, h: &Header, config: &TrackerConfig) {
        if config.rate_of_departures {
            let len = u32::try_from(h.len.get()).unwrap_or(u32::MAX);
            self.epoch_bytes = self.epoch_bytes.saturating_add(len);
        }
        let Some(tcp) = h.tcp.as_ref() else { return };
        let (seq, end) = (tcp.seq, tcp.seq_end());
        if seq == end {
            return;
        }
        self.time_departure(now, end);
        if self.unrepaired > 0 && self.dropped.remove(seq, end) {
            self.note_repair();
        }
        if let Some(phase) = self.phase {
            self.set_phase(phase.after_departure(self.unrepaired));
        }
    }

    /// One packet's worth was repaired; each range that is left is at least one packet.
    fn note_repair(&mut self) {
        let left = u16::try_from(self.dropped.count()).unwrap_or(u16::MAX);
        self.unrepaired = if left == 0 { 0 } else { self.unrepaired.saturating_sub(1).max(left) };
        if left == 0 {
            self.flags.clear(FlowFlags::REDROPPED);
        }
    }

    /// A packet of the other direction; whether it has to wait here.
    pub(crate) fn on_reverse(&mut self, now: Instant, tcp: &TcpHeader, waits: bool, config: &TrackerConfig) {
        self.seen = Coarse::at(now);
        if tcp.flags.has(Flags::RST) {
            self.close();
            return;
        }
        if tcp.flags.has(Flags::SYN) {
            self.on_reverse_syn(now, tcp, config);
        } else if tcp.flags.has(Flags::ACK) {
            if self.flags.has(FlowFlags::ONCE) {
                self.flags.set(FlowFlags::PROVEN);
            }
            self.await_echo(now, tcp, waits);
        }
        if tcp.flags.has(Flags::ACK) {
            self.on_reverse_ack(now, tcp, config);
        }
        if tcp.flags.has(Flags::FIN) {
            self.flags.set(FlowFlags::REVERSE_FIN);
            self.close_if_both_finished();
        }
    }

    fn on_reverse_ack(&mut self, now: Instant, tcp: &TcpHeader, config: &TrackerConfig) {
        // An ACK of what has not been sent (RFC 9293, section 3.10.7.4), as far as can be known.
        if self.flags.has(FlowFlags::SEQ) && self.max_seq.before(tcp.ack) {
            // An ACK of what was doubted: it has passed elsewhere, as while the box let all traffic pass.
            let doubted = !self.flags.has(FlowFlags::REDROPPED)
                && self.max_seq.before(self.redropped)
                && tcp.ack.at_or_before(self.redropped);
            if !doubted {
                return;
            }
            self.resynchronize(tcp.ack);
            self.flags.clear(FlowFlags::OUT_OF_WINDOW);
        }
        let known = self.flags.has(FlowFlags::ACKED);
        if known && tcp.ack.before(self.highest_ack) {
            return;
        }
        self.flags.put(FlowFlags::ZERO_WINDOW, tcp.window == 0);
        if known && tcp.ack == self.highest_ack {
            return;
        }
        self.flags.set(FlowFlags::ACKED);
        self.highest_ack = tcp.ack;
        self.time_ack(now, tcp.ack, config);
        self.holes.remove_below(tcp.ack);
        if self.dropped.remove_below(tcp.ack) {
            self.note_repair();
        }
    }

    fn close_if_both_finished(&mut self) {
        if self.flags.has(FlowFlags::FIN | FlowFlags::REVERSE_FIN) {
            self.flags.set(FlowFlags::CLOSED);
        }
    }

    /// A RST ends everything at once.
    #[cold]
    fn close(&mut self) {
        self.flags.set(FlowFlags::CLOSED);
        self.flags.clear(FlowFlags::SAMPLING);
        self.forget_drops();
        if self.phase.is_some() {
            self.set_phase(Phase::Idle);
            (self.new_pkts, self.retx_pkts) = (0, 0);
        }
    }

    /// Forgets ranges so old that sequence numbers have moved on by more than any window.
    pub(crate) fn forget_far_ranges(&mut self) {
        // Most flows have none. `dropped` is empty when nothing is unrepaired.
        if self.unrepaired == 0 && !self.flags.has(FlowFlags::HOLES) {
            return;
        }
        let far = |start: SeqNum| self.max_seq - start > MAX_SPAN;
        let (drops, holes) =
            (self.dropped.iter().any(|r| far(r.start)), self.holes.iter().any(|r| far(r.start)));
        if drops {
            self.forget_drops();
        }
        if holes {
            self.holes.clear();
        }
        self.flags.put(FlowFlags::HOLES, !self.holes.is_empty());
    }
}

/// The kind of a packet of which no record can be kept.
pub(crate) fn kind_alone(h: &Header) -> PacketKind {
    let Some(tcp) = h.tcp.as_ref() else { return PacketKind::NotTcp };
    let has = |f| tcp.flags.has(f);
    match () {
        () if has(Flags::RST) => PacketKind::Rst,
        () if has(Flags::SYN.and(Flags::ACK)) => PacketKind::SynAck,
        () if has(Flags::SYN) => PacketKind::Syn,
        () if tcp.payload > 0 => PacketKind::New,
        () if has(Flags::FIN) => PacketKind::Fin,
        () => PacketKind::PureAck,
    }
}
