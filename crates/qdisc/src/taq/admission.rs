//! Admission control: which pools of flows may open connections while the link has more than it can serve.
//!
//! Section 4.3 of the TAQ paper. How loaded the link is comes as an argument: in paper mode it is overloaded by its
//! loss rate, in default mode by the time of a round. A pool is the
//! flows of one user: of whoever sends the SYN, or, where the link is shared between users, of the user's side. Two
//! rules:
//!
//! - [`Rule::Paper`]: a SYN joins the pool its source started less than `join` ago. A new pool is admitted unless the
//!   link is overloaded. Else it waits; with `wait` it is admitted after that time at the latest, each pool for itself.
//! - [`Rule::WaitQueue`]: a pool stays admitted while it is active. Pools that wait are admitted in the order of the
//!   wait queue, one each `pace`; a new pool goes behind them. Under overload one pool is admitted each `guarantee`,
//!   and whoever has waited `rounds` rounds: the more pools are served, the longer a round.
//!
//! A waiting SYN is dropped, and the client asks again, or it is held: then only the latest copy of each, and they are
//! released in the order of the queue. Where SYNs are dropped nobody can be admitted while away, so of those who wait
//! whoever asks first after there is room is admitted.
//!
//! A client that the driver can answer ([`Packet::answerable`]) is refused and never held. The refusal says its
//! position and when to ask again. Where others are held, such a pool is granted its admission while it is away: it is
//! admitted when it comes back.
//!
//! What happens at an instant depends on arrivals and on that instant, never on how often the driver asks.

#[cfg(feature = "handover")]
mod handover;
mod report;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

#[cfg(feature = "handover")]
pub use handover::Known;
use narrows_units::{Duration, Instant};
use narrows_users::{User, UserRule};
use narrows_wire::{Flags, FlowKey, Header};

use super::pools::{List, PoolId, Pools};
use crate::{Counters, Packet, Verdict, Verdicts};

/// Connections of one pool whose SYNs are held at once.
const HELD_PER_POOL: usize = 16;
/// SYNs held at once: 1024 of at most 1500 bytes.
const HELD: usize = 1024;
/// A client that has not asked for this long has given up: Linux repeats a SYN after 1, 2, 4, .. 32 and 64 s.
const PATIENCE: Duration = Duration::from_secs(70);
/// Waits kept for the percentiles, and admissions kept for the pace.
const RECENT: usize = 512;
/// A pool that was granted admission while away is given this long to come before the next is admitted.
const RETURN_TIME: Duration = Duration::from_secs(1);
/// A pool's last sign of life is kept to this precision, so that a packet costs no write.
const COARSE: Duration = Duration::from_millis(500);

/// Rule by which pools are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Rule of the paper.
    Paper {
        /// T_pool: age of a pool below which a SYN joins the pool.
        join: Duration,
        /// T_wait: a pool that waited this long is admitted (the feedback solution); `None`: waiting admits nobody.
        wait: Option<Duration>,
    },
    /// Rule of the default mode: one pool after the other.
    WaitQueue {
        /// Silence after which a pool counts as gone.
        idle: Duration,
        /// Least time between two admissions from the queue.
        pace: Duration,
        /// Under overload, one pool is admitted each time this has passed since the last admission.
        guarantee: Option<Duration>,
        /// Rounds after which a waiting pool is admitted; 0: never for that.
        rounds: u32,
    },
}

/// Load of the link at a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Whether new pools have to wait.
    pub overloaded: bool,
    /// Time of a round with one packet of each pool.
    pub round: Duration,
}

/// Settings of admission control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionConfig {
    /// Rule by which pools are admitted.
    pub rule: Rule,
    /// Whether waiting SYNs are held; else waiting SYNs are dropped.
    pub hold: bool,
    /// Pools remembered at once.
    pub pools: usize,
    /// Rule for the user of a pool.
    pub users: UserRule,
}

/// Direction in which a SYN was going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SynDirection {
    /// Into the queue of the discipline: the SYN opens an upload.
    Own,
    /// Against the direction of the queue: the SYN asks for a download.
    Reverse,
}

/// Sink for decisions.
#[derive(Debug)]
pub struct Decisions<'a, P> {
    /// Counts.
    pub counters: &'a mut Counters,
    /// Verdicts.
    pub verdicts: &'a mut Verdicts<P>,
}

/// Record of a pool beside the pool's address and times.
#[derive(Debug)]
struct Member<P> {
    held: Vec<(SynDirection, P)>,
    /// Whether the pool was admitted while the pool was away.
    granted: bool,
    /// Whether the pool has sent or received more than SYNs: then it is no made-up address.
    proven: bool,
    /// Number of the pool's place in the wait queue, counted over all places that ever were.
    ticket: u64,
}

impl<P> Default for Member<P> {
    fn default() -> Self {
        Self { held: Vec::new(), granted: false, proven: false, ticket: 0 }
    }
}

impl<P> Member<P> {
    /// The list that the pool stands in once the pool is admitted.
    const fn admitted(&self) -> List {
        if self.proven { List::Proven } else { List::Unproven }
    }
}

/// Past of admission control besides the pools. Another process may go on with it.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Past {
    last_admission: Option<Instant>,
    /// Whether the last one admitted was away, and has not come yet.
    awaited: bool,
    admissions: u64,
    waits: VecDeque<Duration>,
    grants: VecDeque<Instant>,
    /// The next ticket.
    tickets: u64,
}

/// The pools admitted and the pools that wait.
#[derive(Debug)]
pub struct Admission<P> {
    config: AdmissionConfig,
    pools: Pools<Member<P>>,
    /// SYNs of pools that have just been admitted.
    ready: VecDeque<(SynDirection, P)>,
    held: usize,
    past: Past,
}

impl<P: Packet> Admission<P> {
    /// Makes an admission control with nobody admitted and nobody waiting.
    #[must_use]
    pub fn new(config: AdmissionConfig) -> Self {
        Self {
            config,
            pools: Pools::new(config.pools),
            ready: VecDeque::new(),
            held: 0,
            past: Past::default(),
        }
    }

    /// Changes the rules; pools that are admitted stay so, pools that wait keep their position.
    pub fn reconfigure(&mut self, config: AdmissionConfig) {
        self.config = config;
        self.pools.set_capacity(config.pools);
    }

    /// Whether a packet asks for a connection: a SYN that is no answer.
    #[must_use]
    pub fn is_connection_request(header: &Header) -> bool {
        header
            .tcp
            .is_some_and(|t| t.flags.has(Flags::SYN) && !t.flags.has(Flags::ACK) && !t.flags.has(Flags::RST))
    }

    /// A SYN asks to pass. The SYN is returned if it may pass; else it is held, or refused with a verdict.
    pub fn request(
        &mut self,
        now: Instant,
        load: Load,
        way: SynDirection,
        packet: P,
        decisions: &mut Decisions<'_, P>,
    ) -> Option<P> {
        self.forget_the_gone(now, decisions);
        let source = self.user(way, &packet);
        match self.pools.find(source) {
            Some(id) if self.pools.list_of(id) == Some(List::Waiting) => {
                if let Some(pool) = self.pools.get_mut(id) {
                    pool.seen = now;
                }
                if !self.is_held(&packet) && self.may_enter(now, load, id) {
                    self.admit(now, id);
                    return Some(packet);
                }
                self.wait(now, id, way, packet, decisions)
            }
            Some(id) if self.is_member(now, id) => {
                if let Some(pool) = self.pools.get_mut(id) {
                    pool.seen = now;
                    self.past.awaited &= !core::mem::take(&mut pool.data.granted);
                }
                Some(packet)
            }
            known => {
                if self.new_may_enter(now, load) {
                    self.enter(now, source, known, decisions);
                    return Some(packet);
                }
                match self.queue_up(now, source, known, decisions) {
                    Some(id) => self.wait(now, id, way, packet, decisions),
                    None => self.refuse(now, None, packet, decisions),
                }
            }
        }
    }

    /// An admitted pool has sent or received more than a SYN: it is no made-up address, and is not forgotten for one.
    pub fn prove(&mut self, id: PoolId) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        pool.data.proven = true;
        if self.pools.list_of(id) == Some(List::Unproven) {
            self.pools.move_to(id, List::Proven);
        }
    }

    /// Notes that the pool is active now.
    pub fn refresh(&mut self, now: Instant, id: PoolId) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        let recent = pool.data.proven && now.since(pool.seen) < COARSE;
        pool.data.proven = true;
        if recent || self.pools.list_of(id) == Some(List::Waiting) {
            return;
        }
        if let Some(pool) = self.pools.get_mut(id) {
            pool.seen = now;
        }
        self.pools.move_to(id, List::Proven);
    }

    /// The next held SYN that may go. Call again until there is none.
    pub fn release(
        &mut self,
        now: Instant,
        load: Load,
        decisions: &mut Decisions<'_, P>,
    ) -> Option<(SynDirection, P)> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                self.held -= 1;
                return Some(ready);
            }
            if self.held == 0 {
                return None;
            }
            let first = self.pools.first(List::Waiting)?;
            if !self.may_enter(now, load, first) {
                return None;
            }
            if self.pools.get(first).is_some_and(|p| now.since(p.seen) > PATIENCE) {
                self.dismiss(now, first, decisions);
            } else {
                self.admit(now, first);
                self.await_if_away(first);
            }
        }
    }

    /// Time at which [`Admission::release`] is worth calling. `recheck` is when `load` may change by time alone.
    #[must_use]
    pub fn next_release(&self, now: Instant, load: Load, recheck: Instant) -> Option<Instant> {
        if self.held == 0 {
            return None;
        }
        if !self.ready.is_empty() {
            return Some(now);
        }
        let first = self.pools.get(self.pools.first(List::Waiting)?)?;
        let after = |d: Duration| self.past.last_admission.map_or(now, |t| t + d);
        let (open_at, closed_at) = match self.config.rule {
            Rule::Paper { wait, .. } => (now, wait.map(|wait| first.since + wait)),
            Rule::WaitQueue { pace, guarantee, rounds, .. } => {
                let open_at = after(self.pace(pace));
                let patience = Self::patience_ends(first.since, rounds, load).max(open_at);
                (open_at, Some(guarantee.map_or(patience, |g| patience.min(after(g)))))
            }
        };
        if !load.overloaded {
            return Some(open_at);
        }
        Some(closed_at.map_or(recheck, |t| t.min(recheck)))
    }

    /// SYNs held.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.held
    }

    /// Pools that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.pools.len(List::Waiting)
    }

    /// Lets every held SYN go, in order: for a driver that takes the discipline apart.
    pub fn release_all(&mut self, now: Instant) {
        while let Some(first) = self.pools.first(List::Waiting) {
            self.admit(now, first);
        }
    }

    /// A pool was admitted from the wait queue: if it has no SYN here, it is expected back.
    fn await_if_away(&mut self, id: PoolId) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        if self.ready.is_empty() {
            pool.data.granted = true;
            self.past.awaited = true;
        }
    }

    /// A pool leaves the wait queue and is admitted.
    fn admit(&mut self, now: Instant, id: PoolId) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        push_recent(&mut self.past.waits, now.since(pool.since));
        pool.since = now;
        let held = core::mem::take(&mut pool.data.held);
        pool.data.granted = false;
        let list = pool.data.admitted();
        self.ready.extend(held);
        self.pools.move_to(id, list);
        push_recent(&mut self.past.grants, now);
        self.past.last_admission = Some(now);
        self.past.awaited = false;
        self.past.admissions += 1;
    }

    /// A pool that need not wait is admitted. With no room in the table it goes unrecorded.
    fn enter(&mut self, now: Instant, source: User, known: Option<PoolId>, decisions: &mut Decisions<'_, P>) {
        self.past.admissions += 1;
        self.past.last_admission = Some(now);
        self.past.awaited = false;
        match known {
            Some(id) => {
                let Some(pool) = self.pools.get_mut(id) else { return };
                (pool.since, pool.seen) = (now, now);
                pool.data.granted = false;
                let list = pool.data.admitted();
                self.pools.move_to(id, list);
            }
            None if self.make_room(now, decisions) => {
                self.pools.insert(now, source, List::Unproven);
            }
            None => {}
        }
    }

    /// A pool takes the last position of the wait queue.
    fn queue_up(
        &mut self,
        now: Instant,
        source: User,
        known: Option<PoolId>,
        decisions: &mut Decisions<'_, P>,
    ) -> Option<PoolId> {
        let id = match known {
            Some(id) => {
                self.pools.move_to(id, List::Waiting);
                id
            }
            None if self.make_room(now, decisions) => self.pools.insert(now, source, List::Waiting),
            None => return None,
        };
        let pool = self.pools.get_mut(id)?;
        (pool.since, pool.seen) = (now, now);
        (pool.data.granted, pool.data.ticket) = (false, self.past.tickets);
        self.past.tickets += 1;
        Some(id)
    }

    /// A waiting pool's SYN is held or refused.
    fn wait(
        &mut self,
        now: Instant,
        id: PoolId,
        way: SynDirection,
        packet: P,
        decisions: &mut Decisions<'_, P>,
    ) -> Option<P> {
        let full = self.held >= HELD;
        let held = self.is_held(&packet);
        let Some(pool) = self.pools.get_mut(id).filter(|_| held) else {
            return self.refuse(now, Some(id), packet, decisions);
        };
        let key: FlowKey = packet.header().key;
        if let Some(earlier) = pool.data.held.iter_mut().find(|(w, p)| *w == way && p.header().key == key) {
            // The latest copy carries the timestamp the answer will echo, so the handshake's RTT is measured right.
            let copy = core::mem::replace(&mut earlier.1, packet);
            decisions.counters.suppressed += 1;
            decisions.verdicts.push(Verdict::Suppressed { packet: copy });
            return None;
        }
        if full || pool.data.held.len() >= HELD_PER_POOL {
            return self.refuse(now, Some(id), packet, decisions);
        }
        pool.data.held.push((way, packet));
        self.held += 1;
        None
    }
}

/// Users of pools, and the times at which pools are admitted.
impl<P: Packet> Admission<P> {
    /// User whose request `packet` is.
    #[must_use]
    pub fn user(&self, way: SynDirection, packet: &P) -> User {
        let key = packet.header().key;
        // The rule is for packets of the queue's own direction.
        let rule = |users: &UserRule| match way {
            SynDirection::Own => users.user(&key, Some(false)),
            SynDirection::Reverse => users.user(&key.reverse(), Some(true)),
        };
        packet.user().unwrap_or_else(|| rule(&self.config.users))
    }

    /// The pool of a packet's flow, if it is known: keep it beside the flow for [`Admission::refresh`] or
    /// [`Admission::prove`]. `by_destination` tells who opened the connection.
    #[must_use]
    pub fn of_flow(&self, packet: &P, by_destination: bool) -> Option<PoolId> {
        let by_rule = || self.config.users.user(&packet.header().key, Some(by_destination));
        self.pools.find(packet.user().unwrap_or_else(by_rule))
    }

    /// The pool of an address.
    #[cfg(test)]
    pub(crate) fn pool(&self, address: core::net::IpAddr) -> Option<PoolId> {
        self.pools.find(User::of(address, 128))
    }

    fn is_member(&self, now: Instant, id: PoolId) -> bool {
        self.pools.get(id).is_some_and(|p| match self.config.rule {
            _ if p.data.granted => now.since(p.seen) <= PATIENCE,
            Rule::Paper { join, .. } => now.since(p.since) < join,
            Rule::WaitQueue { idle, .. } => now.since(p.seen) < idle,
        })
    }

    fn may_enter(&self, now: Instant, load: Load, id: PoolId) -> bool {
        let passed = |d: Duration| self.past.last_admission.is_none_or(|t| now >= t + d);
        match self.config.rule {
            Rule::Paper { wait, .. } => {
                let waited = |wait| self.pools.get(id).is_some_and(|p| now.since(p.since) >= wait);
                !load.overloaded || wait.is_some_and(waited)
            }
            Rule::WaitQueue { pace, guarantee, rounds, .. } => {
                if load.overloaded {
                    let since = self.pools.get(id).map_or(Instant::FAR_FUTURE, |p| p.since);
                    let waited_long = now >= Self::patience_ends(since, rounds, load);
                    guarantee.is_some_and(passed) || waited_long && passed(self.pace(pace))
                } else {
                    passed(self.pace(pace))
                }
            }
        }
    }

    /// Time at which a pool that came at `since` has waited long enough, compared with those admitted.
    fn patience_ends(since: Instant, rounds: u32, load: Load) -> Instant {
        if rounds == 0 { Instant::FAR_FUTURE } else { since + load.round * u64::from(rounds) }
    }

    fn new_may_enter(&self, now: Instant, load: Load) -> bool {
        match self.config.rule {
            Rule::Paper { .. } => !load.overloaded,
            Rule::WaitQueue { pace, .. } => {
                !load.overloaded
                    && self.pools.len(List::Waiting) == 0
                    && self.past.last_admission.is_none_or(|t| now >= t + self.pace(pace))
            }
        }
    }

    fn pace(&self, pace: Duration) -> Duration {
        if self.past.awaited { pace.max(RETURN_TIME) } else { pace }
    }

    /// Whether a SYN that has to wait is held.
    fn is_held(&self, packet: &P) -> bool {
        self.config.hold && !packet.answerable()
    }
}

/// Pools that are turned away, and pools that are forgotten.
impl<P: Packet> Admission<P> {
    /// Whether a pool can be added, if need be at the cost of one that proved nothing, of one that has long been idle,
    /// or of one that gave up.
    fn make_room(&mut self, now: Instant, decisions: &mut Decisions<'_, P>) -> bool {
        if !self.pools.is_full() {
            return true;
        }
        let idle = |list| {
            let first = self.pools.first(list)?;
            self.pools.get(first).filter(|p| now.since(p.seen) > PATIENCE).map(|_| first)
        };
        let victim = self.pools.first(List::Unproven).or_else(|| idle(List::Proven));
        if let Some(victim) = victim {
            self.pools.remove(victim);
        } else if let Some(gone) = idle(List::Waiting) {
            self.dismiss(now, gone, decisions);
        }
        !self.pools.is_full()
    }

    /// Forgets pools at the head of the wait queue that no longer ask, and pools that left: at most a few for each
    /// request.
    fn forget_the_gone(&mut self, now: Instant, decisions: &mut Decisions<'_, P>) {
        for list in [List::Waiting, List::Unproven, List::Proven] {
            for _ in 0..4 {
                let Some(first) = self.pools.first(list) else { break };
                if self.pools.get(first).is_none_or(|p| now.since(p.seen) <= PATIENCE) {
                    break;
                }
                self.dismiss(now, first, decisions);
            }
        }
    }

    fn dismiss(&mut self, now: Instant, id: PoolId, decisions: &mut Decisions<'_, P>) {
        let Some(gone) = self.pools.remove(id) else { return };
        for (_, packet) in gone.held {
            self.held -= 1;
            self.refuse(now, None, packet, decisions);
        }
    }

    fn refuse(
        &mut self,
        now: Instant,
        id: Option<PoolId>,
        packet: P,
        decisions: &mut Decisions<'_, P>,
    ) -> Option<P> {
        decisions.counters.refused += 1;
        let pool = id.and_then(|id| self.pools.get(id));
        // One there is no room for would stand at the end.
        let position = pool.map_or(self.waiting() + 1, |p| self.position(p.data.ticket));
        let expected = self.expected(now, position, pool.map_or(now, |p| p.since));
        let retry_after = expected.unwrap_or(match self.config.rule {
            // The paper names no pause; its clients knock all the time (5.5).
            Rule::Paper { join, wait } => wait.unwrap_or(join),
            Rule::WaitQueue { pace, guarantee, .. } => guarantee.unwrap_or(pace),
        });
        decisions.verdicts.push(Verdict::Refused { packet, position, retry_after });
        None
    }

    /// The position of a waiting pool, from 1. Where SYNs are dropped pools also leave from the middle of the queue: it
    /// may be less then.
    fn position(&self, ticket: u64) -> usize {
        let first = self.pools.first(List::Waiting).and_then(|id| self.pools.get(id));
        let before = first.map_or(0, |first| ticket.saturating_sub(first.data.ticket));
        usize::try_from(before + 1).unwrap_or(usize::MAX).min(self.waiting())
    }
}

/// Whether a packet that was sent shows that its flow's pool is no made-up address: nobody answers a SYN|ACK that was
/// sent to one, so nothing follows.
#[must_use]
pub fn proves(header: &Header) -> bool {
    header.tcp.is_some_and(|t| !t.flags.has(Flags::SYN) && !t.flags.has(Flags::RST))
}

fn push_recent<T>(ring: &mut VecDeque<T>, value: T) {
    if ring.len() == RECENT {
        ring.pop_front();
    }
    ring.push_back(value);
}
