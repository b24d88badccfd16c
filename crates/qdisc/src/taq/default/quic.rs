//! Flows of QUIC: what can be told of them without reading them, and what is done with it.
//!
//! A datagram shows its size, its instant and the first bits of its header; that it is QUIC is known from its
//! handshake. The box sees besides what the other end answers, and whether it answers at all. From that:
//!
//! - **Hold.** What waits is held, not dropped: a sender that keeps to its window stops by itself. A first window
//!   waits whole.
//! - **Probes.** A sender that has heard nothing since its last packet may send only what its application has just
//!   written, or probes when its timer fires (PTO, RFC 9002, section 6.2). While packets of the flow wait here, the
//!   silence is ours: a packet that comes out of it carries what waits already, and is discarded, if the last data was
//!   not a full packet. If it was, there is more to say, and a probe may bring it. It is never discarded when nothing
//!   waits and an answer would be back, so a probe for what was lost elsewhere passes.
//! - **Repeated handshakes**: while a flight of the handshake waits here, another one is a copy of it.
//! - **Path MTU probes** (RFC 8899): a packet larger than those a sender fills is discarded while others wait. Where
//!   that size shows only by the packets before and after it, it is discarded then. Its loss is no sign of congestion
//!   (RFC 9000, section 14.4).
//! - **One signal in a round trip**: a mark, or one drop with many packets behind it, and no other before the sender
//!   can have answered (RFC 9002, section 7.3.2: it would not count).
//! - **Purge.** A receiver that says nothing to several packets in a row has gone, and so has one whose host says that
//!   its port is unreachable: one packet is kept.

mod flow;

use narrows_flow::FlowId;
use narrows_units::Instant;
use narrows_wire::{Header, QuicPacket};

use self::flow::NO_DATA;
pub use self::flow::QuicFlow;
use super::aqm::OTHERS_RTT;
use super::{DefaultMode, signed};
use crate::{Packet, Reason, Verdict, Verdicts};

/// How many waiting packets are looked at in search of one.
const LOOKED_AT: usize = 64;

/// By how much a copy may differ from what it copies: acknowledgments come and go with it.
const OTHER_FRAMES: u64 = 32;

/// Whether it is a packet of a handshake. What follows on the same flow is taken for data whatever its first bits say:
/// senders may clear the fixed one (RFC 9287).
pub(super) fn is_handshake(header: &Header) -> bool {
    header.quic.is_some_and(QuicPacket::is_handshake)
}

impl<P: Packet> DefaultMode<P> {
    /// The record of a flow that is or may be QUIC.
    fn quic_flow(&mut self, now: Instant, id: FlowId) -> &mut QuicFlow {
        let at = id.index();
        if at >= self.quic.len() {
            self.quic.resize(at + 1, QuicFlow::default());
        }
        let generation = self.tracker.flow(id).generation();
        let flow = &mut self.quic[at];
        if flow.generation != generation {
            *flow = QuicFlow::of(generation, now);
        }
        flow
    }

    /// Whether the flow is known to be QUIC.
    pub(super) fn is_quic(&self, id: u32) -> bool {
        let generation = self.tracker.flow(FlowId(id)).generation();
        self.quic.get(id as usize).is_some_and(|q| q.known && q.generation == generation)
    }

    /// Notes an arrival; whether it is a probe that is of no use while other packets of its flow wait.
    #[inline(never)]
    pub(super) fn is_useless_probe(
        &mut self,
        now: Instant,
        id: FlowId,
        header: &Header,
        verdicts: &mut Verdicts<P>,
    ) -> bool {
        let handshake = is_handshake(header);
        if !handshake && !self.is_quic(id.0) {
            return false;
        }
        let queue = self.flows[id.index()].queue;
        let shown = |packet: &P| is_handshake(packet.header());
        let handshake_waits = handshake && self.packets.packets(&queue).take(LOOKED_AT).any(shown);
        let credit = signed(self.config.quic_credit.into());
        let (probes, mtu_probes) = (self.config.suppress_probes, self.config.suppress_mtu_probes);
        let len = u16::try_from(header.len.get()).unwrap_or(u16::MAX);
        let flow = self.quic_flow(now, id);
        let first = !core::mem::replace(&mut flow.known, true);
        let probing = flow.arrived(now, queue.packets(), len);
        if handshake {
            let repeats = flow.repeats_flight(now, len, handshake_waits) && probes;
            // Padding is what the protocol asks for (RFC 9000, section 14.1): the flow keeps its credit for data.
            let slot = &mut self.flows[id.index()];
            if first {
                slot.turn.credit = slot.turn.credit.saturating_add(credit);
            }
            return repeats;
        }
        if mtu_probes && !queue.is_empty() && flow.is_mtu_probe(len) {
            return true;
        }
        let shows = flow.shows_mtu_probe(len);
        let full = flow.full;
        if shows && mtu_probes {
            self.discard_mtu_probe(id.0, full, verdicts);
        }
        if !(probes && probing) || (queue.is_empty() && !self.quic[id.index()].is_answer_due(now)) {
            return false;
        }
        !self.is_last_piece(id.0, len, full)
    }

    /// Whether a probe is new by its size: the last piece of what an application wrote. A sender that its window held
    /// back sends it when its timer fires, and nothing follows by which its loss would be seen. Copies are of full
    /// packets, or of the size of one that waits, but for a frame or two.
    fn is_last_piece(&self, id: u32, len: u16, full: u16) -> bool {
        let size = u64::from(len);
        let queue = self.flows[id as usize].queue;
        let similar = |packet: &P| packet.len().get().abs_diff(size) <= OTHER_FRAMES;
        let mut waiting = self.packets.packets(&queue).take(LOOKED_AT);
        len > NO_DATA && len < full && !queue.is_empty() && !waiting.any(similar)
    }

    /// Discards the last packet that waits and is larger than a full one.
    fn discard_mtu_probe(&mut self, id: u32, full: u16, verdicts: &mut Verdicts<P>) {
        let queue = self.flows[id as usize].queue;
        let larger = |p: &P| !is_handshake(p.header()) && p.len().get() > u64::from(full);
        let probe = self.packets.packets_back(&queue).take(LOOKED_AT).find(|(_, packet)| larger(packet));
        if let Some((at, _)) = probe
            && let Some(packet) = self.take(id, at)
        {
            self.counters.suppressed += 1;
            verdicts.push(Verdict::Suppressed { packet });
        }
    }

    /// Notes that the receiver said something.
    pub(super) fn quic_answered(&mut self, now: Instant, id: FlowId) {
        if self.is_quic(id.0) {
            self.quic[id.index()].answered(now);
        }
    }

    /// Answers the backlog of a flow: by a mark, or by a drop, once in a round trip. What the round trip takes beside a
    /// round may wait besides, so that a sender that has backed off still fills its share.
    pub(super) fn manage_quic_queue(&mut self, now: Instant, id: u32, verdicts: &mut Verdicts<P>) {
        let queue = self.flows[id as usize].queue;
        let waiting = queue.packets();
        let Some(oldest) = queue.head().filter(|_| waiting > self.config.quic_mark) else { return };
        let flow = &self.quic[id as usize];
        let rtt = flow.receiver_rtt().unwrap_or(OTHERS_RTT);
        let round = self.flow_round(id);
        let under_way = rtt.as_nanos() / round.as_nanos().max(1);
        let under_way = u32::try_from(under_way).unwrap_or(u32::MAX).min(self.config.memory_packets);
        let first = self.tracker.flow(FlowId(id)).sent_packets() <= self.config.quic_first;
        let most = self.config.quic_first.max(self.config.quic_hold) + 2 * under_way;
        if waiting > most {
            self.quic[id as usize].lost_here();
            self.drop_at(now, id, oldest, Reason::Sojourn, verdicts);
            return;
        }
        let signalled = self.config.quic_one_signal && now < flow.next_signal;
        if waiting <= self.config.quic_mark + under_way || signalled {
            return;
        }
        let packet = self.packets.get_mut(oldest);
        if !(self.config.mark && self.counters.mark_packet(packet, Reason::Sojourn, verdicts)) {
            if first || waiting <= self.config.quic_hold + under_way {
                return;
            }
            self.quic[id as usize].lost_here();
            self.drop_at(now, id, oldest, Reason::Repairable, verdicts);
        }
        self.quic[id as usize].next_signal = now + round * u64::from(waiting) + rtt;
    }

    /// Notes a departure of a flow, and drops all but one packet of one whose receiver has gone.
    pub(super) fn quic_departed(
        &mut self,
        now: Instant,
        id: u32,
        handshake: bool,
        verdicts: &mut Verdicts<P>,
    ) {
        if !self.is_quic(id) {
            return;
        }
        let gone = self.quic[id as usize].departed(now, handshake);
        if gone {
            self.purge(now, id, verdicts);
        }
    }
}

#[cfg(test)]
mod tests;
