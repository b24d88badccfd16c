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
//! - With `scale` the target follows the rate, see [`sojourn`](crate::sojourn).

use core::any::Any;

use narrows_lists::{Links, List, Queue};
use narrows_units::{Duration, Instant};

use crate::codel::{INTERVALS, TARGETS, check_times};
use crate::flow_fifos::FlowFifos;
use crate::keys::{choices, keys};
use crate::sojourn::{Before, CodelState, Law};
use crate::{
    Backlog, BoxedDiscipline, Buckets, Counters, Discipline, DisciplineSettings, Limits, Manage, Packet,
    Qdisc, Reason, Report, SettingError, Settings, ShaperConfig, Verdicts,
};

/// What CoDel leaves alone if no more than one packet of it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spare {
    /// The flow's own queue.
    Queue,
    /// All that waits for the link.
    #[default]
    Link,
}
choices!(Spare: "queue" => Queue, "link" => Link);

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
    /// How long it may last.
    pub interval: Duration,
    /// `target` is at least one and a half packets' time on the link.
    pub scale: bool,
    /// ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
    /// What CoDel leaves alone.
    pub spare: Spare,
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
        }
    }
}

keys! {
    FqCodelConfig;
    limit: Number(1, 1_000_000), "the most packets that wait";
    flows: Number(1, 65_536), "queues that flows are hashed into";
    quantum: Number(256, 65_535), "bytes of a turn, on the link";
    target: Time(TARGETS.0, TARGETS.1), "acceptable standing delay of a flow";
    interval: Time(INTERVALS.0, INTERVALS.1),
        "how long the delay may stay above it: about the longest usual round-trip time";
    scale: Choice(),
        "`target` is never less than one and a half packets' time on the link, and `interval` grows by as much";
    ecn: Choice(), "mark ECN-capable packets instead of dropping them";
    spare: Choice(),
        "CoDel leaves alone what has no more than one packet waiting: the flow's `queue` (RFC 8289, ns-3), or the \
         `link` (Linux)";
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

/// At most so many packets of the fattest queue go at once, and no more than half of its bytes (RFC 8290, section 4.1).
const BATCH: u32 = 64;

/// Which list a flow is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    None,
    New,
    Old,
}

/// One flow's queue: one line of a cache. Its bytes are kept apart, so that the fattest is soon found.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct FqCodelFlow {
    queue: Queue,
    age: Age,
    /// Bytes it may still send in this turn.
    deficit: i64,
    codel: CodelState,
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
    links: Vec<Links>,
    new: List,
    old: List,
    /// When the link has sent the packet after which nothing waited.
    free_at: Instant,
    counters: Counters,
}

impl<P: Packet> FqCodel<P> {
    /// Empty queues for `link`; `seed` keys the hash.
    #[must_use]
    pub fn new(config: FqCodelConfig, link: ShaperConfig, seed: u64) -> Self {
        let empty =
            FqCodelFlow { queue: Queue::EMPTY, age: Age::None, deficit: 0, codel: CodelState::default() };
        Self {
            config,
            link,
            law: Law::on(&link, config.target, config.interval, config.scale),
            buckets: Buckets::new(config.flows, seed),
            packets: FlowFifos::new(config.flows as usize),
            flows: vec![empty; config.flows as usize],
            links: vec![Links::NONE; config.flows as usize],
            new: List::EMPTY,
            old: List::EMPTY,
            free_at: Instant::ZERO,
            counters: Counters::default(),
        }
    }

    fn pop(&mut self, at: usize) -> Option<(Instant, P)> {
        self.packets.pop(at, &mut self.flows[at].queue)
    }

    /// All queues are empty and leave their lists. A turn would have found them so.
    fn retire(&mut self) {
        let lasting = self.config.spare == Spare::Link;
        for list in [&mut self.new, &mut self.old] {
            while let Some(at) = list.pop_front(&mut self.links) {
                let flow = &mut self.flows[at as usize];
                flow.age = Age::None;
                flow.codel.emptied(Before::Nothing, lasting);
            }
        }
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

    /// CoDel on one queue: its next packet, if it has any left.
    fn serve(&mut self, at: usize, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        let mut before = Before::Nothing;
        loop {
            let Some((since, mut packet)) = self.pop(at) else {
                let lasting = self.config.spare == Spare::Link;
                self.flows[at].codel.emptied(before, lasting);
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

    /// The queue whose turn it is: the first of the new ones, else of the old. It stays in its list.
    fn turn(&mut self) -> Option<usize> {
        loop {
            let from_new = !self.new.is_empty();
            let first = if from_new { self.new.first() } else { self.old.first() }?;
            let flow = &mut self.flows[first as usize];
            if flow.deficit > 0 {
                return Some(first as usize);
            }
            flow.deficit += i64::from(self.config.quantum);
            self.leave(from_new, first);
            self.age(first);
        }
    }

    fn leave(&mut self, from_new: bool, at: u32) {
        let list = if from_new { &mut self.new } else { &mut self.old };
        list.remove(&mut self.links, at);
    }

    fn age(&mut self, at: u32) {
        self.flows[at as usize].age = Age::Old;
        self.old.push_back(&mut self.links, at);
    }
}

impl<P: Packet> Qdisc<P> for FqCodel<P> {
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.counters.arrive(packet.len());
        if self.packets.backlog().packets == 0 && now >= self.free_at {
            self.retire();
        }
        let at = self.buckets.of(&packet.header().key);
        let flow = &mut self.flows[at];
        self.packets.push(at, &mut flow.queue, now, packet);
        if flow.age == Age::None {
            flow.age = Age::New;
            flow.deficit = i64::from(self.config.quantum);
            self.new.push_back(&mut self.links, at as u32);
        }
        // More than once only after the limit was lowered.
        while self.packets.backlog().packets > self.config.limit as usize {
            self.shed(at, verdicts);
        }
    }

    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        while self.packets.backlog().packets > 0 {
            let at = self.turn()?;
            if let Some(packet) = self.serve(at, now, verdicts) {
                let wire = self.link.wire_len(packet.len());
                self.flows[at].deficit -= i64::try_from(wire.get()).unwrap_or(i64::MAX);
                self.counters.send(packet.len());
                if self.packets.backlog().packets == 0 {
                    self.free_at = now + self.link.rate.time_to_send(wire);
                }
                return Some(packet);
            }
            // A new queue that is empty has to wait behind the old ones before it can be new again; else a flow that
            // sends a packet each time would starve them (RFC 8290, section 4.2).
            let was_new = self.flows[at].age == Age::New;
            self.leave(was_new, at as u32);
            if was_new {
                self.age(at as u32);
            } else {
                self.flows[at].age = Age::None;
            }
        }
        None
    }

    fn backlog(&self) -> Backlog {
        self.packets.backlog()
    }
}

impl<P: Packet> Manage for FqCodel<P> {
    fn reconfigure(&mut self, _now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let Some(config) = settings.downcast_ref::<FqCodelConfig>() else { return false };
        // Other buckets would part packets of a flow.
        if config.flows != self.config.flows {
            return false;
        }
        (self.config, self.link) = (*config, *link);
        self.law = Law::on(link, config.target, config.interval, config.scale);
        true
    }

    fn report(&mut self, _now: Instant) -> Report {
        let of = |age| self.flows.iter().filter(move |f| f.age == age).map(|f| &f.queue);
        self.packets.report("fq_codel", &self.counters, [("new", of(Age::New)), ("old", of(Age::Old))])
    }
}

impl<P: Packet> Discipline<P> for FqCodel<P> {}

#[cfg(test)]
mod tests;
