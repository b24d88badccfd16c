//! Handshake of a connection: who opened it, by which window scales it goes, and whether a new one begins.

use narrows_units::{Instant, SeqNum};
use narrows_wire::{Flags, TcpHeader};

use crate::calls::{Call, Caller};
use crate::flags::FlowFlags;
use crate::flow::Flow;
use crate::times::{Coarse, WindowScale};
use crate::{PacketKind, TrackerConfig};

/// Data a SYN may carry (RFC 7413): a jumbo frame's.
const SYN_DATA: i32 = 9_000;

/// Offers of both directions, as far as `FlowFlags` say that they were seen.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Handshake {
    /// Initial sequence numbers.
    forward_isn: SeqNum,
    reverse_isn: SeqNum,
    forward_scale: Option<WindowScale>,
    reverse_scale: Option<WindowScale>,
}

impl Handshake {
    /// Window scale that the sender of the queued direction offered.
    pub(crate) fn forward_scale(&self) -> Option<u8> {
        self.forward_scale.map(WindowScale::shift)
    }

    /// Window scale that the receiver offered.
    pub(crate) fn reverse_scale(&self) -> Option<u8> {
        self.reverse_scale.map(WindowScale::shift)
    }

    /// Takes a SYN or SYN-ACK of the queued direction that is no copy; `told` says whether there was one before.
    fn take_forward(&mut self, tcp: &TcpHeader, told: bool) {
        self.forward_scale = scale(tcp, self.forward_scale, told);
        self.forward_isn = tcp.seq;
    }

    /// Takes one of the other direction.
    fn take_reverse(&mut self, tcp: &TcpHeader, told: bool) {
        self.reverse_scale = scale(tcp, self.reverse_scale, told);
        self.reverse_isn = tcp.seq;
    }
}

/// Window scale that holds. Where two packets offer two, as two hosts of one address do, it cannot be told which
/// counts.
fn scale(tcp: &TcpHeader, known: Option<WindowScale>, told: bool) -> Option<WindowScale> {
    let offered = tcp.window_scale.and_then(WindowScale::new);
    offered.filter(|_| !told || known == offered)
}

/// Whether a SYN-ACK acknowledges the SYN with number `isn`, with the data that it may have carried.
pub(crate) fn answers(tcp: &TcpHeader, isn: SeqNum) -> bool {
    (0..=SYN_DATA).contains(&tcp.ack.distance_from(isn + 1))
}

impl Flow {
    /// Whether both ends have shown that they use the connection, and neither that it has ended.
    fn is_conversing(&self) -> bool {
        self.flags.has(FlowFlags::PROVEN)
            && !self.flags.has(FlowFlags::CLOSED)
            && self.sequence.highest_ack().is_some()
    }

    /// Whether a SYN calls for another connection than the one that lives.
    pub(crate) fn is_called_anew(&self, caller: Caller, syn: &TcpHeader) -> bool {
        let known = match caller {
            Caller::Sender => self.flags.has(FlowFlags::SYN) && self.handshake.forward_isn == syn.seq,
            Caller::Receiver => {
                self.flags.has(FlowFlags::REVERSE_SYN) && self.handshake.reverse_isn == syn.seq
            }
        };
        !known && self.is_conversing()
    }

    /// Begins anew with a call that was answered.
    #[cold]
    pub(crate) fn begin_anew(&mut self, now: Instant, caller: Caller, call: &Call, config: &TrackerConfig) {
        self.restart(now, config);
        match caller {
            Caller::Sender => {
                self.arrive_syn(call.at, &call.syn, config);
            }
            Caller::Receiver => self.on_reverse_syn(call.at, &call.syn, config),
        }
        self.seen = Coarse::at(now);
    }

    /// Takes a SYN or SYN-ACK of the queued direction.
    #[inline(never)]
    pub(crate) fn arrive_syn(&mut self, now: Instant, tcp: &TcpHeader, config: &TrackerConfig) -> PacketKind {
        let answer = tcp.flags.has(Flags::ACK);
        let answered = answer && self.flags.has(FlowFlags::REVERSE_SYN);
        let known = self.flags.has(FlowFlags::SYN) && self.handshake.forward_isn == tcp.seq;
        if answered && !known && !self.is_answer(tcp, self.handshake.reverse_isn) {
            return PacketKind::SynAck;
        }
        if answer && !answered && !known && self.is_conversing() {
            // To a call that was not seen: nobody who uses the connection says so.
            return PacketKind::SynAck;
        }
        // Another number, or a SYN into a connection picked up in its middle, begins a new connection. The answer to a
        // SYN seen the other way does not: that SYN has already done so.
        if self.sequence.is_known() && !known && !answered {
            self.restart(now, config);
        }
        if known {
            // Sent again: which of them is answered cannot be told (Karn).
            self.round_trip.stop();
        } else {
            self.handshake.take_forward(tcp, self.flags.has(FlowFlags::SYN));
            self.flags.set(FlowFlags::SYN);
            if !self.flags.has(FlowFlags::DATA) {
                self.sequence.begin(tcp.seq_end());
            }
            self.initiated(answer);
            self.round_trip.time_segment(now, tcp.seq_end(), self.sequence.is_whole());
        }
        if answer {
            self.round_trip.time_answer(now, &mut self.epoch, config);
        }
        if !self.flags.has(FlowFlags::DATA) {
            self.round_trip.begin_burst(now);
        }
        if answer { PacketKind::SynAck } else { PacketKind::Syn }
    }

    /// Whether a SYN-ACK can be the answer to the SYN with number `isn` that passed the other way (RFC 9293, section
    /// 3.10.7.3), and comes before data. Any other is forged, late or of another host: its window scale must not be
    /// believed, since what is read with a wrong scale shuts or opens the window for good.
    fn is_answer(&self, tcp: &TcpHeader, isn: SeqNum) -> bool {
        answers(tcp, isn) && (!self.flags.has(FlowFlags::DATA) || self.flags.has(FlowFlags::CLOSED))
    }

    /// Notes who opened the connection.
    fn initiated(&mut self, by_dst: bool) {
        self.flags.set(FlowFlags::INITIATOR);
        self.flags.put(FlowFlags::INITIATOR_DST, by_dst);
    }

    /// Takes a SYN or SYN-ACK of the other direction.
    #[inline(never)]
    pub(crate) fn on_reverse_syn(&mut self, now: Instant, tcp: &TcpHeader, config: &TrackerConfig) {
        let answer = tcp.flags.has(Flags::ACK);
        let told = self.flags.has(FlowFlags::REVERSE_SYN);
        if told && self.handshake.reverse_isn == tcp.seq {
            // Sent again, or released by admission control after a wait.
            self.round_trip.time_sender_again(now);
            return;
        }
        if answer && self.flags.has(FlowFlags::SYN) && !self.is_answer(tcp, self.handshake.forward_isn) {
            return;
        }
        // An answer belongs to the SYN of the queued direction, which has begun the connection.
        if !answer && (told || self.sequence.is_known()) {
            self.restart(now, config);
            self.seen = Coarse::at(now);
        }
        self.handshake.take_reverse(tcp, self.flags.has(FlowFlags::REVERSE_SYN));
        self.flags.set(FlowFlags::REVERSE_SYN | FlowFlags::TCP);
        if !self.flags.has(FlowFlags::INITIATOR) {
            self.initiated(!answer);
        }
        self.round_trip.time_sender(now);
    }
}
