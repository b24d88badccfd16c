//! What happens when a packet is sent on.

use narrows_flow::FlowId;
use narrows_units::{Bytes, Instant, SeqNum};
use narrows_wire::{Header, Proto, TcpHeader};

use super::duplicates::told;
use super::flow_state::FlowState;
use super::longest::Longest;
use super::turns::Sent;
use super::{DefaultMode, load, quic, signed};
use crate::{Packet, Verdicts};

impl<P: Packet> DefaultMode<P> {
    /// Sends the first of the packets that go before all flows.
    pub(super) fn send_control(&mut self, now: Instant) -> Option<P> {
        let (id, packet) = self.control.pop()?;
        self.backlog.sub(packet.len());
        self.tracker.unqueued(FlowId(id));
        self.pay_for_control(now, &packet);
        let cost = self.link.wire_len(packet.len());
        self.note_departure(now, id, &Leaving::new(packet.header(), false), cost);
        self.tracker.departed(now, FlowId(id), packet.header());
        Some(packet)
    }

    /// Sends packet `at` of the flow that was chosen. It stays at its place until all is noted, so that it is copied
    /// once, to where the driver wants it.
    pub(super) fn send(&mut self, now: Instant, id: u32, at: u32, verdicts: &mut Verdicts<P>) -> Option<P> {
        let leaving = Leaving::new(self.packets.get(at).header(), self.packets.is_new_data(at));
        let slot = &mut self.flows[id as usize];
        self.packets.unlink(&mut slot.queue, at, leaving.len.get());
        let (place, last) = (slot.turn.place(), slot.queue.is_empty());
        if Longest::moves(slot) {
            self.longest.update(&mut self.flows, id);
        }
        self.backlog.sub(leaving.len);
        self.tracker.unqueued(FlowId(id));
        let cost = self.link.wire_len(leaving.len);
        let sent = Sent { flow: id, place, cost: signed(cost.get()), data: leaving.is_data(), last };
        self.turns.sent(now, &mut self.flows, sent);
        let first_data = self.note_departure(now, id, &leaving, cost);
        let packet = self.packets.get(at);
        self.tracker.departed(now, FlowId(id), packet.header());
        if first_data && self.common.admission {
            load::prove_user(&mut self.admission, &self.flows[id as usize], packet);
        }
        if packet.header().key.proto == Proto::UDP {
            let handshake = quic::is_handshake(packet.header());
            self.quic_departed(now, id, handshake, verdicts);
        }
        // What comes next is fetched while the driver does something else.
        self.prefetch_next();
        self.packets.release(at)
    }

    /// Of the flow after the next one the records are fetched, which by then show which packet is its first.
    fn prefetch_next(&self) {
        let [next, later] = self.turns.soon(&self.flows);
        if let Some(at) = next.and_then(|next| self.flows[next as usize].queue.head()) {
            self.packets.prefetch(at);
        }
        if let Some(later) = later {
            self.flows[later as usize].prefetch();
            self.tracker.prefetch(FlowId(later));
        }
    }

    /// Notes what leaves and takes `cost` bytes of the link; whether it is the flow's first data.
    fn note_departure(&mut self, now: Instant, id: u32, leaving: &Leaving, cost: Bytes) -> bool {
        let held = |slot: &FlowState, max| slot.clamp.holds(max, u32::from(slot.segment));
        let max_seq = self.tracker.flow(FlowId(id)).max_seq();
        let slot = &mut self.flows[id as usize];
        let first_data = slot.served == 0 && leaving.tcp.is_some() && leaving.is_data();
        if leaving.is_data() {
            slot.served = slot.served.saturating_add(u32::try_from(leaving.len.get()).unwrap_or(u32::MAX));
            slot.served_at = now;
        }
        if let Some(Segment { seq, end, payload, told }) = leaving.tcp {
            // What nobody believes was sent (a segment far ahead) has not been served.
            if end.at_or_before(max_seq) {
                slot.served_end = Some(slot.served_end.map_or(end, |e| e.max(end)));
            }
            if payload > 0 {
                if leaving.new_data {
                    slot.departures.note(&mut slot.next_departure, (seq, end), told, now);
                    self.counters.goodput_bytes += Bytes(u64::from(payload));
                }
                if slot.queue.is_empty() && held(slot, max_seq) {
                    slot.extra = slot.extra.saturating_add(1).min(64);
                } else if slot.queue.packets() >= 3 {
                    slot.extra = slot.extra.saturating_sub(1);
                }
            }
        }
        // What conntrack has put together leaves in pieces again.
        let wire = if cost > self.link.mtu { cost.min(self.link.largest()) } else { cost }.get();
        self.largest = wire.max(self.largest - self.largest / 1024);
        if leaving.is_data() {
            self.set_mean_len(self.mean_len - (self.mean_len >> 4) + wire);
        }
        self.counters.send(leaving.len);
        first_data
    }
}

/// What there is to be known of a packet that leaves.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    len: Bytes,
    /// What it brings the receiver was not sent before.
    new_data: bool,
    tcp: Option<Segment>,
}

/// And of a segment.
#[derive(Clone, Copy, Debug)]
struct Segment {
    seq: SeqNum,
    end: SeqNum,
    payload: u32,
    /// [`told`].
    told: u16,
}

impl Leaving {
    fn new(header: &Header, new_data: bool) -> Self {
        let segment = |tcp: &TcpHeader| Segment {
            seq: tcp.seq,
            end: tcp.seq_end(),
            payload: tcp.payload,
            told: told(tcp),
        };
        Self { len: header.len, new_data, tcp: header.tcp.as_ref().map(segment) }
    }

    /// Whether it is data, as all that is not TCP.
    fn is_data(&self) -> bool {
        self.tcp.is_none_or(|segment| segment.payload > 0)
    }
}
