//! The door: which pools of flows may open connections while the link has more than it can serve.
//!
//! Section 4.3 of the TAQ paper. What is behind the door comes as an argument: closed it is by loss rate in `paper` mode, by the
//! time of a round in `default` mode. A pool is named by the address that sends the SYN. Two rules:
//!
//! - [`Rule::Paper`]: a SYN joins the pool its source started less than `join` ago; a new pool enters if the door is
//!   open, else it waits, and enters after `wait` at the latest, each pool for itself.
//! - [`Rule::Line`]: a pool stays in while it is active. Those who wait go in by their place in the line, one each
//!   `pace`; a newcomer goes behind them. If the door stays closed one pool enters each `guarantee`, and
//!   whoever has waited `rounds` rounds of those inside: the more are inside, the longer a round.
//!
//! A waiting SYN is dropped, and the client asks again, or it is held: then only the latest copy of each, and they go in
//! the order of the line. Where SYNs are dropped the box cannot call anybody in, so of those who wait whoever asks first
//! after there is room goes in.
//!
//! Plain HTTP can be answered instead ([`AdmissionConfig::answered`]): its SYNs are refused, never held, and the driver tells
//! the client its place and when to ask again. Where others are held such a pool has its turn while it is away: it is
//! called in, and enters when it comes back.
//!
//! What happens at an instant depends on arrivals and on that instant, never on how often the driver asks.

use core::net::IpAddr;
use std::collections::VecDeque;

use narrows_units::{Duration, Instant};
use narrows_wire::{Flags, FlowKey, Header};

use super::pools::{List, PoolId, Pools, address};
use crate::{AdmissionReport, Counters, Packet, Verdict, Verdicts, WaitingPool};

/// Connections of one pool whose SYNs are held at once.
const HELD_PER_POOL: usize = 16;
/// SYNs held at once: 1024 of at most 1500 bytes.
const HELD: usize = 1024;
/// A client that has not asked for this long has given up: Linux repeats a SYN after 1, 2, 4, .. 32 and 64 s.
const PATIENCE: Duration = Duration::from_secs(70);
/// Waits kept for the percentiles, and admissions kept for the pace.
const RECENT: usize = 512;
/// Places a report lists.
const PLACES: usize = 100;
/// One that was called in while away is given this long to come before the next goes in.
const ON_THE_WAY: Duration = Duration::from_secs(1);
/// Plain HTTP.
const HTTP: u16 = 80;
/// A pool's last sign of life is kept to this precision, so that a packet costs no write.
const COARSE: Duration = Duration::from_millis(500);

/// Who may enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The paper's.
    Paper {
        /// T_pool: a SYN joins a pool that started less than this ago.
        join: Duration,
        /// T_wait: a pool that waited this long enters.
        wait: Duration,
    },
    /// A line.
    Line {
        /// A pool not seen for this long has left.
        idle: Duration,
        /// Least time between two admissions from the line.
        pace: Duration,
        /// With the door overloaded, one pool of the line enters each time this has passed since the last admission.
        guarantee: Option<Duration>,
        /// And whoever has waited this many rounds of those inside; 0: nobody.
        rounds: u32,
    },
}

/// What is behind the door as it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Whether new pools have to wait.
    pub overloaded: bool,
    /// How long one packet of everybody takes.
    pub round: Duration,
}

/// Settings of a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionConfig {
    /// Who may enter.
    pub rule: Rule,
    /// Whether SYNs that wait are held; else they are dropped.
    pub hold: bool,
    /// Whether a connection to port 80 that has to wait is answered by the driver: its SYN is refused, never held.
    pub answered: bool,
    /// Pools remembered at once.
    pub pools: usize,
}

/// Which way a SYN was going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Into the queue of this discipline: it opens an upload.
    Own,
    /// The other way: it asks for a download.
    Reverse,
}

#[derive(Debug)]
struct Waiting<P> {
    held: Vec<(Way, P)>,
    /// Its turn came while it was away.
    called: bool,
}

impl<P> Default for Waiting<P> {
    fn default() -> Self {
        Self { held: Vec::new(), called: false }
    }
}

/// The door and all who stand before it.
#[derive(Debug)]
pub struct Admission<P> {
    config: AdmissionConfig,
    pools: Pools<Waiting<P>>,
    /// SYNs of pools that have just been admitted.
    ready: VecDeque<(Way, P)>,
    held: usize,
    last_admission: Option<Instant>,
    /// Whether the last one admitted was away, and has not come yet.
    awaited: bool,
    admissions: u64,
    waits: VecDeque<Duration>,
    calls: VecDeque<Instant>,
}

impl<P: Packet> Admission<P> {
    /// A door nobody stands at.
    #[must_use]
    pub fn new(config: AdmissionConfig) -> Self {
        Self {
            config,
            pools: Pools::new(config.pools),
            ready: VecDeque::new(),
            held: 0,
            last_admission: None,
            awaited: false,
            admissions: 0,
            waits: VecDeque::new(),
            calls: VecDeque::new(),
        }
    }

    /// Changes the rules; who is in stays in, who waits keeps the place.
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

    /// A SYN asks to pass. It is returned if it may; else it is held, or refused with a verdict.
    pub fn request(
        &mut self,
        now: Instant,
        inside: Load,
        way: Way,
        packet: P,
        counters: &mut Counters,
        verdicts: &mut Verdicts<P>,
    ) -> Option<P> {
        self.forget_the_gone(now, counters, verdicts);
        let source = packet.header().key.src();
        match self.pools.find(source) {
            Some(id) if self.pools.list_of(id) == Some(List::Line) => {
                if let Some(pool) = self.pools.get_mut(id) {
                    pool.seen = now;
                }
                if !self.is_held(packet.header()) && self.may_enter(now, inside, id) {
                    self.admit(now, id);
                    return Some(packet);
                }
                self.wait(id, way, packet, counters, verdicts)
            }
            Some(id) if self.is_member(now, id) => {
                if let Some(pool) = self.pools.get_mut(id) {
                    pool.seen = now;
                    self.awaited &= !core::mem::take(&mut pool.data.called);
                }
                Some(packet)
            }
            known => {
                if self.newcomer_may_enter(now, inside) {
                    self.enter(now, source, known, counters, verdicts);
                    return Some(packet);
                }
                match self.queue_up(now, source, known, counters, verdicts) {
                    Some(id) => self.wait(id, way, packet, counters, verdicts),
                    None => refuse(packet, counters, verdicts),
                }
            }
        }
    }

    /// The pool of `source`, if it is known: keep it beside the flow and pass it to [`Admission::touch`].
    #[must_use]
    pub fn pool(&self, source: IpAddr) -> Option<PoolId> {
        self.pools.find(source)
    }

    /// A packet of an admitted pool passed: it is active, and no made-up address.
    pub fn touch(&mut self, now: Instant, id: PoolId) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        let recent = now.since(pool.seen) < COARSE;
        match self.pools.list_of(id) {
            Some(List::Proven) if recent => {}
            Some(List::Proven | List::Newcomers) => {
                if let Some(pool) = self.pools.get_mut(id) {
                    pool.seen = now;
                }
                self.pools.move_to(id, List::Proven);
            }
            _ => {}
        }
    }

    /// The next held SYN that may go. Call again until there is none.
    pub fn release(
        &mut self,
        now: Instant,
        inside: Load,
        counters: &mut Counters,
        verdicts: &mut Verdicts<P>,
    ) -> Option<(Way, P)> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                self.held -= 1;
                return Some(ready);
            }
            if self.held == 0 {
                return None;
            }
            let first = self.pools.first(List::Line)?;
            if !self.may_enter(now, inside, first) {
                return None;
            }
            if self.pools.get(first).is_some_and(|p| now.since(p.seen) > PATIENCE) {
                self.dismiss(first, counters, verdicts);
            } else {
                self.admit(now, first);
                self.await_if_away(first);
            }
        }
    }

    /// When [`Admission::release`] is worth calling. `recheck` is when `inside` may change by time alone.
    #[must_use]
    pub fn next_release(&self, now: Instant, inside: Load, recheck: Instant) -> Option<Instant> {
        if self.held == 0 {
            return None;
        }
        if !self.ready.is_empty() {
            return Some(now);
        }
        let first = self.pools.get(self.pools.first(List::Line)?)?;
        let after = |d: Duration| self.last_admission.map_or(now, |t| t + d);
        let (open_at, closed_at) = match self.config.rule {
            Rule::Paper { wait, .. } => (now, Some(first.since + wait)),
            Rule::Line { pace, guarantee, rounds, .. } => {
                let open_at = after(self.pace(pace));
                let patience = Self::patience_ends(first.since, rounds, inside).max(open_at);
                (open_at, Some(guarantee.map_or(patience, |g| patience.min(after(g)))))
            }
        };
        if !inside.overloaded {
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
        self.pools.len(List::Line)
    }

    /// Lets every held SYN go, in order: for a driver that takes the discipline apart.
    pub fn release_all(&mut self, now: Instant) {
        while let Some(first) = self.pools.first(List::Line) {
            self.admit(now, first);
        }
    }

    fn is_member(&self, now: Instant, id: PoolId) -> bool {
        self.pools.get(id).is_some_and(|p| match self.config.rule {
            _ if p.data.called => now.since(p.seen) <= PATIENCE,
            Rule::Paper { join, .. } => now.since(p.since) < join,
            Rule::Line { idle, .. } => now.since(p.seen) < idle,
        })
    }

    fn may_enter(&self, now: Instant, inside: Load, id: PoolId) -> bool {
        let passed = |d: Duration| self.last_admission.is_none_or(|t| now >= t + d);
        match self.config.rule {
            Rule::Paper { wait, .. } => {
                !inside.overloaded || self.pools.get(id).is_some_and(|p| now.since(p.since) >= wait)
            }
            Rule::Line { pace, guarantee, rounds, .. } => {
                if inside.overloaded {
                    let since = self.pools.get(id).map_or(Instant::FAR_FUTURE, |p| p.since);
                    let impatient = now >= Self::patience_ends(since, rounds, inside);
                    guarantee.is_some_and(passed) || impatient && passed(self.pace(pace))
                } else {
                    passed(self.pace(pace))
                }
            }
        }
    }

    /// When a pool that came at `since` has waited long enough, compared with those inside.
    fn patience_ends(since: Instant, rounds: u32, inside: Load) -> Instant {
        if rounds == 0 { Instant::FAR_FUTURE } else { since + inside.round * u64::from(rounds) }
    }

    fn newcomer_may_enter(&self, now: Instant, inside: Load) -> bool {
        match self.config.rule {
            Rule::Paper { .. } => !inside.overloaded,
            Rule::Line { pace, .. } => {
                !inside.overloaded
                    && self.pools.len(List::Line) == 0
                    && self.last_admission.is_none_or(|t| now >= t + self.pace(pace))
            }
        }
    }

    fn pace(&self, pace: Duration) -> Duration {
        if self.awaited { pace.max(ON_THE_WAY) } else { pace }
    }

    /// Whether a SYN that has to wait is held.
    fn is_held(&self, header: &Header) -> bool {
        self.config.hold && !(self.config.answered && header.key.dport == HTTP)
    }

    /// A pool was admitted from the line: if it has no SYN here, it is expected back.
    fn await_if_away(&mut self, id: PoolId) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        if self.ready.is_empty() {
            pool.data.called = true;
            self.awaited = true;
        }
    }

    /// A pool leaves the line and is in.
    fn admit(&mut self, now: Instant, id: PoolId) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        push_recent(&mut self.waits, now.since(pool.since));
        pool.since = now;
        let held = core::mem::take(&mut pool.data.held);
        pool.data.called = false;
        self.ready.extend(held);
        self.pools.move_to(id, List::Newcomers);
        push_recent(&mut self.calls, now);
        self.last_admission = Some(now);
        self.awaited = false;
        self.admissions += 1;
    }

    /// A pool that need not wait is in. With no room in the table it goes unrecorded.
    fn enter(
        &mut self,
        now: Instant,
        source: IpAddr,
        known: Option<PoolId>,
        counters: &mut Counters,
        verdicts: &mut Verdicts<P>,
    ) {
        self.admissions += 1;
        self.last_admission = Some(now);
        self.awaited = false;
        match known {
            Some(id) => {
                if let Some(pool) = self.pools.get_mut(id) {
                    (pool.since, pool.seen) = (now, now);
                    pool.data.called = false;
                }
                self.pools.move_to(id, List::Newcomers);
            }
            None if self.make_room(now, counters, verdicts) => {
                self.pools.insert(now, source, List::Newcomers);
            }
            None => {}
        }
    }

    /// A pool takes its place at the end of the line.
    fn queue_up(
        &mut self,
        now: Instant,
        source: IpAddr,
        known: Option<PoolId>,
        counters: &mut Counters,
        verdicts: &mut Verdicts<P>,
    ) -> Option<PoolId> {
        if let Some(id) = known {
            if let Some(pool) = self.pools.get_mut(id) {
                (pool.since, pool.seen) = (now, now);
                pool.data.called = false;
            }
            self.pools.move_to(id, List::Line);
            return Some(id);
        }
        self.make_room(now, counters, verdicts).then(|| self.pools.insert(now, source, List::Line))
    }

    /// A waiting pool's SYN is held or refused.
    fn wait(
        &mut self,
        id: PoolId,
        way: Way,
        packet: P,
        counters: &mut Counters,
        verdicts: &mut Verdicts<P>,
    ) -> Option<P> {
        let full = self.held >= HELD;
        let held = self.is_held(packet.header());
        let Some(pool) = self.pools.get_mut(id).filter(|_| held) else {
            return refuse(packet, counters, verdicts);
        };
        let key: FlowKey = packet.header().key;
        if let Some(earlier) = pool.data.held.iter_mut().find(|(w, p)| *w == way && p.header().key == key) {
            // The latest copy carries the timestamp the answer will echo, so the handshake's RTT is measured right.
            let copy = core::mem::replace(&mut earlier.1, packet);
            counters.suppressed += 1;
            verdicts.push(Verdict::Suppressed { packet: copy });
            return None;
        }
        if full || pool.data.held.len() >= HELD_PER_POOL {
            return refuse(packet, counters, verdicts);
        }
        pool.data.held.push((way, packet));
        self.held += 1;
        None
    }

    /// Whether a pool can be added, if need be at the cost of one that proved nothing, of one that has long been idle, or
    /// of one that gave up.
    fn make_room(&mut self, now: Instant, counters: &mut Counters, verdicts: &mut Verdicts<P>) -> bool {
        if !self.pools.is_full() {
            return true;
        }
        let idle = |list| {
            let first = self.pools.first(list)?;
            self.pools.get(first).filter(|p| now.since(p.seen) > PATIENCE).map(|_| first)
        };
        let victim = self.pools.first(List::Newcomers).or_else(|| idle(List::Proven));
        if let Some(victim) = victim {
            self.pools.remove(victim);
        } else if let Some(gone) = idle(List::Line) {
            self.dismiss(gone, counters, verdicts);
        }
        !self.pools.is_full()
    }

    /// Those at the head of the line who no longer ask, and those who left: at most a few for each knock.
    fn forget_the_gone(&mut self, now: Instant, counters: &mut Counters, verdicts: &mut Verdicts<P>) {
        for list in [List::Line, List::Newcomers, List::Proven] {
            for _ in 0..4 {
                let Some(first) = self.pools.first(list) else { break };
                if self.pools.get(first).is_none_or(|p| now.since(p.seen) <= PATIENCE) {
                    break;
                }
                self.dismiss(first, counters, verdicts);
            }
        }
    }

    fn dismiss(&mut self, id: PoolId, counters: &mut Counters, verdicts: &mut Verdicts<P>) {
        let Some(waiting) = self.pools.remove(id) else { return };
        for (_, packet) in waiting.held {
            self.held -= 1;
            refuse(packet, counters, verdicts);
        }
    }

    /// For people: at most a hundred places, and the waits of the last 512 admitted from the line.
    #[must_use]
    pub fn report(&self, now: Instant, overloaded: bool) -> AdmissionReport {
        let mut waits: Vec<_> = self.waits.iter().copied().collect();
        waits.sort_unstable();
        // Nearest rank: the smallest wait that at least this part of them do not exceed.
        let rank = |percent: usize| waits.get((waits.len() * percent).div_ceil(100).max(1) - 1).copied();
        let queue = self.pools.iter(List::Line).take(PLACES).enumerate();
        AdmissionReport {
            overloaded,
            admitted: self.pools.len(List::Newcomers) + self.pools.len(List::Proven),
            admissions: self.admissions,
            waiting: self.waiting(),
            queue: queue
                .map(|(i, p)| WaitingPool {
                    pool: address(p.address),
                    position: i + 1,
                    waited: now.since(p.since),
                    expected: self.expected(now, i + 1, p.since),
                })
                .collect(),
            wait_p50: rank(50),
            wait_p99: rank(99),
        }
    }

    /// How much longer the pool at `place` waits: by the guarantee in the paper's rule, else by the pace of the last
    /// sixteen admissions.
    fn expected(&self, now: Instant, place: usize, since: Instant) -> Option<Duration> {
        if let Rule::Paper { wait, .. } = self.config.rule {
            return Some((since + wait).since(now));
        }
        let n = self.calls.len().min(16);
        let (newest, oldest) = (self.calls.back()?, self.calls.get(self.calls.len() - n)?);
        (n > 1).then(|| newest.since(*oldest) * place as u64 / (n as u64 - 1))
    }
}

fn refuse<P>(packet: P, counters: &mut Counters, verdicts: &mut Verdicts<P>) -> Option<P> {
    counters.refused += 1;
    verdicts.push(Verdict::Refused { packet });
    None
}

fn push_recent<T>(ring: &mut VecDeque<T>, value: T) {
    if ring.len() == RECENT {
        ring.pop_front();
    }
    ring.push_back(value);
}

#[cfg(test)]
mod tests;
