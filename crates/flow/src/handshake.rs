//! SYN and SYN-ACK: who opened the connection, by which window scales it goes, and whether a new one begins.

use narrows_units::{Instant, SeqNum};
use narrows_wire::{Flags, TcpHeader};

use crate::flags::FlowFlags;
use crate::flow::Flow;
use crate::times::{Coarse, Micros, WindowScale};
use crate::{PacketKind, TrackerConfig};

/// Data a SYN may carry (RFC 7413): a jumbo frame's.
const SYN_DATA: i32 = 9_000;

impl Flow {
    /// A SYN or SYN-ACK of the queued direction arrives.
    #[inline(never)]
    pub(crate) fn arrive_syn(&mut self, now: Instant, tcp: &TcpHeader, config: &TrackerConfig) -> PacketKind {
        let answer = tcp.flags.has(Flags::ACK);
        let known = self.flags.has(FlowFlags::SYN) && self.forward_isn == tcp.seq;
        if answer
            && !known
            && self.flags.has(FlowFlags::REVERSE_SYN)
            && !self.is_answer(tcp, self.reverse_isn)
        {
            return PacketKind::SynAck;
        }
        // Another number, or a SYN into a connection picked up in its middle, begins a new connection. The answer to a
        // SYN seen the other way does not: that SYN has already done so.
        let answered = answer && self.flags.has(FlowFlags::REVERSE_SYN);
        if self.flags.has(FlowFlags::SEQ) && !known && !answered {
            self.restart(now, config);
        }
        if known {
            // Sent again: which of them is answered cannot be told (Karn).
            self.flags.clear(FlowFlags::SAMPLING);
        } else {
            let scale = tcp.window_scale.and_then(WindowScale::new);
            // Two answers, as two hosts of one address give: which of them counts cannot be told.
            let told = self.flags.has(FlowFlags::SYN) && self.forward_scale != scale;
            self.forward_scale = scale.filter(|_| !told);
            self.flags.set(FlowFlags::SYN);
            self.forward_isn = tcp.seq;
            if !self.flags.has(FlowFlags::DATA) {
                self.first_seq(tcp.seq_end());
            }
            self.payload += u64::from(tcp.payload);
            self.initiated(answer);
            self.time_segment(now, tcp.seq_end());
        }
        if answer {
            self.time_answer(now, config);
        }
        if !self.flags.has(FlowFlags::DATA) {
            self.begin_burst(Micros::at(now));
        }
        if answer { PacketKind::SynAck } else { PacketKind::Syn }
    }

    /// Whether a SYN-ACK can be the answer to the SYN with number `isn` that passed the other way (RFC 9293, section
    /// 3.10.7.3), and comes before data. Any other is forged, late or of another host: its window scale must not be
    /// believed, since what is read with a wrong scale shuts or opens the window for good.
    fn is_answer(&self, tcp: &TcpHeader, isn: SeqNum) -> bool {
        let acked = tcp.ack.distance_from(isn + 1);
        (0..=SYN_DATA).contains(&acked)
            && (!self.flags.has(FlowFlags::DATA) || self.flags.has(FlowFlags::CLOSED))
    }

    /// Notes who opened the connection.
    pub(crate) fn initiated(&mut self, by_dst: bool) {
        self.flags.set(FlowFlags::INITIATOR);
        self.flags.put(FlowFlags::INITIATOR_DST, by_dst);
    }

    /// A SYN or SYN-ACK of the other direction.
    #[inline(never)]
    pub(crate) fn on_reverse_syn(&mut self, now: Instant, tcp: &TcpHeader, config: &TrackerConfig) {
        let answer = tcp.flags.has(Flags::ACK);
        if self.flags.has(FlowFlags::REVERSE_SYN) && self.reverse_isn == tcp.seq {
            // Sent again, or released by admission control after a wait: the answer is most likely to this one.
            if self.flags.has(FlowFlags::TIMING_SENDER) {
                self.time_sender(now);
            }
            return;
        }
        if answer && self.flags.has(FlowFlags::SYN) && !self.is_answer(tcp, self.forward_isn) {
            return;
        }
        // An answer belongs to the SYN of the queued direction, which has begun the connection.
        if !answer && (self.flags.has(FlowFlags::REVERSE_SYN) || self.flags.has(FlowFlags::SEQ)) {
            self.restart(now, config);
            self.seen = Coarse::at(now);
        }
        let scale = tcp.window_scale.and_then(WindowScale::new);
        let told = self.flags.has(FlowFlags::REVERSE_SYN) && self.reverse_scale != scale;
        self.reverse_scale = scale.filter(|_| !told);
        self.flags.set(FlowFlags::REVERSE_SYN | FlowFlags::TCP);
        self.reverse_isn = tcp.seq;
        self.mss = tcp.mss.unwrap_or(0);
        if !self.flags.has(FlowFlags::INITIATOR) {
            self.initiated(!answer);
        }
        self.time_sender(now);
    }
}
