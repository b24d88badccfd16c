//! Deficit round robin in bytes over the old flows, and which flows go before them; the same of users, where the link
//! is shared between users first ([`crate::users`]).

use narrows_units::{Bytes, Duration, Instant};

use super::flow_state::NEVER;
use super::{Arrival, DefaultMode, signed};
use crate::Packet;
use crate::deficit::{Place, Turn};

/// New flows of a user that are sent first one after another, each with one packet: then they have to wait for what a
/// user's rounds bring.
const OF_NEW_FLOWS: i32 = 3;

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
        self.turns.flows()
    }

    /// How long it takes to send one data packet of every flow that waits.
    pub(super) fn round_time(&self) -> Duration {
        self.packet_time * self.waiting().max(1) as u64
    }

    /// After how long it is a flow's turn again: a round of users for each flow of its own.
    pub(super) fn flow_round(&self, id: u32) -> Duration {
        self.round_of(Some(self.flows[id as usize].user))
    }

    /// The same of a flow of this user.
    fn round_of(&self, user: Option<u32>) -> Duration {
        let Some(by) = &self.turns.by_user else { return self.round_time() };
        let user = user.and_then(|user| by.users.get(user));
        let flows = user.map_or(1, |user| user.flows.max(1));
        let own = user.and_then(|user| user.rate()).map(|rate| rate.time_to_send(Bytes(self.mean_len >> 4)));
        self.user_round().max(own.unwrap_or(Duration::ZERO)) * u64::from(flows)
    }

    /// How long it takes to send one data packet of every user who waits.
    fn user_round(&self) -> Duration {
        let users = self.turns.by_user.as_ref().map_or(0, |by| by.users.waiting());
        self.packet_time * users.max(1) as u64
    }

    /// Puts a flow into a list that had nothing waiting until this packet came, and its user, if that had nothing.
    pub(super) fn join(&mut self, now: Instant, id: u32, first: &Arrival) {
        let user = self.enter_user(id, first.circuit);
        let round_time = self.round_of(user);
        let rests = self.config.rested_first;
        let (quantum, new_quantum) = (self.quantum_bytes(), self.new_quantum());
        let Arrival { cost, .. } = *first;
        let small = first.len.get() <= u64::from(quantum.unsigned_abs() / 2);
        let request = small && first.tcp && self.may_send_control(now, user, Bytes(cost));
        let slot = &mut self.flows[id as usize];
        let accrued = if rests && cost > 0 {
            let accrued = Accrued { now, round_time, quantum, cost };
            accrued.credit(slot.served_at, slot.turn.deficit)
        } else {
            0
        };
        let standing = Standing { now, round_time, quantum, accrued, cost, new_quantum, request, rests };
        let place = match standing.place(slot.served_at, &mut slot.turn) {
            First::New if self.config.new_flows_first && request => Place::Sparse,
            First::Sparse if self.config.new_flows_first => Place::Sparse,
            First::New if self.config.new_flows_first => Place::New,
            _ => Place::Old,
        };
        if let Some(user) = user {
            let new_flow = place != Place::Old && slot.served == 0;
            let credit = if new_flow { slot.turn.credit } else { 0 };
            self.join_user(user, credit, standing);
        }
        self.turns.enter_list(&mut self.flows, id, place, quantum);
    }

    /// Puts a user with a new backlog into a list, by the rules by which its flow went to one where there are no users:
    /// with one flow each, the two are alike. New flows of a user who is not new, which have `credit`, go first now and
    /// then (the credit of [`crate::users`]).
    fn join_user(&mut self, at: u32, credit: i32, flow: Standing) {
        // A quarter more than one packet: for what a handshake sends beside its full one.
        let wanted = credit.min(flow.new_quantum + flow.new_quantum / 4);
        let most = OF_NEW_FLOWS * flow.new_quantum;
        let first = self.config.new_flows_first;
        let before = if flow.request { Place::Sparse } else { Place::New };
        let Some(by) = self.turns.by_user.as_mut() else { return };
        match by.users.at(at).turn.place() {
            Place::Idle => {}
            Place::Old if first => {
                by.users.credit_new_flow(at, wanted, most, before);
                return;
            }
            _ => return,
        }
        // Only for who has had nothing waiting: most packets do not come so far.
        let round_time = self.user_round();
        let Some(by) = self.turns.by_user.as_mut() else { return };
        let user = by.users.at_mut(at);
        let accrued = Accrued { now: flow.now, round_time, quantum: flow.quantum, cost: flow.cost };
        let accrued =
            if flow.cost == 0 || !flow.rests { 0 } else { accrued.credit(user.served_at, user.turn.deficit) };
        user.forget(flow.quantum, rounds_since(user.served_at, flow.now, round_time));
        let standing = Standing { round_time, accrued, ..flow };
        let place = match standing.place(user.served_at, &mut user.turn) {
            _ if !first => Place::Old,
            First::Sparse => Place::Sparse,
            First::New => before,
            First::Old if by.users.credit_new_flow(at, wanted, most, before) => before,
            First::Old => Place::Old,
        };
        by.users.enter(at, place, flow.quantum);
    }

    /// Takes a flow without backlog out of its list.
    pub(super) fn leave(&mut self, id: u32) {
        self.turns.leave(&mut self.flows, id);
    }

    /// The flow to be served.
    pub(super) fn next_flow(&mut self, now: Instant) -> Option<u32> {
        let quantum = self.quantum_bytes();
        self.turns.next(now, quantum, &mut self.flows)
    }

    /// The quantum. With less than the largest packet a flow would miss a round now and then, with more it would have
    /// several packets in one: either way somebody waits longer than a round.
    pub(super) fn quantum_bytes(&self) -> i32 {
        signed(if self.config.quantum == 0 { self.largest.max(64) } else { u64::from(self.config.quantum) })
    }

    /// What a new flow, or a new user, may send before the old ones.
    pub(super) fn new_quantum(&self) -> i32 {
        signed(self.config.new_quantum.into())
    }
}

/// Rounds since somebody was served.
fn rounds_since(served_at: Instant, now: Instant, round_time: Duration) -> i32 {
    let rounds = now.since(served_at).as_nanos() / round_time.as_nanos().max(1);
    if served_at == NEVER { 0 } else { i32::try_from(rounds).unwrap_or(i32::MAX) }
}

/// What the packet a flow or a user comes with takes of the link, if its share of the time since it was last served is
/// as much; else nothing. So keystrokes, calls and queries, which come more than once a round and need less than a
/// quantum, do not wait for a round. At once or later, such a flow has its share, and nobody else's.
struct Accrued {
    now: Instant,
    round_time: Duration,
    quantum: i32,
    cost: u64,
}

impl Accrued {
    fn credit(&self, served_at: Instant, deficit: i32) -> i32 {
        if served_at == NEVER || deficit < 0 {
            return 0;
        }
        let waited = self.now.since(served_at).min(self.round_time).as_nanos();
        let share = u128::from(self.quantum.unsigned_abs()) * u128::from(waited);
        let due = u128::from(self.cost) * u128::from(self.round_time.as_nanos());
        if share >= due { signed(self.cost) } else { 0 }
    }
}

/// How somebody who has something waiting again stands.
#[derive(Clone, Copy)]
struct Standing {
    now: Instant,
    round_time: Duration,
    quantum: i32,
    new_quantum: i32,
    accrued: i32,
    /// What its packet takes of the link.
    cost: u64,
    /// That is of TCP and half a quantum at most, so mostly a request, to which the answer has a wait of its own; and
    /// such may go before all.
    request: bool,
    /// Whether who has rested, or comes with a packet that it has saved up for, goes first.
    rests: bool,
}

/// Who goes before whom.
enum First {
    /// It needs no more than its share.
    Sparse,
    /// It has something of its first credit left.
    New,
    Old,
}

impl Standing {
    fn place(&self, served_at: Instant, turn: &mut Turn) -> First {
        let Turn { credit, deficit, .. } = turn;
        let rested = self.rests && served_at != NEVER && self.now.since(served_at) >= self.round_time;
        if rested {
            // It has had nothing for a round: it gets one quantum, and its debt is paid. With more, flows of small
            // packets whose round trip is longer than a round live off the credit, several packets a round trip, while
            // the others have one a round.
            *credit = (*credit).max(self.new_quantum.min(self.quantum));
            *deficit = (*deficit).max(0);
        } else {
            *credit = (*credit).max(self.accrued);
        }
        // A packet that takes more than half of the credit has all of it. What it left, however little, would let a
        // second one go first: 8 bytes of 1514 where the MTU is 1492.
        let cost = signed(self.cost);
        if cost > *credit / 2 {
            *credit = (*credit).min(cost);
        }
        match *credit > 0 {
            true if rested || self.accrued > 0 => First::Sparse,
            true => First::New,
            false => First::Old,
        }
    }
}
