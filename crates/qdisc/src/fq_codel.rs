//! FQ-CoDel: a queue for each bucket of a hash over flows, served by deficit round robin, with CoDel on each; a flow
//! that comes after a pause goes before those that have stood in line.
//!
//! Idea: Taht, Dumazet, Høiland-Jørgensen and others; RFC 8290.
//!
//! Where we differ:
//! - CoDel spares a queue with no more than one packet behind (RFC 8289). Whose queue? Everything that waits, as in
//!   Linux: so a flow can lose the only packet it has, and one that comes back late loses a packet at once. With
//!   `spare=queue` the flow's own, as in ns-3.
//! - Turns are counted in bytes on the link, framing included.
//! - When nothing has waited for as long as the last packet takes to be sent, all lists are empty, as if the link had
//!   asked for another packet: who comes next is new, however seldom the driver calls.
//! - A drop by the limit does not touch CoDel's count (Linux adds to it).
//! - With `share=user` there are two levels, each by these rules: users, and each one's flows ([`crate::users`]). A
//!   flow then has one of eight queues, so that few meet another user's ([`crate::cake`]).
//! - With `scale` the target follows the rate, see [`sojourn`](crate::sojourn).

mod users;

use core::any::Any;

use narrows_lists::Queue;
use narrows_units::{Duration, Instant};
use narrows_users::UserRule;

use self::users::FqUsers;

use crate::codel::{INTERVALS, TARGETS, check_times};
use crate::deficit::{Carry, DeficitScheduler, Place, Terms, Turn, member};
use crate::flow_fifos::FlowFifos;
use crate::keys::{choices, keys};
use crate::new_flows::NewShare;
use crate::sojourn::{Before, CodelState, Law};
use crate::users::CircuitRates;
use crate::{
    Backlog, BoxedDiscipline, Buckets, Counters, Discipline, DisciplineSettings, Limits, Manage, Packet,
    Qdisc, Reason, Report, SettingError, Settings, ShaperConfig, Verdicts,
};

/// Queue that CoDel leaves alone while at most one packet waits in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spare {
    /// The flow's own queue.
    Queue,
    /// All that waits for the link.
    #[default]
    Link,
}
choices!(Spare: "queue" => Queue, "link" => Link);

/// Among whom the link is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowsOrUsers {
    /// Flows.
    #[default]
    Flow,
    /// Users first, and then each one's flows.
    User,
}
choices!(FlowsOrUsers: "flow" => Flow, "user" => User);

/// Settings of FQ-CoDel. Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelConfig {
    /// The most packets that wait.
    pub limit: u32,
    /// Queues that flows are hashed into.
    pub flows: u32,
    /// Bytes of a turn.
    pub quantum: u32,
    /// Acceptable standing delay.
    pub target: Duration,
    /// Time that the delay may stay above `target`.
    pub interval: Duration,
    /// Whether `target` is at least one and a half packets' time on the link.
    pub scale: bool,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
    /// Queue that CoDel leaves alone while at most one packet waits in the queue.
    pub spare: Spare,
    /// Among whom the link is shared.
    pub share: FlowsOrUsers,
    /// Leading bits of an IPv6 address that are a user's; 0 for as the driver tells of each packet.
    pub user_prefix: u32,
}

impl Default for FqCodelConfig {
    /// RFC 8290, section 5.2.
    fn default() -> Self {
        Self {
            limit: 10_240,
            flows: 1024,
            quantum: 1514,
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            scale: false,
            ecn: true,
            spare: Spare::Link,
            share: FlowsOrUsers::Flow,
            user_prefix: 0,
        }
    }
}

keys! {
    FqCodelConfig;
    limit: Number(1, 1_000_000), "most packets that wait at once";
    flows: Number(1, 65_536), "number of queues that flows are hashed into";
    quantum: Number(256, 65_535), "bytes of a turn, on the link";
    target: Time(TARGETS.0, TARGETS.1), "acceptable standing delay of a flow";
    interval: Time(INTERVALS.0, INTERVALS.1),
        "time that the delay may stay above `target`: about the longest usual round-trip time";
    scale: Choice(), "raise `target` to at least one and a half packets' time on the link, and `interval` by as much";
    ecn: Choice(), "mark ECN-capable packets instead of dropping them";
    spare: Choice(),
        "queue that CoDel leaves alone while at most one packet waits in it: the flow's (`queue`; RFC 8289, ns-3) or \
         the whole `link`'s (Linux)";
    share: Choice(), "sharing of the link: among flows, or among users and then their flows";
    user_prefix: Number(0, 128),
        "length of a user's IPv6 prefix in bits (`share=user`); 0: as the box finds it, and 64 elsewhere";
}

impl Settings for FqCodelConfig {
    const NAME: &'static str = "fq_codel";
    const BARE: &'static str = "limit";

    fn check(&self) -> Result<(), SettingError> {
        check_times(self.target, self.interval)
    }
}

impl DisciplineSettings for FqCodelConfig {
    fn limits(&self, _link: &ShaperConfig) -> Limits {
        Limits { packets: self.limit as usize, flows: self.flows as usize }
    }

    fn build<P: Packet + Send + 'static>(&self, link: &ShaperConfig, seed: u64) -> BoxedDiscipline<P> {
        Box::new(FqCodel::new(*self, *link, seed))
    }
}

impl FqCodelConfig {
    const fn users(&self, link: &ShaperConfig) -> UserRule {
        UserRule { side: link.users, ipv6_prefix: crate::users::prefix(self.user_prefix) }
    }
}

/// Packets of the fattest queue that go at once at most; no more than half of its bytes go (RFC 8290, section 4.1).
const BATCH: u32 = 64;

/// Queue of one flow: one line of a cache. Its bytes are kept apart, so that the fattest is soon found.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct FqCodelFlow {
    queue: Queue,
    turn: Turn,
    codel: CodelState,
}

member!(FqCodelFlow: turn);

const _: () = assert!(size_of::<FqCodelFlow>() == 64);

/// Takes all queues, which are empty, out of their lists, as a turn of each would.
fn retire(lists: &mut DeficitScheduler, flows: &mut Vec<FqCodelFlow>) {
    while let Some(at) = lists.anybody() {
        lists.leave(flows, at);
        flows[at as usize].codel.emptied();
    }
}

/// The discipline.
#[derive(Debug)]
pub struct FqCodel<P> {
    config: FqCodelConfig,
    link: ShaperConfig,
    law: Law,
    buckets: Buckets,
    packets: FlowFifos<P>,
    flows: Vec<FqCodelFlow>,
    lists: DeficitScheduler,
    by_user: Option<Box<FqUsers>>,
    /// Time at which the link has sent the packet after which nothing waited.
    free_at: Instant,
    counters: Counters,
}

impl<P: Packet> FqCodel<P> {
    /// Empty queues for `link`; `seed` keys the hash.
    #[must_use]
    pub fn new(config: FqCodelConfig, link: ShaperConfig, seed: u64) -> Self {
        let empty = FqCodelFlow { queue: Queue::EMPTY, turn: Turn::default(), codel: CodelState::default() };
        // Queues of users come in sets of eight.
        let queues = if config.share == FlowsOrUsers::User { config.flows.max(8) } else { config.flows };
        Self {
            config,
            link,
            law: Law::on(&link, config.target, config.interval, config.scale),
            buckets: Buckets::new(config.flows, seed),
            packets: FlowFifos::new(queues as usize),
            flows: vec![empty; queues as usize],
            lists: DeficitScheduler::EMPTY,
            by_user: (config.share == FlowsOrUsers::User)
                .then(|| Box::new(FqUsers::new(&config, &link, seed))),
            free_at: Instant::ZERO,
            counters: Counters::default(),
        }
    }

    fn pop(&mut self, at: usize) -> Option<(Instant, P)> {
        let popped = self.packets.pop(at, &mut self.flows[at].queue)?;
        if let Some(by) = &mut self.by_user {
            by.popped(at);
        }
        Some(popped)
    }

    /// Takes all queues, which are empty, out of their lists.
    fn retire(&mut self) {
        match &mut self.by_user {
            Some(by) => by.retire(&mut self.flows),
            None => retire(&mut self.lists, &mut self.flows),
        }
    }

    /// The rules of service: a new flow goes first whoever waits.
    fn terms(&self) -> Terms {
        let quantum = i32::try_from(self.config.quantum).unwrap_or(i32::MAX);
        Terms { quantum, carry: Carry::Keep, share: NewShare::ALL }
    }

    /// Takes from the head of the fattest queue; `own` is where the packet that came went.
    fn shed(&mut self, own: usize, verdicts: &mut Verdicts<P>) {
        let fattest = self.packets.longest();
        let reason = if fattest == own { Reason::OverLimit } else { Reason::PushedOut };
        let enough = self.packets.bytes(fattest).get() / 2;
        let mut gone = 0;
        for _ in 0..BATCH {
            let Some((_, packet)) = self.pop(fattest) else { break };
            gone += packet.len().get();
            self.counters.drop_packet(packet, reason, verdicts);
            if gone >= enough {
                break;
            }
        }
    }

    /// Runs CoDel on a queue and returns the queue's next packet, if any is left.
    fn serve(&mut self, at: usize, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        let mut before = Before::Nothing;
        loop {
            let Some((since, mut packet)) = self.pop(at) else {
                self.flows[at].codel.emptied();
                return None;
            };
            let behind = match self.config.spare {
                Spare::Queue => self.packets.bytes(at),
                Spare::Link => self.packets.backlog().bytes,
            };
            let codel = &mut self.flows[at].codel;
            let Some(signal) = codel.decide(&self.law, now, now.since(since), behind, before) else {
                return Some(packet);
            };
            if self.config.ecn && self.counters.mark_packet(&mut packet, Reason::Sojourn, verdicts) {
                codel.marked(&self.law, signal);
                return Some(packet);
            }
            self.counters.drop_packet(packet, Reason::Sojourn, verdicts);
            before = signal;
        }
    }

    /// A flow that was in no list is new.
    fn join(&mut self, at: usize) {
        let quantum = self.terms().quantum;
        let lists = match &mut self.by_user {
            Some(by) => by.lists(at),
            None => &mut self.lists,
        };
        self.flows[at].turn.credit = quantum;
        lists.join(&mut self.flows, at as u32, Place::New);
    }

    /// The lists of `user`, or of the link, and all flows.
    fn lists(&mut self, user: Option<u32>) -> (&mut DeficitScheduler, &mut Vec<FqCodelFlow>) {
        let lists = match (&mut self.by_user, user) {
            (Some(by), Some(user)) => &mut by.users.at_mut(user).lists,
            _ => &mut self.lists,
        };
        (lists, &mut self.flows)
    }

    /// The next packet of the link, or of one user; `None` if all of their queues turned out empty.
    fn next_of(&mut self, user: Option<u32>, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        let terms = self.terms();
        loop {
            let (lists, flows) = self.lists(user);
            let at = lists.next(flows, &terms)?;
            let served = self.serve(at as usize, now, verdicts);
            let wire = served.as_ref().map(|packet| self.link.wire_len(packet.len()).get());
            let (lists, flows) = self.lists(user);
            if let Some(wire) = wire {
                let turn = &mut flows[at as usize].turn;
                let place = turn.place();
                lists.charge(turn, terms.share, place, i32::try_from(wire).unwrap_or(i32::MAX));
                return served;
            }
            // A new queue that is empty has to wait behind the old ones before it can be new again; else a flow that
            // sends a packet each time would starve them (RFC 8290, section 4.2).
            lists.linger(flows, at);
            let empty = match (user, &self.by_user) {
                (Some(user), Some(by)) => by.users.is_empty(user),
                _ => self.packets.backlog().packets == 0,
            };
            if empty {
                return None;
            }
        }
    }

    /// The next packet of the user whose turn is next.
    fn next_by_user(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        while self.packets.backlog().packets > 0 {
            let quantum = self.terms().quantum;
            let user = self.by_user.as_mut()?.users.next(now, quantum, |_| 1)?;
            let packet = self.next_of(Some(user), now, verdicts);
            let Self { flows, by_user, link, .. } = self;
            let by = by_user.as_mut()?;
            if let Some(packet) = packet {
                let wire = link.wire_len(packet.len()).get();
                by.users.charge(now, i32::try_from(wire).unwrap_or(i32::MAX));
                return Some(packet);
            }
            by.rest(user, flows);
        }
        None
    }
}

impl<P: Packet> Qdisc<P> for FqCodel<P> {
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.counters.arrive(packet.len());
        if self.packets.backlog().packets == 0 && now >= self.free_at {
            self.retire();
        }
        let flows = &self.flows;
        let at = match &mut self.by_user {
            Some(by) => by.place(&packet, |at| flows[at].turn.place() != Place::Idle),
            None => self.buckets.of(&packet.header().key),
        };
        let flow = &mut self.flows[at];
        self.packets.push(at, &mut flow.queue, now, packet);
        if flow.turn.place() == Place::Idle {
            self.join(at);
        }
        if let Some(by) = &mut self.by_user {
            by.pushed(at);
        }
        // More than once only after the limit was lowered.
        while self.packets.backlog().packets > self.config.limit as usize {
            self.shed(at, verdicts);
        }
    }

    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        if self.packets.backlog().packets == 0 {
            return None;
        }
        let packet = match &self.by_user {
            Some(_) => self.next_by_user(now, verdicts),
            None => self.next_of(None, now, verdicts),
        }?;
        self.counters.send(packet.len());
        if self.packets.backlog().packets == 0 {
            self.free_at = now + self.link.rate.time_to_send(self.link.wire_len(packet.len()));
        }
        Some(packet)
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        let waits = self.packets.backlog().packets > 0;
        match &self.by_user {
            Some(by) if waits => by.users.next_ready(now),
            _ => waits.then_some(now),
        }
    }

    fn backlog(&self) -> Backlog {
        self.packets.backlog()
    }
}

impl<P: Packet> Manage for FqCodel<P> {
    fn reconfigure(&mut self, _now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let Some(config) = settings.downcast_ref::<FqCodelConfig>() else { return false };
        // Other buckets would part packets of a flow, or give a queue to another user.
        if config.flows != self.config.flows
            || config.share != self.config.share
            || config.users(link) != self.config.users(&self.link)
        {
            return false;
        }
        (self.config, self.link) = (*config, *link);
        self.law = Law::on(link, config.target, config.interval, config.scale);
        true
    }

    fn set_circuit_rates(&mut self, rates: &CircuitRates) {
        if let Some(by) = &mut self.by_user {
            by.users.set_rates(rates.clone());
        }
    }

    fn report(&mut self, _now: Instant) -> Report {
        let of = |place| self.flows.iter().filter(move |f| f.turn.place() == place).map(|f| &f.queue);
        self.packets.report("fq_codel", &self.counters, [("new", of(Place::New)), ("old", of(Place::Old))])
    }
}

impl<P: Packet> Discipline<P> for FqCodel<P> {}

#[cfg(test)]
mod tests;
