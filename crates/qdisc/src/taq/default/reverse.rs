//! The acknowledgment path: what it tells, and the window it carries back.

use narrows_flow::FlowId;
use narrows_units::{Duration, Instant};
use narrows_wire::{Flags, FlowKey, Proto, TcpHeader};

use super::DefaultMode;
use super::clamp::Sent;
use super::flow_state::NEVER;
use crate::{Packet, Verdicts};

/// How long a host takes to refuse a datagram, at most.
const REFUSAL: Duration = Duration::from_secs(2);

impl<P: Packet> DefaultMode<P> {
    /// Shows a packet of the other direction to the flow it answers, and clamps its window.
    pub(super) fn pass_back(&mut self, now: Instant, mut packet: P, verdicts: &mut Verdicts<P>) -> P {
        if let Some(refused) = packet.header().refused() {
            self.refused(now, &refused, verdicts);
        }
        let id = self.tracker.reverse(now, packet.header());
        self.hear(id, &packet);
        if let Some(id) = id.filter(|_| packet.header().key.proto == Proto::UDP) {
            self.quic_answered(now, id);
        }
        if let (Some(id), Some(tcp)) = (id, packet.header().tcp) {
            let opens = tcp.flags.has(Flags::SYN) && !tcp.flags.has(Flags::ACK);
            let known = self.flows.get(id.0 as usize).and_then(|s| s.request_isn);
            let slot = self.flow_state(id, opens && known.is_some_and(|isn| isn != tcp.seq));
            slot.note_mss(&tcp);
            if opens {
                slot.request_isn = Some(tcp.seq);
            } else if tcp.flags.has(Flags::RST) {
                self.purge(now, id.0, verdicts);
            } else if tcp.flags.has(Flags::ACK) {
                self.flows[id.0 as usize].acknowledged(now, &tcp);
                if let Some(window) = self.clamped_window(id, &tcp)
                    && packet.set_window(window)
                {
                    self.counters.clamped += 1;
                }
            }
        }
        packet
    }

    /// A host says that nobody listens on a port of its own any more. It is believed about a datagram that can have
    /// called for it: a flow of ours, of which something was sent on of late. Who can write another's address into a
    /// message and knows both ports can cost that flow what waits beyond one packet, as with a forged RST.
    fn refused(&mut self, now: Instant, key: &FlowKey, verdicts: &mut Verdicts<P>) {
        let Some(id) = self.tracker.lookup(key) else { return };
        let served_at = self.flows.get(id.index()).map_or(NEVER, |slot| slot.served_at);
        if served_at != NEVER && now.since(served_at) < REFUSAL {
            self.purge(now, id.0, verdicts);
        }
    }

    fn clamped_window(&mut self, id: FlowId, tcp: &TcpHeader) -> Option<u16> {
        let unscaled = tcp.flags.0 & (Flags::SYN.0 | Flags::RST.0) != 0;
        if !self.config.window_clamp || unscaled {
            return None;
        }
        let flow = self.tracker.flow(id);
        // Both sides must have offered a scale for either to be in force (RFC 7323, section 2.2).
        let scale = flow.forward_scale().and(flow.reverse_scale())?;
        // Without the far side's round trip nobody can say how much must be under way.
        flow.sender_rtt()?;
        let slot = self.flows.get(id.0 as usize)?;
        let segment = u32::from(if slot.segment == 0 { 1448 } else { slot.segment });
        let allowance = self.permitted_in_flight(id.0).saturating_mul(segment).min(1 << 24);
        let max_seq = flow.max_seq();
        let slot = self.flows.get_mut(id.0 as usize)?;
        let sent = Sent { served: slot.served_end.unwrap_or(tcp.ack), max_seq, segment };
        slot.clamp.window(tcp, scale, allowance, sent)
    }
}
