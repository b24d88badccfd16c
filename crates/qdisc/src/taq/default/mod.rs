//! TAQ's default mode.
//!
//! The paper's mode decides what to drop by what the flow's phase makes of it. This one removes the causes of drops
//! first, and drops only what TCP repairs without a timeout:
//!
//! - **Control packets first** ([`control`]).
//! - **A queue for each flow**, served by deficit round robin in bytes (Shreedhar and Varghese, 1995). A flow's backlog
//!   harms nobody but itself. A sparse flow, which needs less than its share, is served at once. A new one goes before
//!   the old ones with a small credit, so that first packets do not wait (the new list of RFC 8290, here a budget for
//!   each flow's life), on a part of the link ([`crate::new_flows`]).
//! - **Suppressed duplicates** ([`duplicates`]).
//! - **The window clamp** ([`clamp`]).
//! - **Marks, or drops a flow can repair** ([`repair`]), where the clamp does not reach: no timestamps of the
//!   handshake, one-way view, another transport.
//! - **Memory bounds** ([`longest`]).
//! - **Admission control** ([`super::admission`]): new pools wait when a round takes longer than a stall may last.
//!
//! Each part can be switched off by name ([`super::DefaultConfig`]). Times are in nanoseconds, sizes in bytes of IP
//! packet; DRR counts bytes on the link, framing included.

mod aqm;
mod clamp;
mod control;
mod drr;
mod duplicates;
mod flow_state;
mod load;
mod longest;
mod manage;
mod old_flows;
mod packets;
mod quic;
mod repair;
mod reverse;
mod strangers;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::VecDeque;

use narrows_flow::{FlowId, PacketKind, Tracker, TrackerConfig};
use narrows_units::{Bytes, Duration, Instant};
use narrows_wire::{Proto, TcpHeader};

use self::control::ControlPackets;
use self::flow_state::FlowState;
use self::longest::Longest;
use self::packets::PacketSlab;
use self::quic::QuicFlow;
use self::turns::Turns;
use super::admission::{Admission, Decisions, SynDirection};
use super::{Common, DefaultConfig, LossWindow};
use crate::{
    Backlog, Counters, Discipline, Packet, Qdisc, Reason, ReversePath, ShaperConfig, Verdict, Verdicts,
};

/// TAQ in its default mode, for one direction of a link.
#[derive(Debug)]
pub struct DefaultMode<P> {
    common: Common,
    config: DefaultConfig,
    link: ShaperConfig,
    tracker: Tracker,
    flows: Vec<FlowState>,
    /// By the same slots; as long as the last flow of QUIC needs.
    quic: Vec<QuicFlow>,
    packets: PacketSlab<P>,
    control: ControlPackets<P>,
    turns: Turns,
    longest: Longest,
    backlog: Backlog,
    counters: Counters,
    admission: Admission<P>,
    /// When connections were admitted of late.
    admitted_at: VecDeque<Instant>,
    loss: LossWindow,
    /// Average length of a data packet on the link, in 1/16 bytes.
    mean_len: u64,
    /// How long the link takes for such a packet.
    packet_time: Duration,
    /// The largest packet of late on the link, in bytes.
    largest: u64,
}

/// A size as a credit or debt.
fn signed(bytes: u64) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

impl<P: Packet> DefaultMode<P> {
    /// An empty queue for `link`; `seed` is for hashing.
    #[must_use]
    pub fn new(common: Common, config: DefaultConfig, link: ShaperConfig, seed: u64) -> Self {
        let tracker = TrackerConfig {
            capacity: common.flows as usize,
            users: common.users(&link, common.by_user()),
            ..TrackerConfig::default()
        };
        Self {
            tracker: Tracker::new(tracker, seed),
            common,
            config,
            link,
            flows: Vec::new(),
            quic: Vec::new(),
            packets: PacketSlab::new(),
            control: ControlPackets::new(),
            turns: load::turns(&common, &config, &link, seed),
            longest: Longest::default(),
            backlog: Backlog::default(),
            counters: Counters::default(),
            admission: Admission::new(load::admission_config(&common, &config, &link)),
            admitted_at: VecDeque::new(),
            loss: LossWindow::new(common.w_loss),
            mean_len: 1500 << 4,
            packet_time: link.rate.time_to_send(Bytes(1500)),
            largest: 0,
        }
    }

    /// The state of a flow, as new if the flow is; `restarted` says that a new connection took the same key.
    fn flow_state(&mut self, id: FlowId, restarted: bool) -> &mut FlowState {
        let at = id.0 as usize;
        if at >= self.flows.len() {
            self.flows.resize(at + 1, FlowState::default());
        }
        let generation = self.tracker.flow(id).generation();
        let slot = &mut self.flows[at];
        if restarted || slot.generation != generation {
            slot.restart(generation, signed(self.config.new_quantum.into()));
        }
        slot
    }

    /// Takes a packet of a flow out of the store; the flow leaves its list if that was the last.
    fn take(&mut self, id: u32, at: u32) -> packets::Entry<P> {
        let slot = &mut self.flows[id as usize];
        let entry = self.packets.remove(&mut slot.queue, at, |p: &P| p.len().get());
        self.backlog.sub(entry.packet.len());
        self.tracker.unqueued(FlowId(id));
        self.longest.update(&mut self.flows, id);
        self.turns.queued(id, false);
        if self.flows[id as usize].queue.is_empty() {
            self.leave(id);
        }
        entry
    }

    fn drop_at(&mut self, now: Instant, id: u32, at: u32, reason: Reason, verdicts: &mut Verdicts<P>) {
        let packet = self.take(id, at).packet;
        self.tracker.dropped(now, FlowId(id), packet.header());
        self.loss.drop(now);
        self.counters.drop_packet(packet, reason, verdicts);
    }

    /// Whether a copy can be discarded (see [`duplicates`]).
    fn is_superfluous(&mut self, now: Instant, id: u32, tcp: &TcpHeader) -> bool {
        if !self.config.suppress_duplicates {
            return false;
        }
        let (seq, end) = (tcp.seq, tcp.seq_end());
        let flow = self.tracker.flow(FlowId(id));
        let (near, far) = (flow.receiver_rtt(), flow.sender_rtt());
        let slot = &mut self.flows[id as usize];
        if duplicates::waits(&mut self.packets, &slot.queue, seq, end) {
            return true;
        }
        if !self.config.suppress_departed {
            return false;
        }
        // A quarter more than the shortest round trip seen, for its jitter.
        let margin = |rtt: Duration| rtt + rtt / 4 + Duration::from_millis(2);
        if slot.highest_ack.is_some_and(|a| end.at_or_before(a)) {
            return far.is_some_and(|far| now.since(slot.acked_at) < margin(far));
        }
        if slot.repair.shows_loss() && slot.highest_ack.is_some_and(|a| a.at_or_before(seq)) {
            // Lost behind the box.
            return false;
        }
        // 40 ms: the delayed acknowledgment of common stacks.
        near.zip(far).is_some_and(|(near, far)| {
            slot.departures.suppress(seq, end, now, margin(near + far) + Duration::from_millis(40))
        })
    }

    /// A retransmission goes before the flow's older packets when they have long to wait; their timestamps are raised
    /// to its own, or the receiver would discard them as old duplicates (PAWS, RFC 7323, section 5).
    fn goes_first(&mut self, id: u32, tcp: &TcpHeader) -> bool {
        let queue = self.flows[id as usize].queue;
        // Below this wait, overtaking makes the sender's RACK (RFC 8985) take the overtaken packets for lost.
        let far_off = Duration::from_millis(1500);
        if !self.config.retransmissions_first
            || queue.is_empty()
            || self.flow_round(id) * u64::from(queue.packets()) < far_off
        {
            return false;
        }
        let Some((tsval, _)) = tcp.timestamps else { return true };
        let mut next = queue.head();
        while let Some(at) = next {
            let entry = self.packets.get_mut(at);
            let older = entry
                .packet
                .header()
                .tcp
                .and_then(|t| t.timestamps)
                .is_some_and(|(v, _)| narrows_units::SeqNum(v).before(narrows_units::SeqNum(tsval)));
            if older {
                if !entry.packet.set_tsval(tsval) {
                    return false;
                }
                self.counters.restamped += 1;
            }
            next = self.packets.after(&queue, at);
        }
        true
    }

    fn note_arrival(&mut self, id: u32, tcp: &TcpHeader) {
        let slot = &mut self.flows[id as usize];
        slot.note_mss(tcp);
        let payload = u16::try_from(tcp.payload).unwrap_or(u16::MAX);
        slot.segment = slot.segment.max(payload);
    }

    fn put(&mut self, now: Instant, id: u32, packet: P, kind: PacketKind, verdicts: &mut Verdicts<P>) {
        let len = packet.len();
        let idle = self.flows[id as usize].queue.is_empty();
        let room = self.packets.len() + self.control.len() < self.config.memory_packets as usize;
        if room && self.config.new_flows_first && ControlPackets::<P>::is_control(packet.header(), idle) {
            let cost = self.link.wire_len(len);
            let user = self.user_of(id, &packet);
            if self.may_send_control(now, user, cost) {
                self.backlog.add(len);
                self.tracker.queued(FlowId(id));
                self.control.push(id, packet);
                self.bound_memory(now, verdicts);
                return;
            }
        }
        let tcp = packet.header().tcp.as_ref();
        let front = kind == PacketKind::Retransmission && tcp.is_some_and(|t| self.goes_first(id, t));
        let new_data =
            matches!(kind, PacketKind::New | PacketKind::Fin | PacketKind::Reordered | PacketKind::NotTcp);
        let slot = &mut self.flows[id as usize];
        if front {
            self.packets.push_front(&mut slot.queue, packet, len.get(), new_data);
        } else {
            self.packets.push_back(&mut slot.queue, packet, len.get(), new_data);
        }
        self.backlog.add(len);
        self.tracker.queued(FlowId(id));
        self.longest.update(&mut self.flows, id);
        self.join(now, id);
        self.turns.queued(id, true);
        self.manage_queue(now, id, verdicts);
        self.bound_memory(now, verdicts);
    }

    fn note_departure(&mut self, now: Instant, id: u32, packet: &P, new_data: bool) {
        let header = packet.header();
        let wire = self.link.wire_len(header.len);
        let held = |slot: &FlowState, max| slot.clamp.holds(max, u32::from(slot.segment));
        let max_seq = self.tracker.flow(FlowId(id)).max_seq();
        let slot = &mut self.flows[id as usize];
        let first_data = slot.served == 0 && header.is_tcp_data();
        if header.tcp.as_ref().is_none_or(|t| t.payload > 0) {
            slot.served = slot.served.saturating_add(u32::try_from(header.len.get()).unwrap_or(u32::MAX));
            slot.served_at = now;
            self.turns.served(now, id);
        }
        let slot = &mut self.flows[id as usize];
        if let Some(tcp) = header.tcp.as_ref() {
            let end = tcp.seq_end();
            // What nobody believes was sent (a segment far ahead) has not been served.
            if end.at_or_before(max_seq) {
                slot.served_end = Some(slot.served_end.map_or(end, |e| e.max(end)));
            }
            if tcp.payload > 0 {
                if new_data {
                    slot.departures.note(&mut slot.next_departure, tcp.seq, end, now);
                    self.counters.goodput_bytes += Bytes(u64::from(tcp.payload));
                }
                if slot.queue.is_empty() && held(slot, max_seq) {
                    slot.extra = slot.extra.saturating_add(1).min(64);
                } else if slot.queue.packets() >= 3 {
                    slot.extra = slot.extra.saturating_sub(1);
                }
            }
        }
        // What conntrack has put together leaves in pieces again.
        let wire = wire.get().min(self.link.largest().get());
        self.largest = wire.max(self.largest - self.largest / 1024);
        if header.is_tcp_data() || header.tcp.is_none() {
            self.set_mean_len(self.mean_len - (self.mean_len >> 4) + wire);
        }
        self.tracker.departed(now, FlowId(id), header);
        if first_data && self.common.admission {
            self.prove_user(id, packet);
        }
    }

    /// A packet that may be queued.
    fn admit(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        // The record and the state come from memory together, while other things are done.
        let likely = self.tracker.likely(&packet.header().key);
        if let Some(slot) = self.flows.get(likely.index()) {
            slot.prefetch();
        }
        self.turns.prefetch(likely.index());
        self.loss.arrival(now);
        self.tracker.tick(now);
        let seen = self.tracker.forward_from(now, packet.header(), likely);
        self.counters.evicted += u64::from(seen.evicted_in_use);
        let Some(flow) = seen.id else {
            // The table is full of flows with a backlog.
            self.counters.drop_packet(packet, Reason::OverLimit, verdicts);
            return;
        };
        if seen.fresh || seen.restarted {
            self.flow_state(flow, seen.restarted && seen.kind == PacketKind::Syn);
        }
        if let Some(tcp) = packet.header().tcp.as_ref() {
            self.note_arrival(flow.0, tcp);
            if seen.kind == PacketKind::Retransmission && self.is_superfluous(now, flow.0, tcp) {
                self.counters.suppressed += 1;
                verdicts.push(Verdict::Suppressed { packet });
                return;
            }
        }
        if packet.header().key.proto == Proto::UDP
            && self.is_useless_probe(now, flow, packet.header(), verdicts)
        {
            self.counters.suppressed += 1;
            verdicts.push(Verdict::Suppressed { packet });
            return;
        }
        self.put(now, flow.0, packet, seen.kind, verdicts);
    }
}

impl<P: Packet> Qdisc<P> for DefaultMode<P> {
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.counters.arrive(packet.len());
        if !self.common.admission || !Admission::<P>::is_connection_request(packet.header()) {
            self.admit(now, packet, verdicts);
        } else if let Some(packet) = self.request(now, SynDirection::Own, packet, verdicts) {
            self.admit(now, packet, verdicts);
        }
    }

    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        if let Some((id, packet)) = self.control.pop() {
            self.backlog.sub(packet.len());
            self.tracker.unqueued(FlowId(id));
            self.pay_for_control(now, &packet);
            self.note_departure(now, id, &packet, false);
            self.counters.send(packet.len());
            return Some(packet);
        }
        let id = self.next_flow(now)?;
        let slot = &self.flows[id as usize];
        slot.prefetch();
        self.tracker.prefetch(FlowId(id));
        let (place, at) = (slot.place, slot.queue.head()?);
        self.packets.prefetch(at);
        let entry = self.take(id, at);
        self.charge(now, id, place, signed(self.link.wire_len(entry.packet.len()).get()));
        self.note_departure(now, id, &entry.packet, entry.new_data);
        if entry.packet.header().key.proto == Proto::UDP {
            self.quic_departed(now, id, entry.packet.header(), verdicts);
        }
        self.counters.send(entry.packet.len());
        Some(entry.packet)
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        match &self.turns.by_user {
            Some(by) if self.control.len() == 0 => by.users.next_ready(now),
            _ => (self.backlog.packets > 0).then_some(now),
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl<P: Packet> ReversePath<P> for DefaultMode<P> {
    fn reverse(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) -> Option<P> {
        let packet = self.request(now, SynDirection::Reverse, packet, verdicts)?;
        Some(self.pass_back(now, packet, verdicts))
    }

    fn release(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        loop {
            let load = self.load(now);
            let mut decisions = Decisions { counters: &mut self.counters, verdicts };
            let released = self.admission.release(now, load, &mut decisions)?;
            self.note_admission(now);
            match released {
                (SynDirection::Own, packet) => self.admit(now, packet, verdicts),
                (SynDirection::Reverse, packet) => return Some(self.pass_back(now, packet, verdicts)),
            }
        }
    }

    fn next_release(&self, now: Instant) -> Option<Instant> {
        if self.admission.held() == 0 {
            return None;
        }
        self.admission.next_release(now, self.load(now), self.next_change(now))
    }

    fn held(&self) -> usize {
        self.admission.held()
    }

    fn release_all(&mut self, now: Instant) {
        self.admission.release_all(now);
    }
}

impl<P: Packet> Discipline<P> for DefaultMode<P> {
    fn reverse_path(&self) -> Option<&dyn ReversePath<P>> {
        Some(self)
    }

    fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<P>> {
        Some(self)
    }
}
