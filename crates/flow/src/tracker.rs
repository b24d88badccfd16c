//! The tracker: events in, records and counts out.

mod ahead;
mod heard;
#[cfg(any(test, feature = "fuzzing"))]
mod inspect;

use narrows_units::{Duration, Instant};
use narrows_users::User;
use narrows_wire::{Flags, FlowKey, Header};

use crate::active::Active;
use crate::census::{Census, Counters};
use crate::classify::kind_alone;
use crate::config::TrackerConfig;
use crate::flags::FlowFlags;
use crate::flow::Flow;
use crate::phase::Phase;
use crate::table::{Likely, Table};
use crate::times::Coarse;
use crate::wheel::Wheel;

/// A flow's slot in the table, below its capacity. It stays the flow's own while the flow has packets waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct FlowId(pub u32);

impl FlowId {
    /// As an index into arrays that others keep beside the table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum PacketKind {
    /// Opens a connection (also when it is sent again).
    Syn,
    /// Answers one that does (also when it is sent again).
    SynAck,
    /// Data of which at least one byte was not seen before.
    New,
    /// Data all of which was seen before, or whose first copy must have been lost before this box.
    Retransmission,
    /// Data that was overtaken on its way here.
    Reordered,
    /// Asks whether the other end is still there.
    KeepAlive,
    /// Asks whether a closed window has opened.
    WindowProbe,
    /// No data.
    PureAck,
    /// The first FIN, without data.
    Fin,
    /// A reset.
    Rst,
    /// Not TCP, or TCP whose header cannot be read.
    NotTcp,
}

impl PacketKind {
    /// Whether it brings data that was not seen before.
    #[must_use]
    pub const fn is_new_data(self) -> bool {
        matches!(self, Self::New | Self::Reordered)
    }
}

/// What an arrival turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Observation {
    /// The flow's slot; `None` if the table is full of flows with packets waiting.
    pub id: Option<FlowId>,
    /// The slot was given to this flow since the last observation of it: state kept elsewhere by slot is another's.
    pub fresh: bool,
    /// A new connection began on the same key. The record starts again; packets of the old one may still wait.
    pub restarted: bool,
    /// The packet's kind.
    pub kind: PacketKind,
    /// To make room, the record of a flow in use was given up.
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
    /// Up to when the time for looks has been spent.
    paid_until: Instant,
    /// Whether looks come late at present.
    late: bool,
    /// Whether the next packet of the other direction has to wait.
    waits: bool,
}

/// Most flows one [`Tracker::tick`] looks at, so that no packet waits for more than some tens of microseconds.
const TICK_BUDGET: u64 = 256;

/// On average a flow is looked at no oftener than this: 31 250 looks a second, each some hundred nanoseconds where its
/// record is not in the cache.
const LOOK_PACE: Duration = Duration::from_micros(32);

/// How soon a flow is looked at again that is past its time but cannot go yet.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Tracker {
    /// An empty tracker. `seed` keys the hash: draw it where nobody can guess it. Settings out of range are moved to
    /// the nearest in range; use [`TrackerConfig::check`] to tell people of them.
    #[must_use]
    pub fn new(config: TrackerConfig, seed: u64) -> Self {
        let config = config.clamped();
        Self {
            config,
            table: Table::new(config.capacity, seed),
            wheel: Wheel::new(),
            by_phase: [0; Phase::ALL.len()],
            active: Active::new(config.capacity, seed),
            counters: Counters::default(),
            paid_until: Instant::ZERO,
            late: false,
            waits: false,
        }
    }

    /// A packet of the queued direction arrives.
    pub fn forward(&mut self, now: Instant, h: &Header) -> Observation {
        let likely = self.table.likely(self.table.expect(&h.key));
        self.forward_from(now, h, likely)
    }

    /// [`Tracker::forward`] of a packet for whose key [`Tracker::likely`] has been asked.
    pub fn forward_from(&mut self, now: Instant, h: &Header, likely: Likely) -> Observation {
        let evicted_before = self.counters.evicted_in_use;
        let Some(id) = self.find_or_make(now, &h.key, likely) else {
            self.counters.unrecorded += 1;
            let kind = kind_alone(h);
            return Observation { id: None, fresh: false, restarted: false, kind, evicted_in_use: false };
        };
        let before = self.flow(id).seen;
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

    /// The next packet of the other direction has to wait here before it goes on to the sender: how long that takes is
    /// no part of the path.
    pub const fn behind_others(&mut self) {
        self.waits = true;
    }

    /// A packet of the other direction passes. A SYN makes a record of the flow it opens.
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
            self.event(now, id, |flow, config| flow.on_reverse(now, tcp, waits, config));
            if Table::moves(self.flow(id), before) {
                self.table.relist(id.0);
            }
        }
        Some(id)
    }

    /// The discipline dropped this packet of the flow.
    pub fn dropped(&mut self, now: Instant, id: FlowId, h: &Header) {
        self.event(now, id, |flow, _| flow.drop_packet(h));
    }

    /// A packet of the flow waits from now on: its record stays while any does.
    pub fn queued(&mut self, id: FlowId) {
        self.table.slots[id.index()].queued += 1;
    }

    /// A packet of the flow waits no longer, whatever became of it.
    pub fn unqueued(&mut self, id: FlowId) {
        let flow = &mut self.table.slots[id.index()];
        debug_assert!(flow.queued > 0, "unqueued without queued: {}", flow.key);
        flow.queued = flow.queued.saturating_sub(1);
        if flow.queued == 0 && !flow.flags.has(FlowFlags::LISTED) {
            self.table.list(id.0);
        }
    }

    /// The packet was sent on.
    pub fn departed(&mut self, now: Instant, id: FlowId, h: &Header) {
        self.event(now, id, |flow, config| flow.depart(now, h, config));
    }

    /// The record as the last event left it.
    #[must_use]
    pub fn flow(&self, id: FlowId) -> &Flow {
        &self.table.slots[id.index()]
    }

    /// The record, with every epoch ended that is over by `now`.
    pub fn flow_at(&mut self, now: Instant, id: FlowId) -> &Flow {
        self.event(now, id, |_, _| ());
        self.flow(id)
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

    /// Every flow, counted as of `now`. Takes time in proportion to the table: for about once a second.
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

    /// Whose flow this is.
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
        let (before, rested, opened) = (flow.phase, !self.late && flow.is_quiescent(), flow.flags.opener());
        flow.advance_to(now, &self.config);
        let result = change(flow, &self.config);
        if opened != flow.flags.opener() && flow.is_active() {
            let user = |opener: FlowFlags| self.config.users.user(&flow.key, opener.initiator());
            self.active.move_over(now, user(opened), user(flow.flags));
        }
        if flow.phase != before {
            if let Some(phase) = before {
                self.by_phase[phase.index()] -= 1;
            }
            if let Some(phase) = flow.phase {
                self.by_phase[phase.index()] += 1;
            }
        }
        if rested && !flow.is_quiescent() {
            let end = flow.quiet_at();
            self.wheel.sooner(&mut self.table.hooks, id.0, end);
        }
        result
    }

    /// The wheel brought this flow up.
    fn look_at(&mut self, now: Instant, id: FlowId) {
        self.event(now, id, |_, _| ());
        let config = &self.config;
        let flow = &mut self.table.slots[id.index()];
        let busy = flow.queued > 0;
        let silent = flow.phase.is_some_and(Phase::is_silent);
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
    if let Some(phase) = flow.phase {
        by_phase[phase.index()] -= 1;
    }
    if flow.is_active() {
        active.remove(flow.user(&config.users));
    }
}
