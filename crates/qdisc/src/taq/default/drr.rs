//! Deficit round robin in bytes over the old flows, and which flows go before them.

use narrows_flow::FlowId;
use narrows_units::{Bytes, Duration, Instant};

use super::flow_state::{FlowList, NEVER};
use super::{DefaultMode, signed};
use crate::Packet;
use crate::taq::Share;

impl<P: Packet> DefaultMode<P> {
    /// Sets the average length of a data packet on the link, in 1/16 bytes, and the time the link takes for one.
    pub(super) fn set_mean_len(&mut self, mean_len: u64) {
        if mean_len >> 4 != self.mean_len >> 4 {
            self.packet_time = self.link.rate.time_to_send(Bytes(mean_len >> 4));
        }
        self.mean_len = mean_len;
    }

    /// How long the link takes for a quantum.
    pub(super) fn quantum_time(&self) -> Duration {
        self.link.rate.time_to_send(Bytes(u64::from(self.quantum_bytes().unsigned_abs())))
    }

    /// Flows with packets waiting.
    pub(super) const fn waiting(&self) -> usize {
        (self.sparse_flows.len() + self.new_flows.list.len() + self.old_flows.len()) as usize
    }

    /// How long it takes to send one data packet of every flow that waits.
    pub(super) fn round_time(&self) -> Duration {
        self.packet_time * self.waiting().max(1) as u64
    }

    /// Puts a flow with a new backlog into a list.
    pub(super) fn join(&mut self, now: Instant, id: u32) {
        if self.flows[id as usize].place != FlowList::Idle {
            return;
        }
        let (round_time, quantum) = (self.round_time(), self.quantum_bytes());
        let accrued = self.accrued_credit(now, id, round_time);
        if self.common.share == Share::Pool {
            *self.busy.entry(self.tracker.flow(FlowId(id)).pool()).or_default() += 1;
        }
        let slot = &mut self.flows[id as usize];
        let rested = slot.served_at != NEVER && now.since(slot.served_at) >= round_time;
        if rested {
            // It has had nothing for a round: it gets one quantum, and its debt is paid. With more, flows of small
            // packets whose round trip is longer than a round live off the credit, several packets a round trip, while
            // the others have one a round.
            slot.credit = slot.credit.max(signed(self.config.new_quantum.into()).min(quantum));
            slot.deficit = slot.deficit.max(0);
        } else {
            slot.credit = slot.credit.max(accrued);
        }
        if self.config.new_flows_first && slot.credit > 0 {
            if rested || accrued > 0 || self.is_request(id) {
                self.flows[id as usize].place = FlowList::Sparse;
                self.sparse_flows.push_back(&mut self.flows, id);
            } else {
                let slot = &mut self.flows[id as usize];
                (slot.place, slot.due) = (FlowList::New, self.new_flows.due(self.old_flows.len()));
                self.new_flows.list.push_back(&mut self.flows, id);
            }
        } else {
            slot.place = FlowList::Old;
            if slot.deficit <= 0 {
                slot.deficit = slot.deficit.saturating_add(quantum);
            }
            self.old_flows.push_back(&mut self.flows, id);
        }
    }

    /// What the packet a flow comes with takes of the link, if the flow's share of the time since it was last served is
    /// as much; else nothing. So keystrokes, calls and queries, which come more than once a round and need less than a
    /// quantum, do not wait for a round. At once or later, such a flow has its share, and nobody else's.
    fn accrued_credit(&self, now: Instant, id: u32, round_time: Duration) -> i32 {
        let slot = &self.flows[id as usize];
        let idle = slot.queue.packets() == 1 && slot.served_at != NEVER && slot.deficit >= 0;
        let Some(only) = slot.queue.head().filter(|_| idle) else { return 0 };
        let waited = now.since(slot.served_at).min(round_time).as_nanos();
        let share = u128::from(self.quantum(id).unsigned_abs()) * u128::from(waited);
        let cost = self.link.wire_len(self.packets.get(only).packet.len()).get();
        if share >= u128::from(cost) * u128::from(round_time.as_nanos()) { signed(cost) } else { 0 }
    }

    /// Whether all that a flow of TCP has waiting is a packet of half a quantum at most: a request, mostly, and the
    /// answer to it has a wait of its own.
    fn is_request(&self, id: u32) -> bool {
        let queue = &self.flows[id as usize].queue;
        let small = queue.bytes <= u64::from(self.quantum_bytes().unsigned_abs() / 2);
        let only = queue.head().filter(|_| queue.packets() == 1 && small);
        only.is_some_and(|at| self.packets.get(at).packet.header().tcp.is_some())
    }

    /// Takes a flow without backlog out of its list.
    pub(super) fn leave(&mut self, id: u32) {
        let slot = &mut self.flows[id as usize];
        let list = match core::mem::take(&mut slot.place) {
            FlowList::Idle => return,
            FlowList::Sparse => &mut self.sparse_flows,
            FlowList::New => &mut self.new_flows.list,
            FlowList::Old => &mut self.old_flows,
        };
        list.remove(&mut self.flows, id);
        if self.common.share == Share::Pool {
            let pool = self.tracker.flow(FlowId(id)).pool();
            if let Some(flows) = self.busy.get_mut(&pool) {
                *flows -= 1;
                if *flows == 0 {
                    self.busy.remove(&pool);
                }
            }
        }
    }

    /// The flow to be served. Ends because each step over the old flows adds a quantum to one.
    pub(super) fn next_flow(&mut self) -> Option<u32> {
        let quantum = self.quantum_bytes();
        loop {
            if let Some(id) = self.before_old_flows() {
                if self.flows[id as usize].credit > 0 {
                    return Some(id);
                }
                let list = if !self.sparse_flows.is_empty() {
                    &mut self.sparse_flows
                } else {
                    &mut self.new_flows.list
                };
                list.remove(&mut self.flows, id);
                let slot = &mut self.flows[id as usize];
                slot.place = FlowList::Old;
                slot.deficit = slot.deficit.min(0).saturating_add(quantum);
                self.old_flows.push_back(&mut self.flows, id);
            } else if let Some(id) = self.old_flows.first() {
                if self.flows[id as usize].deficit > 0 {
                    return Some(id);
                }
                let quantum = self.quantum(id);
                let slot = &mut self.flows[id as usize];
                slot.deficit = slot.deficit.saturating_add(quantum);
                self.old_flows.move_to_back(&mut self.flows, id);
            } else {
                return None;
            }
        }
    }

    /// The flow that goes before the old ones now, if one does.
    fn before_old_flows(&self) -> Option<u32> {
        let goes = |new: &u32| {
            self.old_flows.is_empty() || self.new_flows.may_go_first(self.flows[*new as usize].due)
        };
        self.sparse_flows.first().or_else(|| self.new_flows.list.first().filter(goes))
    }

    /// Charges a flow of list `place` for what it was served.
    pub(super) fn charge(&mut self, id: u32, place: FlowList, cost: i32) {
        let slot = &mut self.flows[id as usize];
        if place == FlowList::Old {
            slot.deficit = slot.deficit.saturating_sub(cost);
            self.new_flows.waited(cost);
        } else {
            slot.credit = slot.credit.saturating_sub(cost);
            if place == FlowList::New && !self.old_flows.is_empty() {
                self.new_flows.passed(cost, slot.due);
            }
        }
    }

    /// The quantum. With less than the largest packet a flow would miss a round now and then, with more it would have
    /// several packets in one: either way somebody waits longer than a round.
    pub(super) fn quantum_bytes(&self) -> i32 {
        signed(if self.config.quantum == 0 { self.largest.max(64) } else { u64::from(self.config.quantum) })
    }

    /// What a round adds to a flow's deficit: more while it is young, so that short transfers end sooner.
    pub(super) fn quantum(&self, id: u32) -> i32 {
        let slot = &self.flows[id as usize];
        let young = u64::from(slot.served) < u64::from(self.config.young_kb) * 1000;
        let percent = if young { i64::from(self.config.young_weight) } else { 100 };
        let quantum = i64::from(self.quantum_bytes()) * percent / 100;
        let quantum = i32::try_from(quantum).unwrap_or(i32::MAX);
        match self.common.share {
            Share::Flow => quantum,
            // A pool's flows divide its quantum; eight bytes keep a round finite.
            Share::Pool => {
                let pool = self.tracker.flow(FlowId(id)).pool();
                (quantum / signed(self.busy.get(&pool).copied().unwrap_or(1).into())).max(8)
            }
        }
    }
}
