//! How much a flow may have waiting, and what happens to more.

use narrows_flow::FlowId;
use narrows_units::{Duration, Instant};

use super::{DefaultMode, repair};
use crate::{Packet, Reason, Verdicts};

/// Packets that what is not TCP may have waiting: one is served while the other is answered.
const OTHERS_PACKETS: u32 = 2;
/// The round trip it is given, as nothing tells its own: as CoDel assumes (RFC 8289, section 4.3).
pub(super) const OTHERS_RTT: Duration = Duration::from_millis(100);

impl<P: Packet> DefaultMode<P> {
    /// How many segments beyond what is served a sender may have in flight: two, so that one waits while the other is
    /// answered, and what the round trip takes beside a round.
    pub(super) fn permitted_in_flight(&self, id: u32) -> u32 {
        let slot = &self.flows[id as usize];
        let flow = self.tracker.flow(FlowId(id));
        let near = flow.receiver_rtt().unwrap_or(Duration::ZERO);
        let rtt = near + flow.sender_rtt().unwrap_or(Duration::from_millis(100));
        let round = self.flow_round(id).as_nanos().max(1);
        let under_way = (2 * rtt.as_nanos() + round / 2) / round;
        let wanted = u64::from(self.config.window_clamp_min) + u64::from(slot.extra) + under_way;
        u32::try_from(wanted).unwrap_or(u32::MAX).min(self.config.window_clamp_max)
    }

    /// Answers a backlog beyond what a flow needs: by a mark, by a drop TCP repairs, or not yet.
    #[inline]
    pub(super) fn manage_queue(&mut self, now: Instant, id: u32, verdicts: &mut Verdicts<P>) {
        if self.flows[id as usize].queue.packets() > self.config.k.min(OTHERS_PACKETS) {
            self.manage_backlog(now, id, verdicts);
        }
    }

    #[inline(never)]
    fn manage_backlog(&mut self, now: Instant, id: u32, verdicts: &mut Verdicts<P>) {
        let slot = &self.flows[id as usize];
        let waiting = slot.queue.packets();
        let flow = self.tracker.flow(FlowId(id));
        if !flow.is_tcp() && self.is_quic(id) {
            self.manage_quic_queue(now, id, verdicts);
            return;
        }
        if !flow.is_tcp() {
            self.manage_other_queue(now, id, verdicts);
            return;
        }
        if waiting <= self.config.k || (self.config.window_clamp && slot.clamp.obeyed(flow.max_seq())) {
            return;
        }
        let limit = self.config.k.max(2 * self.permitted_in_flight(id));
        let grace = self.config.first_window_grace && waiting <= limit + 8 && flow.sent_packets() <= 10;
        let patience = self.flow_round(id) * 4 + Duration::from_secs(1);
        if waiting <= limit || grace || slot.repair.is_open(now, patience) {
            return;
        }
        if let Some(at) = repair::pick(&self.packets, &slot.queue) {
            self.mark_or_drop(now, id, at, verdicts);
        }
    }

    /// What is not TCP cannot be told copies from data, nor be held back by a window: what waits delays what its sender
    /// repairs, by a round for each packet. So it has two quanta, or what its round trip takes if rounds are shorter;
    /// beyond that the oldest packet goes: QUIC learns of a loss soonest from it, and voice has no use for it. An
    /// ECN-capable one is marked first.
    fn manage_other_queue(&mut self, now: Instant, id: u32, verdicts: &mut Verdicts<P>) {
        let quanta =
            (OTHERS_RTT.as_nanos() / self.flow_round(id).as_nanos().max(1)).max(OTHERS_PACKETS.into());
        let room = quanta * u64::from(self.quantum_bytes().unsigned_abs()).max(self.mean_len >> 4);
        let queue = self.flows[id as usize].queue;
        let Some(oldest) = queue.head().filter(|_| queue.bytes() > room) else { return };
        let far = queue.bytes() > 2 * room;
        if far || !self.config.mark || !self.packets.get(oldest).header().ecn.is_capable() {
            self.drop_at(now, id, oldest, Reason::Sojourn, verdicts);
        } else if !self.flows[id as usize].repair.is_open(now, self.flow_round(id) * 4) {
            self.mark_or_drop(now, id, oldest, verdicts);
        }
    }

    /// Drops what waits for a receiver that has gone, but for one packet, in case it has not.
    pub(super) fn purge(&mut self, now: Instant, id: u32, verdicts: &mut Verdicts<P>) {
        while self.config.purge && self.flows[id as usize].queue.packets() > 1 {
            let Some(oldest) = self.flows[id as usize].queue.head() else { return };
            self.drop_at(now, id, oldest, Reason::Sojourn, verdicts);
        }
    }

    pub(super) fn mark_or_drop(&mut self, now: Instant, id: u32, at: u32, verdicts: &mut Verdicts<P>) {
        let packet = self.packets.get_mut(at);
        let end = packet.header().tcp.map(|t| t.seq_end()).unwrap_or_default();
        let mark = self.config.mark;
        if !(mark && self.counters.mark_packet(packet, Reason::Sojourn, verdicts)) {
            if !self.config.repairable {
                return;
            }
            self.drop_at(now, id, at, Reason::Repairable, verdicts);
        }
        self.flows[id as usize].repair.open(end, now);
    }

    /// Makes room, if there is too little: the longest backlog pays, with a packet it can repair if it has one.
    #[inline]
    pub(super) fn bound_memory(&mut self, now: Instant, verdicts: &mut Verdicts<P>) {
        if self.is_over_limit() {
            self.make_room(now, verdicts);
        }
    }

    #[inline]
    fn is_over_limit(&self) -> bool {
        self.packets.len() + self.control.len() > self.config.memory_packets as usize
            || self.backlog.bytes > self.config.memory_bytes
    }

    #[cold]
    fn make_room(&mut self, now: Instant, verdicts: &mut Verdicts<P>) {
        while self.waiting() > 0 && self.is_over_limit() {
            // Where no flow has more than a packet or two, the one that is served last.
            let limit = self.config.memory_packets as usize;
            let Some(id) = self.turns.victim(&self.flows, limit, self.longest.flow()) else { return };
            let queue = self.flows[id as usize].queue;
            let Some(at) = repair::pick(&self.packets, &queue).or(queue.tail()) else { return };
            self.drop_at(now, id, at, Reason::OverLimit, verdicts);
        }
    }
}
