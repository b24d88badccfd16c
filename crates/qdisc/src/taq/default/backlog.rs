//! Backlog of a flow: its limit, and what happens beyond.

use narrows_flow::FlowId;
use narrows_units::{Duration, Instant};

use super::datagrams::OTHERS_PACKETS;
use super::quic::Signal;
use super::{DefaultMode, repair};
use crate::{Packet, Reason, Verdicts};

/// The round trip to a sender that is not known.
const UNKNOWN_RTT: Duration = Duration::from_millis(100);

impl<P: Packet> DefaultMode<P> {
    /// Segments beyond what is served that a sender may have in flight.
    pub(super) fn in_flight(&self, id: FlowId) -> u32 {
        let flow = self.queues.flow(id);
        let near = flow.receiver_rtt().unwrap_or(Duration::ZERO);
        let rtt = near + flow.sender_rtt().unwrap_or(UNKNOWN_RTT);
        let (least, most) = (self.config.window_clamp_min, self.config.window_clamp_max);
        self.queues.state(id).clamp.in_flight(least, most, rtt, self.queues.steady_round(id))
    }

    /// Answers a backlog beyond what a flow needs: by a mark, by a drop TCP repairs, or not yet.
    #[inline]
    pub(super) fn manage_queue(&mut self, now: Instant, id: FlowId, verdicts: &mut Verdicts<P>) {
        if self.queues.state(id).waiting() > self.config.k.min(OTHERS_PACKETS) {
            self.manage_backlog(now, id, verdicts);
        }
    }

    /// Out of line for the same reason as [`DefaultMode::is_of_no_use`].
    #[inline(never)]
    fn manage_backlog(&mut self, now: Instant, id: FlowId, verdicts: &mut Verdicts<P>) {
        let (state, flow) = (self.queues.state(id), self.queues.flow(id));
        let waiting = state.waiting();
        if !flow.is_tcp() && self.quic.is_known(id, flow) {
            return self.manage_quic_queue(now, id, verdicts);
        }
        if !flow.is_tcp() {
            return self.manage_datagrams(now, id, verdicts);
        }
        if waiting <= self.config.k || (self.config.window_clamp && state.clamp.obeyed(flow.max_seq())) {
            return;
        }
        let limit = self.config.k.max(2 * self.in_flight(id));
        let grace = self.config.first_window_grace && waiting <= limit + 8 && flow.sent_packets() <= 10;
        let patience = self.queues.round(id) * 4 + Duration::from_secs(1);
        if waiting <= limit || grace || state.repair.is_open(now, patience) {
            return;
        }
        if let Some(at) = repair::pick(&mut self.queues, id) {
            self.mark_or_drop(now, id, at, verdicts);
        }
    }

    /// Answers the backlog of a flow of QUIC by its oldest packet, as [`QuicFlows::signal`](super::QuicFlows::signal)
    /// says.
    fn manage_quic_queue(&mut self, now: Instant, id: FlowId, verdicts: &mut Verdicts<P>) {
        let (waiting, round) = (self.queues.state(id).waiting(), self.queues.round(id));
        let Some(oldest) = self.queues.front(id) else { return };
        match self.quic.signal(now, id, self.queues.flow(id), waiting, round, &self.config) {
            Signal::None => {}
            Signal::Drop => {
                self.quic.lost_here(id);
                self.drop_at(now, id, oldest, Reason::Sojourn, verdicts);
            }
            Signal::Mark { or_drop } => {
                if !self.mark(oldest, verdicts) {
                    if !or_drop {
                        return;
                    }
                    self.quic.lost_here(id);
                    self.drop_at(now, id, oldest, Reason::Repairable, verdicts);
                }
                self.quic.signalled(now, id, waiting, round);
            }
        }
    }

    /// Drops what waits for a receiver that has gone, but for one packet, in case it has not.
    pub(super) fn purge(&mut self, now: Instant, id: FlowId, verdicts: &mut Verdicts<P>) {
        while self.config.purge && self.queues.state(id).waiting() > 1 {
            let Some(oldest) = self.queues.front(id) else { return };
            self.drop_at(now, id, oldest, Reason::Sojourn, verdicts);
        }
    }

    /// Marks a packet, if marking is enabled and the packet is ECN-capable.
    fn mark(&mut self, at: u32, verdicts: &mut Verdicts<P>) -> bool {
        self.config.mark && self.counters.mark_packet(self.queues.packet_mut(at), Reason::Sojourn, verdicts)
    }

    pub(super) fn mark_or_drop(&mut self, now: Instant, id: FlowId, at: u32, verdicts: &mut Verdicts<P>) {
        let end = self.queues.packet(at).header().tcp.map(|t| t.seq_end()).unwrap_or_default();
        if !self.mark(at, verdicts) {
            if !self.config.repairable {
                return;
            }
            self.drop_at(now, id, at, Reason::Repairable, verdicts);
        }
        self.queues.state_mut(id).repair.open(end, now);
    }

    #[cold]
    pub(super) fn drop_at(
        &mut self,
        now: Instant,
        id: FlowId,
        at: u32,
        reason: Reason,
        verdicts: &mut Verdicts<P>,
    ) {
        if let Some(packet) = self.queues.drop(now, id, at) {
            self.loss.drop(now);
            self.counters.drop_packet(packet, reason, verdicts);
        }
    }

    /// Makes room, if there is too little: the longest backlog pays, with a packet it can repair if it has one.
    #[inline]
    pub(super) fn bound_memory(&mut self, now: Instant, verdicts: &mut Verdicts<P>) {
        if self.is_over_limit() {
            self.make_room(now, verdicts);
        }
    }

    fn is_over_limit(&self) -> bool {
        let backlog = self.queues.backlog();
        backlog.packets > self.config.memory_packets as usize || backlog.bytes > self.config.memory_bytes
    }

    #[cold]
    fn make_room(&mut self, now: Instant, verdicts: &mut Verdicts<P>) {
        while self.queues.turns().flows() > 0 && self.is_over_limit() {
            // Where no flow has more than a packet or two, the one that is served last.
            let Some(id) = self.queues.victim(self.config.memory_packets as usize) else { return };
            let Some(at) = repair::pick(&mut self.queues, id).or(self.queues.back(id)) else { return };
            self.drop_at(now, id, at, Reason::OverLimit, verdicts);
        }
    }
}
