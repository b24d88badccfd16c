//! What happens when a packet comes.

use narrows_flow::{FlowId, PacketKind};
use narrows_units::{Bytes, Duration, Instant};
use narrows_users::CircuitId;
use narrows_wire::Proto;

use super::DefaultMode;
use super::control::ControlPackets;
use super::longest::Longest;
use crate::deficit::Place;
use crate::{Packet, Reason, ShaperConfig, Verdict, Verdicts};

/// What is asked of a packet that has come, read once.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub len: Bytes,
    /// Bytes on the link.
    pub cost: u64,
    pub circuit: Option<CircuitId>,
    pub tcp: bool,
    /// Whether it is a segment with payload.
    data: bool,
}

impl Arrival {
    fn new(packet: &impl Packet, link: &ShaperConfig) -> Self {
        let (len, tcp) = (packet.len(), packet.header().tcp.as_ref());
        Self {
            len,
            cost: link.wire_len(len).get(),
            circuit: packet.circuit(),
            tcp: tcp.is_some(),
            data: tcp.is_some_and(|tcp| tcp.payload > 0),
        }
    }
}

impl<P: Packet> DefaultMode<P> {
    /// A packet may be queued.
    pub(super) fn admit(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        // The index, then the record and the state together, come from memory while other things are done.
        let expected = self.tracker.expect(&packet.header().key);
        self.tracker.tick(now);
        let likely = self.tracker.likely(expected);
        self.loss.arrival(now);
        // The packet is read where it is: in the store it would be waited for.
        let seen = self.tracker.forward_from(now, packet.header(), likely);
        self.counters.evicted += u64::from(seen.evicted_in_use);
        let Some(flow) = seen.id else {
            // The table is full of flows with a backlog.
            self.counters.drop_packet(packet, Reason::OverLimit, verdicts);
            return;
        };
        if seen.fresh || seen.restarted {
            self.flow_state(flow, seen.restarted && seen.kind == PacketKind::Syn);
            if let Some(slot) = self.tracker.prefetch_least_needed().and_then(|id| self.flows.get(id.index()))
            {
                slot.prefetch();
            }
        }
        if let Some(tcp) = packet.header().tcp.as_ref() {
            self.flows[flow.index()].note_arrival(tcp);
        }
        let arrival = Arrival::new(&packet, &self.link);
        let at = self.packets.insert(packet);
        // Only these can be.
        let doubtful = seen.kind == PacketKind::Retransmission || !arrival.tcp;
        if doubtful && self.is_of_no_use(now, flow, at, seen.kind, verdicts) {
            self.counters.suppressed += 1;
            verdicts.extend(self.packets.release(at).map(|packet| Verdict::Suppressed { packet }));
            return;
        }
        self.put(now, (flow.0, at), &arrival, seen.kind, verdicts);
    }

    /// Whether packet `at`, which has just come, need not be sent.
    #[inline(never)]
    fn is_of_no_use(
        &mut self,
        now: Instant,
        flow: FlowId,
        at: u32,
        kind: PacketKind,
        verdicts: &mut Verdicts<P>,
    ) -> bool {
        let header = self.packets.get(at).header();
        match header.tcp.as_ref() {
            Some(tcp) if kind == PacketKind::Retransmission => {
                let copy = *tcp;
                self.is_superfluous(now, flow.0, &copy)
            }
            _ if header.key.proto == Proto::UDP => {
                let header = *header;
                self.is_useless_probe(now, flow, &header, verdicts)
            }
            _ => false,
        }
    }

    /// Queues packet `at`, which is not superfluous.
    fn put(
        &mut self,
        now: Instant,
        (id, at): (u32, u32),
        packet: &Arrival,
        kind: PacketKind,
        verdicts: &mut Verdicts<P>,
    ) {
        let bare = packet.tcp && !packet.data && self.config.new_flows_first;
        if bare && self.is_control(id, at) && self.put_first(now, (id, at), packet, verdicts) {
            return;
        }
        let front = kind == PacketKind::Retransmission && self.goes_first(id, at);
        let new_data =
            matches!(kind, PacketKind::New | PacketKind::Fin | PacketKind::Reordered | PacketKind::NotTcp);
        let slot = &mut self.flows[id as usize];
        if front {
            self.packets.push_front(&mut slot.queue, at, packet.len.get(), new_data);
        } else {
            self.packets.push_back(&mut slot.queue, at, packet.len.get(), new_data);
        }
        let (idle, longer) = (slot.turn.place() == Place::Idle, Longest::moves(slot));
        self.backlog.add(packet.len);
        self.tracker.queued(FlowId(id));
        if longer {
            self.longest.update(&mut self.flows, id);
        }
        if idle {
            self.join(now, id, packet);
        }
        self.turns.queued(&self.flows[id as usize], true);
        self.manage_queue(now, id, verdicts);
        self.bound_memory(now, verdicts);
    }

    #[inline(never)]
    fn is_control(&self, id: u32, at: u32) -> bool {
        let idle = self.flows[id as usize].queue.is_empty();
        ControlPackets::<P>::is_control(self.packets.get(at).header(), idle)
    }

    /// Puts packet `at`, which brings no data, before all flows, if it may go there.
    #[inline(never)]
    fn put_first(
        &mut self,
        now: Instant,
        (id, at): (u32, u32),
        packet: &Arrival,
        verdicts: &mut Verdicts<P>,
    ) -> bool {
        if self.packets.len() + self.control.len() > self.config.memory_packets as usize {
            return false;
        }
        let user = self.user_of(id, packet.circuit);
        if !self.may_send_control(now, user, Bytes(packet.cost)) {
            return false;
        }
        let len = packet.len;
        let Some(packet) = self.packets.release(at) else { return false };
        self.backlog.add(len);
        self.tracker.queued(FlowId(id));
        self.control.push(id, packet);
        self.bound_memory(now, verdicts);
        true
    }

    /// A retransmission goes before the flow's older packets when they have long to wait; their timestamps are raised
    /// to its own, or the receiver would discard them as old duplicates (PAWS, RFC 7323, section 5).
    #[inline(never)]
    fn goes_first(&mut self, id: u32, retransmission: u32) -> bool {
        let queue = self.flows[id as usize].queue;
        // Below this wait, overtaking makes the sender's RACK (RFC 8985) take the overtaken packets for lost.
        let far_off = Duration::from_millis(1500);
        if !self.config.retransmissions_first
            || queue.is_empty()
            || self.flow_round(id) * u64::from(queue.packets()) < far_off
        {
            return false;
        }
        let Some(tcp) = self.packets.get(retransmission).header().tcp.as_ref() else { return false };
        let Some((tsval, _)) = tcp.timestamps else { return true };
        let mut next = queue.head();
        while let Some(at) = next {
            let packet = self.packets.get_mut(at);
            let older = packet
                .header()
                .tcp
                .and_then(|t| t.timestamps)
                .is_some_and(|(v, _)| narrows_units::SeqNum(v).before(narrows_units::SeqNum(tsval)));
            if older {
                if !packet.set_tsval(tsval) {
                    return false;
                }
                self.counters.restamped += 1;
            }
            next = self.packets.after(&queue, at);
        }
        true
    }
}
