//! A CAKE-like discipline: deficit round robin whose quanta are the less the more flows the hosts have, sparse flows
//! first, COBALT on each, and on request a filter of superfluous acknowledgments.
//!
//! Idea: Høiland-Jørgensen, Täht and Morton, Piece of CAKE: A Comprehensive Queue Management Solution for Home
//! Gateways, LANMAN 2018.
//!
//! Where we differ:
//! - It does not shape: [`Shaper`](crate::Shaper) does, for every discipline. Nor does it sort by DSCP ("tins"), nor
//!   look behind a NAT: hosts are addresses.
//! - A turn of a host's flow is a fraction of the quantum. CAKE goes round until fractions add up to a packet, a
//!   thousand times for a host with a thousand flows; here a flow whose hosts have more than six leaps to the round in
//!   which they will have, or half the way. Its credit is that of each round it has leapt, as the number of flows was
//!   then; but if that falls its turn comes late.
//! - Of eight ways that are all taken the guest's packets go to one of them; it stays there while they wait, and no
//!   flow is reordered.
//! - The filter keeps more ([`acks`]), COBALT's first spell begins as all others ([`cobalt`]).
//! - The limit counts packets, not bytes.

mod acks;
mod cobalt;
mod hosts;
mod rounds;
mod ways;

use core::any::Any;

use narrows_lists::{Fifos, Links, List, Queue};
use narrows_units::{Duration, Instant};
use narrows_wire::Header;

use crate::codel::{INTERVALS, TARGETS, check_times};
use crate::drr::check_quantum;
use crate::keys::{choices, keys};
use crate::sojourn::Law;
use crate::{
    Backlog, BoxedDiscipline, ClassReport, Counters, Dice, Discipline, DisciplineSettings, Key, Limits,
    Manage, Packet, Qdisc, Reason, Report, SettingError, Settings, ShaperConfig, Verdict, Verdicts,
};
use cobalt::{Call, Cobalt};
use hosts::{Hosts, ONE, Parts};
use rounds::{ROUNDS, Rounds};
use ways::{Place, WAYS, Ways};

/// Whose flows share a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolate {
    /// Those of a source and those of a destination, whichever are more.
    #[default]
    Triple,
    /// Those of a source.
    DualSrc,
    /// Those of a destination.
    DualDst,
    /// Each flow has its own.
    Flows,
}
choices!(Isolate: "triple" => Triple, "dual_src" => DualSrc, "dual_dst" => DualDst, "flows" => Flows);

/// What happens to superfluous acknowledgments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckFilter {
    /// They stay.
    #[default]
    Off,
    /// The oldest goes if another superfluous one stays.
    On,
    /// The oldest goes.
    Aggressive,
}
choices!(AckFilter: "off" => Off, "on" => On, "aggressive" => Aggressive);

/// Settings. Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CakeConfig {
    /// The most packets that wait.
    pub limit: u32,
    /// Queues, in sets of eight.
    pub flows: u32,
    /// Bytes of a turn; 0: by the rate.
    pub quantum: u32,
    /// Acceptable standing delay.
    pub target: Duration,
    /// How long it may last.
    pub interval: Duration,
    /// Whose flows share a turn.
    pub isolate: Isolate,
    /// What happens to superfluous acknowledgments.
    pub ack_filter: AckFilter,
    /// ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CakeConfig {
    fn default() -> Self {
        Self {
            limit: 10_240,
            flows: 1024,
            quantum: 0,
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            isolate: Isolate::Triple,
            ack_filter: AckFilter::Off,
            ecn: true,
        }
    }
}

keys! {
    CakeConfig;
    limit: Number(1, 1_000_000), "the most packets that wait";
    flows: Number(8, 65_536), "queues, a multiple of eight";
    quantum: Number(0, 65_535), "bytes of a turn, on the link, at least 256; 0: what it sends in 1/4096 s, from 300 to 1514";
    target: Time(TARGETS.0, TARGETS.1), "acceptable standing delay; at least one and a half packets' time on the link";
    interval: Time(INTERVALS.0, INTERVALS.1), "how long the delay may stay above it; grows with `target`";
    isolate: Choice(), "whose flows share a turn: a source's and a destination's, one of them only, or nobody's";
    ack_filter: Choice(), "of superfluous acknowledgments of a flow, suppress all but one (`on`), or all (`aggressive`)";
    ecn: Choice(), "mark ECN-capable packets instead of dropping them";
}

impl Settings for CakeConfig {
    const NAME: &'static str = "cake";
    const BARE: &'static str = "limit";

    fn keys() -> &'static [Key<Self>] {
        KEYS
    }

    fn check(&self) -> Result<(), SettingError> {
        if !(self.flows as usize).is_multiple_of(WAYS) {
            return Err(SettingError::new("flows", self.flows.to_string(), format!("a multiple of {WAYS}")));
        }
        check_quantum(self.quantum, "one by the rate")?;
        check_times(self.target, self.interval)
    }
}

impl DisciplineSettings for CakeConfig {
    fn limits(&self, _link: &ShaperConfig) -> Limits {
        Limits { packets: self.limit as usize, flows: self.flows as usize }
    }

    fn build<P: Packet + Send + 'static>(&self, link: &ShaperConfig, seed: u64) -> BoxedDiscipline<P> {
        Box::new(Cake::new(*self, *link, seed))
    }
}

impl CakeConfig {
    fn quantum(&self, link: &ShaperConfig) -> u32 {
        match self.quantum {
            0 => (link.rate.as_bps() / 8 / 4096).clamp(300, 1514) as u32,
            n => n,
        }
    }
}

/// With no more flows than this a host's are visited in each round, as CAKE does: where one of so few goes empty the
/// parts of the others grow much, and leaping rounds would bring a user with three flows 2 % less than one with a
/// single flow (`turns_follow_the_load`).
const FEW: u64 = 6;
/// Of more flows each sits out so many rounds at once, or those in which each sends a quantum; of more than twice as
/// many it sits out half and looks again.
const NEAR: u64 = 32;
/// Of a long queue only so many packets are looked at for superfluous acknowledgments.
const SCAN: usize = 64;
/// A delay of fewer packets' time than this is not CoDel's fault.
const LEAST_PACKETS: u64 = 4;

/// What a queue counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    /// In no list.
    None,
    /// Has not used up its first turn: goes first.
    Sparse,
    /// Has used it up and is empty: in debt, but no burden to its hosts.
    Waiting,
    /// Served round robin.
    Bulk,
    /// Was found empty before COBALT had come to rest: keeps its place until then.
    Decaying,
}

/// One flow's queue: one line of a cache. Its bytes are kept apart, so that the longest is soon found.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct CakeFlow {
    queue: Queue,
    /// Bytes it may still send in this turn.
    deficit: i32,
    src: u16,
    dst: u16,
    set: Set,
    /// Holds packets of flows without a place of their own.
    guests: bool,
    /// Unless it is sparse: how many rounds after `credited` it is in the list of.
    away: u16,
    /// The last round whose credit it has, and the sums of its parts then.
    credited: u32,
    sums: Parts,
    cobalt: Cobalt,
}

/// The discipline.
#[derive(Debug)]
pub struct Cake<P> {
    config: CakeConfig,
    link: ShaperConfig,
    law: Law,
    /// Below this sojourn no queue is too long.
    least: Duration,
    quantum: u32,
    salt: u64,
    dice: Dice,
    ways: Ways,
    hosts: Hosts,
    packets: Fifos<(Instant, P)>,
    flows: Vec<CakeFlow>,
    bytes: Vec<u64>,
    links: Vec<Links>,
    sparse: List,
    /// Empty queues whose COBALT is not at rest: each dequeue looks at the next one.
    decaying: List,
    /// All other flows.
    rounds: Rounds,
    backlog: Backlog,
    counters: Counters,
}

impl<P: Packet> Cake<P> {
    /// Empty queues for `link`; `seed` keys the hashes and is for BLUE's dice.
    #[must_use]
    pub fn new(config: CakeConfig, link: ShaperConfig, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let flows = Ways::new(config.flows as usize);
        let empty = CakeFlow {
            queue: Queue::EMPTY,
            deficit: 0,
            src: 0,
            dst: 0,
            set: Set::None,
            guests: false,
            away: 0,
            credited: 0,
            sums: Parts::default(),
            cobalt: Cobalt::default(),
        };
        let mut cake = Self {
            config,
            link,
            law: Law { target: config.target, interval: config.interval, mtu: link.mtu },
            least: Duration::ZERO,
            quantum: 0,
            salt: dice.roll(),
            hosts: Hosts::new(flows.len(), dice.roll()),
            dice,
            packets: Fifos::new(),
            flows: vec![empty; flows.len()],
            bytes: vec![0; flows.len()],
            links: vec![Links::NONE; flows.len()],
            ways: flows,
            sparse: List::EMPTY,
            decaying: List::EMPTY,
            rounds: Rounds::new(),
            backlog: Backlog::default(),
            counters: Counters::default(),
        };
        cake.adopt(config, link);
        cake
    }

    fn adopt(&mut self, config: CakeConfig, link: ShaperConfig) {
        self.law = Law::on(&link, config.target, config.interval, true);
        let packet = link.rate.time_to_send(link.largest());
        self.least = Duration::from_nanos(LEAST_PACKETS * packet.as_nanos());
        self.quantum = config.quantum(&link);
        (self.config, self.link) = (config, link);
    }

    /// Of these parts the one that counts, or `alone` where nobody shares.
    fn part(&self, of: Parts, alone: u32) -> u32 {
        match self.config.isolate {
            Isolate::Triple => of.src.min(of.dst),
            Isolate::DualSrc => of.src,
            Isolate::DualDst => of.dst,
            Isolate::Flows => alone,
        }
    }

    /// The quantum's part of this round, with 16 fractional bits.
    fn share(&self, at: usize) -> u32 {
        let flow = &self.flows[at];
        self.quantum * self.part(self.hosts.parts(flow.src, flow.dst), ONE)
    }

    /// The flow's turn is over: it comes back in the round in which its parts of the quantum make up for its debt, or
    /// on the way there.
    fn postpone(&mut self, at: usize) {
        let share = self.share(at);
        let now = self.rounds.now();
        let flow = &mut self.flows[at];
        let need = u64::from((1 - flow.deficit).unsigned_abs()) << 16;
        let lacks = need.div_ceil(u64::from(share));
        let turn = u64::from((self.quantum << 16) / share);
        let away = if turn <= FEW { 1 } else { lacks.min(NEAR.max(turn).max(lacks / 2)) };
        let away = away.min(u64::from(ROUNDS) - 1) as u16;
        (flow.credited, flow.sums) = (now, self.hosts.sums(flow.src, flow.dst, now));
        flow.away = away;
        self.rounds.push(&mut self.links, now.wrapping_add(u32::from(away)), at as u32);
    }

    /// What the rounds that the flow has sat out are worth. Whether its source or its destination has more flows is
    /// decided for all of them together.
    fn credit(&mut self, at: usize) {
        let flow = &self.flows[at];
        let now = self.rounds.now();
        let rounds = now.wrapping_sub(flow.credited);
        if rounds == 0 {
            return;
        }
        let (sums, before) = (self.hosts.sums(flow.src, flow.dst, now), flow.sums);
        let past = Parts { src: sums.src.wrapping_sub(before.src), dst: sums.dst.wrapping_sub(before.dst) };
        let part = self.part(past, rounds * ONE);
        let flow = &mut self.flows[at];
        // The fraction is rounded by chance, so that nothing is lost on average.
        flow.deficit += ((u64::from(self.quantum) * u64::from(part) + (self.dice.roll() >> 48)) >> 16) as i32;
        (flow.credited, flow.sums, flow.away) = (now, sums, 0);
    }

    /// Takes a flow out of its list.
    fn unlink(&mut self, at: usize) {
        match self.flows[at].set {
            Set::Sparse => return self.sparse.remove(&mut self.links, at as u32),
            Set::Decaying => return self.decaying.remove(&mut self.links, at as u32),
            Set::None | Set::Waiting | Set::Bulk => {}
        }
        let flow = &self.flows[at];
        let round = flow.credited.wrapping_add(u32::from(flow.away));
        self.rounds.remove(&mut self.links, round, at as u32);
    }

    /// A queue was found empty, and is in no list any more: it decays, or is forgotten.
    fn found_empty(&mut self, at: usize, now: Instant) {
        let flow = &mut self.flows[at];
        if flow.set == Set::Bulk {
            self.hosts.relieve(flow.src, flow.dst, self.rounds.now());
        }
        if flow.cobalt.emptied(&self.law, now) {
            self.hosts.leave(flow.src, flow.dst);
            flow.set = Set::None;
        } else {
            flow.set = Set::Decaying;
            self.decaying.push_back(&mut self.links, at as u32);
        }
    }

    /// The next of the queues that decay is looked at.
    fn decay(&mut self, now: Instant) {
        if let Some(at) = self.decaying.pop_front(&mut self.links) {
            self.found_empty(at as usize, now);
        }
    }

    fn becomes_bulk(&mut self, at: usize) {
        let flow = &mut self.flows[at];
        flow.set = Set::Bulk;
        self.hosts.burden(flow.src, flow.dst, self.rounds.now());
    }

    /// The flow whose turn it is: the first sparse one, else the first of the nearest round. It stays in its list.
    fn turn(&mut self) -> Option<usize> {
        loop {
            let at = if let Some(at) = self.sparse.first() {
                at as usize
            } else {
                let at = self.rounds.next()? as usize;
                self.credit(at);
                at
            };
            if self.flows[at].deficit > 0 {
                return Some(at);
            }
            self.unlink(at);
            if self.flows[at].set == Set::Sparse {
                if self.flows[at].queue.is_empty() {
                    self.flows[at].set = Set::Waiting;
                } else {
                    self.becomes_bulk(at);
                }
            }
            self.postpone(at);
        }
    }

    fn pop(&mut self, at: usize) -> Option<(Instant, P)> {
        let flow = &mut self.flows[at];
        let (since, packet) = self.packets.pop_front(&mut flow.queue)?;
        self.backlog.sub(packet.len());
        self.bytes[at] -= packet.len().get();
        if flow.queue.is_empty() {
            flow.guests = false;
        }
        Some((since, packet))
    }

    /// COBALT on one queue: its next packet, if it has any. The last one is never dropped.
    fn serve(&mut self, at: usize, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        loop {
            let (since, mut packet) = self.pop(at)?;
            let sojourn = now.since(since);
            let high = sojourn > self.law.target && sojourn > self.least;
            let flow = &mut self.flows[at];
            let mut call = flow.cobalt.decide(&self.law, now, high, &mut self.dice);
            if call == Call::Tell && self.config.ecn && packet.mark_ce() {
                flow.cobalt.marked(now);
                self.counters.marked += 1;
                verdicts.push(Verdict::Marked { header: *packet.header(), reason: Reason::Sojourn });
                call = Call::Send;
            }
            let reason = match call {
                Call::Tell => Reason::Sojourn,
                Call::Stop => Reason::Early,
                Call::Send => return Some(packet),
            };
            if flow.queue.is_empty() {
                return Some(packet);
            }
            self.counters.drop_for(reason);
            verdicts.push(Verdict::Dropped { packet, reason });
        }
    }

    /// Takes one packet from the head of the longest queue; `own` is where the packet that came went.
    fn shed(&mut self, own: usize, now: Instant, verdicts: &mut Verdicts<P>) {
        let mut longest = 0;
        for (at, bytes) in self.bytes.iter().enumerate() {
            if *bytes > self.bytes[longest] {
                longest = at;
            }
        }
        let reason = if longest == own { Reason::OverLimit } else { Reason::PushedOut };
        if let Some((_, packet)) = self.pop(longest) {
            self.flows[longest].cobalt.full(&self.law, now);
            self.counters.drop_for(reason);
            verdicts.push(Verdict::Dropped { packet, reason });
        }
    }

    /// Suppresses the oldest acknowledgment in the queue that one that came makes superfluous.
    fn filter(&mut self, at: usize, new: &Header, verdicts: &mut Verdicts<P>) {
        let spare = match self.config.ack_filter {
            AckFilter::Off => return,
            AckFilter::On => 1,
            AckFilter::Aggressive => 0,
        };
        if !acks::replaces(new) {
            return;
        }
        let (mut oldest, mut found, mut before) = (None, 0, None);
        for (place, (_, packet)) in self.packets.iter(&self.flows[at].queue).take(SCAN) {
            if acks::superfluous(packet.header(), new) {
                oldest.get_or_insert(before);
                found += 1;
                if found > spare {
                    break;
                }
            }
            before = Some(place);
        }
        let Some(before) = oldest.filter(|_| found > spare) else { return };
        let queue = &mut self.flows[at].queue;
        let gone = match before {
            None => self.packets.pop_front(queue),
            Some(before) => self.packets.remove_after(queue, before),
        };
        if let Some((_, packet)) = gone {
            self.backlog.sub(packet.len());
            self.bytes[at] -= packet.len().get();
            self.counters.suppressed += 1;
            verdicts.push(Verdict::Suppressed { packet });
        }
    }

    /// The queue of a flow that is new here.
    fn place(&mut self, header: &Header) -> usize {
        let flows = &self.flows;
        let hash = header.key.hash(self.salt);
        let place = self.ways.find(hash, |at| flows[at].set != Set::None, |at| flows[at].guests);
        let at = place.index();
        match place {
            Place::Own(_) | Place::New(_) => {}
            Place::Shared(_) => self.flows[at].guests = true,
        }
        let set = self.flows[at].set;
        match set {
            Set::None | Set::Decaying => {
                if set == Set::None {
                    (self.flows[at].src, self.flows[at].dst) = self.hosts.enter(&header.key);
                } else {
                    self.unlink(at);
                }
                self.flows[at].deficit = (self.share(at) >> 16).max(1).cast_signed();
                self.flows[at].set = Set::Sparse;
                self.sparse.push_back(&mut self.links, at as u32);
            }
            Set::Waiting => self.becomes_bulk(at),
            Set::Sparse | Set::Bulk => {}
        }
        at
    }
}

impl<P: Packet> Qdisc<P> for Cake<P> {
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        let len = packet.len();
        self.counters.arrive(len);
        let at = self.place(packet.header());
        self.filter(at, packet.header(), verdicts);
        self.packets.push_back(&mut self.flows[at].queue, (now, packet));
        self.backlog.add(len);
        self.bytes[at] += len.get();
        // More than once only after the limit was lowered.
        while self.backlog.packets > self.config.limit as usize {
            self.shed(at, now, verdicts);
        }
    }

    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        if self.backlog.packets > 0 {
            self.decay(now);
        }
        while self.backlog.packets > 0 {
            let at = self.turn()?;
            let Some(packet) = self.serve(at, now, verdicts) else {
                self.unlink(at);
                self.found_empty(at, now);
                continue;
            };
            let wire = self.link.wire_len(packet.len());
            // No packet of IP is longer than 64 kB; more would only be a longer debt.
            self.flows[at].deficit -= i32::try_from(wire.get()).unwrap_or(i32::MAX).min(1 << 20);
            self.counters.send(packet.len());
            return Some(packet);
        }
        None
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        (self.backlog.packets > 0).then_some(now)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl<P: Packet> Manage for Cake<P> {
    fn reconfigure(&mut self, _now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let Some(config) = settings.downcast_ref::<CakeConfig>() else { return false };
        // Another table would part packets of a flow.
        if config.flows != self.config.flows {
            return false;
        }
        self.adopt(*config, *link);
        true
    }

    fn report(&mut self, _now: Instant) -> Report {
        let class = |name, bulk: bool| {
            let mut class = ClassReport { name, ..ClassReport::default() };
            let here = |f: &&CakeFlow| !f.queue.is_empty() && (f.set == Set::Bulk) == bulk;
            for flow in self.flows.iter().filter(here) {
                class.flows += 1;
                for (_, (_, packet)) in self.packets.iter(&flow.queue) {
                    class.backlog.add(packet.len());
                }
            }
            class
        };
        let classes = vec![class("sparse", false), class("bulk", true)];
        let flows = classes.iter().map(|c| c.flows).sum();
        Report {
            name: "cake",
            counters: self.counters.clone(),
            backlog: self.backlog,
            classes,
            flows,
            active_flows: flows,
            ..Report::default()
        }
    }
}

impl<P: Packet> Discipline<P> for Cake<P> {}

#[cfg(test)]
mod tests;
