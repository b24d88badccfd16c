//! Tracker of flows: events in, records and counts out.

use narrows_units::{Duration, Instant};
use narrows_users::User;
use narrows_wire::{Flags, FlowKey, Header, TcpHeader};

use crate::active::Active;
use crate::calls::{Call, Caller, Calls};
use crate::census::{Census, Counters};
use crate::config::TrackerConfig;
use crate::flags::FlowFlags;
use crate::flow::Flow;
use crate::packets::PacketKind;
use crate::phase::Phase;
use crate::table::{Expected, Likely, Table};
use crate::times::Coarse;
use crate::wheel::Wheel;

/// A flow's slot in the table, below its capacity. The id stays the flow's own while the flow has packets waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct FlowId(pub u32);

impl FlowId {
    /// Index into arrays that others keep beside the table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Facts about a packet that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Observation {
    /// The flow's slot; `None` if the table is full of flows with packets waiting.
    pub id: Option<FlowId>,
    /// Whether the slot was given to the flow since the slot's last observation: state kept elsewhere by slot is
    /// another flow's.
    pub fresh: bool,
    /// Whether a new connection began on the same key. The record starts again; packets of the old one may still wait.
    pub restarted: bool,
    /// The packet's kind.
    pub kind: PacketKind,
    /// Whether the record of a flow in use was given up to make room.
    pub evicted_in_use: bool,
}

/// Follows the flows of one direction of a link.
///
/// `now` never decreases from call to call.
#[derive(Clone, Debug)]
pub struct Tracker {
    pub(crate) config: TrackerConfig,
    pub(crate) table: Table,
    pub(crate) wheel: Wheel,
    pub(crate) by_phase: [usize; Phase::ALL.len()],
    active: Active,
    counters: Counters,
    /// New connections in place of connections that live.
    calls: Calls,
    /// Time up to which the budget for looks has been spent.
    paid_until: Instant,
    /// Whether looks come late at present.
    late: bool,
    /// Whether the next packet of the other direction has to wait.
    waits: bool,
}

/// Most flows one [`Tracker::tick`] looks at, so that no packet waits for more than some tens of microseconds.
const TICK_BUDGET: u64 = 256;

/// Least time between two looks at flows, on average: 31 250 looks a second, each some hundred nanoseconds where the
/// record is not in the cache.
const LOOK_PACE: Duration = Duration::from_micros(32);

/// Time until the next look at a flow that is past its time but cannot go yet.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Tracker {
    /// An empty tracker. `seed` keys the hash: draw it where nobody can guess it. Settings out of range are moved to
    /// the nearest in range; use [`TrackerConfig::check`] to tell people of them.
    #[must_use]
    pub fn new(config: TrackerConfig, seed: u64) -> Self {
        let config = config.clamped();
        Self {
            config,
            table: Table::new(config.capacity, config.users, seed),
            wheel: Wheel::new(),
            by_phase: [0; Phase::ALL.len()],
            active: Active::new(config.capacity, seed),
            counters: Counters::default(),
            calls: Calls::default(),
            paid_until: Instant::ZERO,
            late: false,
            waits: false,
        }
    }

    /// Takes a packet of the queued direction that arrives.
    pub fn forward(&mut self, now: Instant, h: &Header) -> Observation {
        let likely = self.likely(self.expect(&h.key));
        self.forward_from(now, h, likely)
    }

    /// Does [`Tracker::forward`] for a packet for whose key [`Tracker::likely`] has been asked.
    pub fn forward_from(&mut self, now: Instant, h: &Header, likely: Likely) -> Observation {
        let evicted_before = self.counters.evicted_in_use;
        let Some(id) = self.find_or_make(now, &h.key, likely) else {
            self.counters.unrecorded += 1;
            let kind = PacketKind::alone(h);
            return Observation { id: None, fresh: false, restarted: false, kind, evicted_in_use: false };
        };
        let before = self.flow(id).seen;
        if let Some(syn) = h.tcp.as_ref().filter(|tcp| tcp.flags.has(Flags::SYN))
            && self.is_pending(now, id, Caller::Sender, syn)
        {
            return Observation {
                id: Some(id),
                fresh: false,
                restarted: false,
                kind: PacketKind::Syn,
                evicted_in_use: false,
            };
        }
        let kind = self.event(now, id, |flow, config| flow.arrive(now, h, config));
        let flow = &mut self.table.slots[id.index()];
        let (active, moves) = (flow.flags.has(FlowFlags::ACTIVE), Table::moves(flow, before));
        let news = FlowFlags::REPORT_NEW | FlowFlags::REPORT_RESTARTED;
        let odd = flow.flags.any(news | FlowFlags::OVERLAP | FlowFlags::OUT_OF_WINDOW);
        if moves {
            self.table.relist(id.0);
        }
        if !active {
            self.count_active(now, id);
        }
        let (fresh, restarted) = if odd { self.take_news(id) } else { (false, false) };
        let evicted_in_use = self.counters.evicted_in_use > evicted_before;
        Observation { id: Some(id), fresh, restarted, kind, evicted_in_use }
    }

    /// Whether a SYN calls for a new connection in place of one that lives: nothing changes until it is answered. One
    /// that answers such a call begins it.
    #[cold]
    fn is_pending(&mut self, now: Instant, id: FlowId, from: Caller, tcp: &TcpHeader) -> bool {
        let generation = self.flow(id).generation();
        if !tcp.flags.has(Flags::ACK) {
            let pending = self.flow(id).is_called_anew(from, tcp);
            if pending {
                self.calls.note(Call { id, generation, caller: from, at: now, syn: *tcp });
            }
            return pending;
        }
        let caller = if from == Caller::Sender { Caller::Receiver } else { Caller::Sender };
        if let Some(call) = self.calls.take(id, generation, caller, tcp) {
            self.event(now, id, |flow, config| flow.begin_anew(now, caller, &call, config));
        }
        false
    }

    /// Notes that the next packet of the other direction has to wait here before the packet goes on to the sender: the
    /// wait is no part of the path.
    pub const fn behind_others(&mut self) {
        self.waits = true;
    }

    /// Whether the next packet of the other direction has to wait here.
    #[must_use]
    pub const fn is_behind_others(&self) -> bool {
        self.waits
    }

    /// Takes a packet of the other direction that passes. A SYN makes a record of the flow it opens.
    pub fn reverse(&mut self, now: Instant, h: &Header) -> Option<FlowId> {
        let (key, waits) = (h.key.reverse(), core::mem::take(&mut self.waits));
        let opens = h.tcp.as_ref().is_some_and(|t| t.flags.has(Flags::SYN) && !t.flags.has(Flags::ACK));
        let id = if opens {
            let id = self.find_or_make(now, &key, self.table.likely(self.table.expect(&key)));
            self.counters.unrecorded += u64::from(id.is_none());
            id?
        } else {
            self.lookup(&key)?
        };
        if let Some(tcp) = h.tcp.as_ref() {
            let before = self.flow(id).seen;
            if tcp.flags.has(Flags::SYN) && self.is_pending(now, id, Caller::Receiver, tcp) {
                return Some(id);
            }
            self.event(now, id, |flow, config| flow.on_reverse(now, tcp, waits, config));
            if Table::moves(self.flow(id), before) {
                self.table.relist(id.0);
            }
        }
        Some(id)
    }

    /// Takes what the last packet of the other direction left to be told: whether a new connection began. The next
    /// observation tells it no more.
    pub fn take_restart(&mut self, id: FlowId) -> bool {
        let restarted = self.table.slots[id.index()].flags.take(FlowFlags::REPORT_RESTARTED);
        self.counters.restarted += u64::from(restarted);
        restarted
    }

    /// Takes a packet of the flow that the discipline dropped.
    pub fn dropped(&mut self, now: Instant, id: FlowId, h: &Header) {
        self.event(now, id, |flow, _| flow.drop_packet(h));
    }

    /// Notes that a packet of the flow waits from now on: its record stays while any does.
    pub fn queued(&mut self, id: FlowId) {
        self.table.slots[id.index()].queued += 1;
    }

    /// Notes that a packet of the flow waits no longer, whatever became of it.
    pub fn unqueued(&mut self, id: FlowId) {
        let flow = &mut self.table.slots[id.index()];
        debug_assert!(flow.queued > 0, "unqueued without queued: {}", flow.key);
        flow.queued = flow.queued.saturating_sub(1);
        if flow.queued == 0 && !flow.flags.has(FlowFlags::LISTED) {
            self.table.list(id.0);
        }
    }

    /// Takes a packet of the flow that was sent on.
    pub fn departed(&mut self, now: Instant, id: FlowId, h: &Header) {
        self.event(now, id, |flow, config| flow.depart(now, h, config));
    }

    /// The record of a flow in the state that the last event left.
    #[must_use]
    pub fn flow(&self, id: FlowId) -> &Flow {
        &self.table.slots[id.index()]
    }

    /// The record, with every epoch ended that is over by `now`.
    pub fn flow_at(&mut self, now: Instant, id: FlowId) -> &Flow {
        self.event(now, id, |_, _| ());
        self.flow(id)
    }

    /// Bucket of the index in which the key is. It is fetched from memory from now on, for [`Tracker::likely`].
    #[must_use]
    pub fn expect(&self, key: &FlowKey) -> Expected {
        self.table.expect(key)
    }

    /// Slot where the key's record most likely is. The record is fetched from memory from now on: a caller that keeps
    /// state by slot may have that fetched in the same time. For [`Tracker::forward_from`].
    #[must_use]
    pub fn likely(&self, expected: Expected) -> Likely {
        let likely = self.table.likely(expected);
        self.table.prefetch(likely.slot);
        likely
    }

    /// Fetches, after a new flow, what the next new ones need where each takes an old one's place. Returns the slot
    /// that the one after the next will take, for a caller that keeps state by slot.
    #[must_use]
    pub fn prefetch_least_needed(&self) -> Option<FlowId> {
        self.table.prefetch_least_needed().map(FlowId)
    }

    /// Fetches the record of a flow that is needed soon. Nothing but speed depends on it.
    pub fn prefetch(&self, id: FlowId) {
        self.table.prefetch(id.0);
    }

    /// The slot of a flow that is known.
    #[must_use]
    pub fn lookup(&self, key: &FlowKey) -> Option<FlowId> {
        self.table.find(key).map(FlowId)
    }

    /// Brings up to date the flows of which nothing is heard: ends their epochs, stops counting them as active, forgets
    /// them. Call it on every packet or so: most calls do nothing, none looks at more than 256 flows, and together they
    /// look at no more than one flow in 32 us, so that looking never costs more than a hundredth of the time. With so
    /// many flows that this is too few, looks come late and counts lag; the records themselves never do.
    pub fn tick(&mut self, now: Instant) {
        if self.table.live == 0 {
            self.wheel.set(now);
            self.paid_until = now;
            return;
        }
        let unspent = now.since(self.paid_until);
        if unspent < LOOK_PACE {
            return;
        }
        let mut budget = (unspent.as_nanos() / LOOK_PACE.as_nanos()).min(TICK_BUDGET);
        if budget == TICK_BUDGET {
            self.paid_until = now;
        } else {
            self.paid_until += LOOK_PACE * budget;
        }
        self.late = true;
        while budget > 0 {
            if let Some(slot) = self.wheel.pop(&mut self.table.hooks) {
                // Comes from memory until the next tick, which is a packet away.
                if let Some(next) = self.wheel.soon() {
                    self.table.prefetch(next);
                }
                self.look_at(self.wheel.time(), FlowId(slot));
                budget -= 1;
            } else if !self.wheel.advance(now) {
                self.late = false;
                return;
            }
        }
    }

    /// Counts each flow as of `now`. Counting takes time in proportion to the table: call it about once a second.
    pub fn census(&mut self, now: Instant) -> Census {
        let mut c = Census { pools: self.active.pools(), ..Census::default() };
        for slot in 0..self.table.slots.len() {
            if !self.table.slots[slot].flags.has(FlowFlags::LIVE) {
                continue;
            }
            let id = FlowId(slot as u32);
            self.event(now, id, |_, _| ());
            let flow = self.flow(id);
            c.flows += 1;
            match flow.phase() {
                Some(phase) => c.by_phase[phase.index()] += 1,
                None if flow.is_tcp() => c.unphased += 1,
                None => c.not_tcp += 1,
            }
            let silent = flow.phase().is_some_and(Phase::is_silent);
            c.active += usize::from(flow.is_active());
            if silent && flow.queued() == 0 {
                c.silent += 1;
                c.longest_stall = c.longest_stall.max(flow.silence(now));
            }
        }
        c
    }

    /// Flows that count for the fair share, as of the last tick: those with a packet within max(2 s, 4 epochs) and
    /// those silent because of a loss, and those with packets waiting. A flow of a single packet counts only if its
    /// handshake was seen.
    #[must_use]
    pub const fn active_flows(&self) -> usize {
        self.active.flows()
    }

    /// Users (see [`TrackerConfig::users`]) that have active flows.
    #[must_use]
    pub const fn active_users(&self) -> usize {
        self.active.pools()
    }

    /// Active flows of one user.
    #[must_use]
    pub fn active_of(&self, user: User) -> usize {
        self.active.of(user)
    }

    /// User to whom the flow belongs.
    #[must_use]
    pub fn user(&self, id: FlowId) -> User {
        self.flow(id).user(&self.config.users)
    }

    /// Memory per flow, links and share of the index included; at most 256.
    pub const BYTES_PER_FLOW: usize = crate::table::BYTES_PER_FLOW;

    pub(crate) fn find_or_make(&mut self, now: Instant, key: &FlowKey, likely: Likely) -> Option<FlowId> {
        if let Some(slot) = self.table.find_in(likely.bucket, key) {
            return Some(FlowId(slot));
        }
        if self.table.live == 0 {
            self.wheel.set(now);
        }
        let Self { config, table, wheel, by_phase, active, counters, .. } = self;
        let made = table.make(now, *key, likely.bucket, config, |table, victim| {
            let flow = &table.slots[victim as usize];
            let in_use = flow.flags.has(FlowFlags::PROVEN) && !flow.flags.has(FlowFlags::CLOSED);
            counters.evicted_in_use += u64::from(in_use);
            discount(flow, config, by_phase, active);
            wheel.unlink(&mut table.hooks, victim);
        })?;
        counters.created += 1;
        counters.evicted += u64::from(made.evicted);
        wheel.put(&mut table.hooks, made.slot, now + config.record_timeout);
        Some(FlowId(made.slot))
    }

    /// Advances the flow to `now`, lets `change` do its part, and keeps the counts and the wheel in step.
    fn event<R>(
        &mut self,
        now: Instant,
        id: FlowId,
        change: impl FnOnce(&mut Flow, &TrackerConfig) -> R,
    ) -> R {
        let flow = &mut self.table.slots[id.index()];
        // Where looks come late, asking for a sooner one would only cost.
        let (before, opened) = (flow.phase(), flow.flags.opener());
        let rested = !self.late && flow.is_quiescent();
        flow.advance_to(now, &self.config);
        let result = change(flow, &self.config);
        if opened != flow.flags.opener() && flow.is_active() {
            let user = |opener: FlowFlags| self.config.users.user(&flow.key, opener.initiator());
            self.active.move_over(now, user(opened), user(flow.flags));
        }
        let after = flow.phase();
        if after != before {
            if let Some(phase) = before {
                self.by_phase[phase.index()] -= 1;
            }
            if let Some(phase) = after {
                self.by_phase[phase.index()] += 1;
            }
        }
        if rested && !flow.is_quiescent() {
            let end = flow.quiet_at();
            self.wheel.sooner(&mut self.table.hooks, id.0, end);
        }
        result
    }

    /// Takes what the last arrival of a flow left to be told: whether the flow is new, and whether it began anew.
    #[inline(never)]
    fn take_news(&mut self, id: FlowId) -> (bool, bool) {
        let flags = &mut self.table.slots[id.index()].flags;
        let (fresh, restarted) = (flags.take(FlowFlags::REPORT_NEW), flags.take(FlowFlags::REPORT_RESTARTED));
        self.counters.restarted += u64::from(restarted);
        self.counters.overlapping += u64::from(flags.take(FlowFlags::OVERLAP));
        self.counters.out_of_window += u64::from(flags.take(FlowFlags::OUT_OF_WINDOW));
        (fresh, restarted)
    }

    /// Counts the flow as active from its first packet that shows it to be real.
    pub(crate) fn count_active(&mut self, now: Instant, id: FlowId) {
        let flow = &mut self.table.slots[id.index()];
        if flow.flags.has(FlowFlags::ACTIVE) || flow.closed() {
            return;
        }
        let real = if flow.is_tcp() {
            flow.data_seen() && (flow.packets > 1 || flow.flags.has(FlowFlags::SYN))
        } else {
            flow.packets > 1
        };
        let until = flow.active_until(&self.config);
        if real && now < until {
            flow.flags.set(FlowFlags::ACTIVE);
            self.active.add(now, flow.user(&self.config.users));
            self.wheel.sooner(&mut self.table.hooks, id.0, until);
        }
    }

    /// Looks at a flow that the wheel brought up.
    fn look_at(&mut self, now: Instant, id: FlowId) {
        self.event(now, id, |_, _| ());
        let config = &self.config;
        let flow = &mut self.table.slots[id.index()];
        let busy = flow.queued > 0;
        let silent = flow.phase().is_some_and(Phase::is_silent);
        let until = flow.active_until(config);
        if flow.flags.has(FlowFlags::ACTIVE) && !busy && (flow.closed() || (!silent && until <= now)) {
            self.active.remove(flow.user(&config.users));
            flow.flags.clear(FlowFlags::ACTIVE);
        }
        let timeout = if flow.closed() { config.closed_timeout } else { config.record_timeout };
        let unheard = Coarse::at(now).since(flow.seen);
        if !busy && unheard > timeout {
            self.expire(id);
            return;
        }
        let mut next = now + timeout.saturating_sub(unheard).max(LOOK_AGAIN);
        if !flow.is_quiescent() {
            next = next.min(flow.quiet_at());
        }
        if flow.flags.has(FlowFlags::ACTIVE) && !silent {
            next = next.min(until.max(now + LOOK_AGAIN));
        }
        self.wheel.unlink(&mut self.table.hooks, id.0);
        self.wheel.put(&mut self.table.hooks, id.0, next);
    }

    #[cold]
    fn expire(&mut self, id: FlowId) {
        self.counters.expired += 1;
        let flow = &self.table.slots[id.index()];
        discount(flow, &self.config, &mut self.by_phase, &mut self.active);
        self.wheel.unlink(&mut self.table.hooks, id.0);
        self.table.remove(id.0);
    }
}

/// Takes a flow that goes out of the counts.
fn discount(
    flow: &Flow,
    config: &TrackerConfig,
    by_phase: &mut [usize; Phase::ALL.len()],
    active: &mut Active,
) {
    if let Some(phase) = flow.phase() {
        by_phase[phase.index()] -= 1;
    }
    if flow.is_active() {
        active.remove(flow.user(&config.users));
    }
}

/// Facts that only tests and fuzzing ask for.
#[cfg(any(test, feature = "fuzzing"))]
impl Tracker {
    /// Flows in each phase as of the last tick, in the order of [`Phase::ALL`].
    pub(crate) const fn phases(&self) -> &[usize; Phase::ALL.len()] {
        &self.by_phase
    }
    /// Flows known.
    pub(crate) const fn len(&self) -> usize {
        self.table.live
    }
    /// Most flows that can be known at a time.
    pub(crate) const fn capacity(&self) -> usize {
        self.table.capacity()
    }
    /// Memory reserved by the table. The number never grows.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.memory()
    }
}

#[cfg(test)]
impl Tracker {
    /// Time at which [`Tracker::tick`] has something to do next.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        self.wheel.next().map(|at| at.max(self.paid_until + LOOK_PACE))
    }
    /// Whether none is known.
    pub(crate) const fn is_empty(&self) -> bool {
        self.table.live == 0
    }
    /// Counts of what has happened so far.
    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }
}
