//! Whose turn it is: deficit round robin in bytes, and the newcomers before it.

use narrows_flow::FlowId;
use narrows_units::{Bytes, Duration, Instant};

use super::flow_state::{NEVER, Place};
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

    /// How long the link takes for a turn.
    pub(super) fn turn_time(&self) -> Duration {
        self.link.rate.time_to_send(Bytes(u64::from(self.turn_bytes().unsigned_abs())))
    }

    /// Flows that wait for a turn.
    pub(super) const fn waiting(&self) -> usize {
        (self.first.len() + self.newcomers.list.len() + self.round.len()) as usize
    }

    /// How long it takes to send one data packet of every flow that waits.
    pub(super) fn round_time(&self) -> Duration {
        self.packet_time * self.waiting().max(1) as u64
    }

    /// Puts a flow with a new backlog into a list.
    pub(super) fn join(&mut self, now: Instant, id: u32) {
        if self.slots[id as usize].place != Place::Out {
            return;
        }
        let (round_time, turn) = (self.round_time(), self.turn_bytes());
        let saved = self.saved(now, id, round_time);
        if self.common.share == Share::Pool {
            *self.busy.entry(self.tracker.flow(FlowId(id)).pool()).or_default() += 1;
        }
        let slot = &mut self.slots[id as usize];
        let rested = slot.served_at != NEVER && now.since(slot.served_at) >= round_time;
        if rested {
            // It has had nothing for a round: what it is owed is one turn, and its debt is paid. With more, flows of small
            // packets whose round trip is longer than a round live off the credit, several packets a round trip, while
            // the others take turns.
            slot.credit = slot.credit.max(signed(self.config.new_quantum.into()).min(turn));
            slot.deficit = slot.deficit.max(0);
        } else {
            slot.credit = slot.credit.max(saved);
        }
        if self.config.new_flows_first && slot.credit > 0 {
            if rested || saved > 0 || self.asks(id) {
                self.slots[id as usize].place = Place::First;
                self.first.push_back(&mut self.slots, id);
            } else {
                let slot = &mut self.slots[id as usize];
                (slot.place, slot.due) = (Place::New, self.newcomers.due(self.round.len()));
                self.newcomers.list.push_back(&mut self.slots, id);
            }
        } else {
            slot.place = Place::Round;
            if slot.deficit <= 0 {
                slot.deficit = slot.deficit.saturating_add(turn);
            }
            self.round.push_back(&mut self.slots, id);
        }
    }

    /// What the packet a flow comes with takes of the link, if the flow's share of the time since it was last served is
    /// as much; else nothing. So keystrokes, calls and queries, which come more than once a round and need less than a
    /// turn of it, do not wait for a round: at once or in its turn, a flow has its share, and nobody else's.
    fn saved(&self, now: Instant, id: u32, round_time: Duration) -> i32 {
        let slot = &self.slots[id as usize];
        let idle = slot.queue.packets() == 1 && slot.served_at != NEVER && slot.deficit >= 0;
        let Some(only) = slot.queue.head().filter(|_| idle) else { return 0 };
        let waited = now.since(slot.served_at).min(round_time).as_nanos();
        let share = u128::from(self.quantum(id).unsigned_abs()) * u128::from(waited);
        let cost = self.link.wire_len(self.packets.get(only).packet.len()).get();
        if share >= u128::from(cost) * u128::from(round_time.as_nanos()) { signed(cost) } else { 0 }
    }

    /// Whether all that a flow of TCP has waiting is a packet of half a turn at most: a request, mostly, and the answer to it
    /// has a wait of its own.
    fn asks(&self, id: u32) -> bool {
        let queue = &self.slots[id as usize].queue;
        let small = queue.bytes <= u64::from(self.turn_bytes().unsigned_abs() / 2);
        let only = queue.head().filter(|_| queue.packets() == 1 && small);
        only.is_some_and(|at| self.packets.get(at).packet.header().tcp.is_some())
    }

    /// Takes a flow without backlog out of its list.
    pub(super) fn leave(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        let list = match core::mem::take(&mut slot.place) {
            Place::Out => return,
            Place::First => &mut self.first,
            Place::New => &mut self.newcomers.list,
            Place::Round => &mut self.round,
        };
        list.remove(&mut self.slots, id);
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

    /// The flow whose turn it is. Ends because each step of the round adds a quantum to somebody.
    pub(super) fn next_flow(&mut self) -> Option<u32> {
        let turn = self.turn_bytes();
        loop {
            if let Some(id) = self.before_the_round() {
                if self.slots[id as usize].credit > 0 {
                    return Some(id);
                }
                let list = if !self.first.is_empty() { &mut self.first } else { &mut self.newcomers.list };
                list.remove(&mut self.slots, id);
                let slot = &mut self.slots[id as usize];
                slot.place = Place::Round;
                slot.deficit = slot.deficit.min(0).saturating_add(turn);
                self.round.push_back(&mut self.slots, id);
            } else if let Some(id) = self.round.first() {
                if self.slots[id as usize].deficit > 0 {
                    return Some(id);
                }
                let quantum = self.quantum(id);
                let slot = &mut self.slots[id as usize];
                slot.deficit = slot.deficit.saturating_add(quantum);
                self.round.move_to_back(&mut self.slots, id);
            } else {
                return None;
            }
        }
    }

    /// The flow that goes before the round now, if one does.
    fn before_the_round(&self) -> Option<u32> {
        let goes =
            |new: &u32| self.round.is_empty() || self.newcomers.go_first(self.slots[*new as usize].due);
        self.first.first().or_else(|| self.newcomers.list.first().filter(goes))
    }

    /// Notes what a flow that stood in `place` was served.
    pub(super) fn pay(&mut self, id: u32, place: Place, cost: i32) {
        let slot = &mut self.slots[id as usize];
        if place == Place::Round {
            slot.deficit = slot.deficit.saturating_sub(cost);
            self.newcomers.waited(cost);
        } else {
            slot.credit = slot.credit.saturating_sub(cost);
            if place == Place::New && !self.round.is_empty() {
                self.newcomers.passed(cost, slot.due);
            }
        }
    }

    /// What a turn is worth. With less than the largest packet a flow would miss a turn now and then, with more it would
    /// have several packets in one: either way somebody waits longer than a round.
    pub(super) fn turn_bytes(&self) -> i32 {
        signed(if self.config.quantum == 0 { self.largest.max(64) } else { u64::from(self.config.quantum) })
    }

    /// What a turn adds to a flow's deficit: more while it is young, so that short transfers end sooner.
    pub(super) fn quantum(&self, id: u32) -> i32 {
        let slot = &self.slots[id as usize];
        let young = u64::from(slot.served) < u64::from(self.config.young_kb) * 1000;
        let percent = if young { i64::from(self.config.young_weight) } else { 100 };
        let quantum = i64::from(self.turn_bytes()) * percent / 100;
        let quantum = i32::try_from(quantum).unwrap_or(i32::MAX);
        match self.common.share {
            Share::Flow => quantum,
            // A pool's flows divide its turn; eight bytes keep the round finite.
            Share::Pool => {
                let pool = self.tracker.flow(FlowId(id)).pool();
                (quantum / signed(self.busy.get(&pool).copied().unwrap_or(1).into())).max(8)
            }
        }
    }
}
