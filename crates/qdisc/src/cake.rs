//! A CAKE-like discipline: flows in turns that are worth the less the more flows their hosts have, sparse flows first, COBALT on
//! each, and on request a filter of superfluous acknowledgments.
//!
//! Idea: Høiland-Jørgensen, Täht and Morton, Piece of CAKE: A Comprehensive Queue Management Solution for Home Gateways, LANMAN
//! 2018.
//!
//! Where we differ:
//! - It does not shape: [`Shaper`](crate::Shaper) does, for every discipline. Nor does it sort by DSCP ("tins"), nor look behind a NAT:
//!   hosts are addresses.
//! - A turn of a host's flow is a fraction of the quantum. CAKE goes round until fractions add up to a packet, a thousand times for a
//!   host with a thousand flows; here a flow leaps all but four of the rounds it lacks, or a quarter of them, at most 63,
//!   and looks again.
//! - Of eight ways that are all taken the guest's packets go to one of them; it stays there while they wait, and no flow is
//!   reordered.
//! - The filter keeps more ([`acks`]), COBALT's first spell begins as all others ([`cobalt`]).
//! - The limit counts packets, not bytes.

mod acks;
mod cobalt;
mod hosts;
mod ways;

use narrows_units::{Duration, Instant};
use narrows_wire::Header;

use crate::chain::{Chain, Links, NONE};
use crate::codel::{INTERVALS, TARGETS, check_times};
use crate::drr::check_quantum;
use crate::keys::{choices, keys};
use crate::slab::{Line, Slab};
use crate::sojourn::Law;
use crate::{
    Backlog, ClassReport, Counters, Dice, Key, Limits, Packet, Qdisc, Reason, Report, Settings, ShaperConfig,
    Spec, SpecError, Verdict, Verdicts,
};
use cobalt::{Call, Cobalt};
use hosts::Hosts;
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
    ack_filter: Choice(), "of superfluous acknowledgments of a flow, swallow all but one (`on`), or all (`aggressive`)";
    ecn: Choice(), "mark ECN-capable packets instead of dropping them";
}

impl Settings for CakeConfig {
    const NAME: &'static str = "cake";
    const BARE: &'static str = "limit";

    fn keys() -> &'static [Key<Self>] {
        KEYS
    }

    fn check(&self) -> Result<(), SpecError> {
        if !(self.flows as usize).is_multiple_of(WAYS) {
            return Err(SpecError {
                key: "flows".to_owned(),
                value: self.flows.to_string(),
                expected: format!("a multiple of {WAYS}"),
            });
        }
        check_quantum(self.quantum, "one by the rate")?;
        check_times(self.target, self.interval)
    }

    fn limits(&self, _link: &ShaperConfig) -> Limits {
        Limits { packets: self.limit as usize, flows: self.flows as usize }
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

/// Rounds in sight: one bit each in a word.
const ROUNDS: u32 = 64;
/// A flow in debt looks again after this part of the rounds it lacks, because its share changes with the load of its hosts. All at
/// once was 6 % off in the bytes of two flows beside a sparse one, by how its packets fell on their last ones (`turns_follow_the_load`).
const LEAP: i64 = 4;
/// Farther off than this it looks again only so many rounds before.
const NEAR: i64 = 4;
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
    /// Takes turns.
    Bulk,
    /// Was found empty before COBALT had come to rest: keeps its place until then.
    Decaying,
}

/// One flow's queue: one line of a cache. Its bytes are kept apart, so that the longest is soon found.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Flow {
    line: Line,
    /// Bytes it may still send in this turn.
    deficit: i32,
    src: u16,
    dst: u16,
    set: Set,
    /// Holds packets of flows without a place of their own.
    guests: bool,
    /// The round in whose list it is, unless it is sparse.
    round: u8,
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
    slab: Slab<P>,
    flows: Vec<Flow>,
    bytes: Vec<u64>,
    links: Links,
    sparse: Chain,
    /// Empty queues whose COBALT is not at rest: each dequeue looks at the next one.
    decaying: Chain,
    /// The flows of each round to come; which are not empty.
    rounds: [Chain; ROUNDS as usize],
    filled: u64,
    round: u32,
    backlog: Backlog,
    /// When the link has sent the packet after which nothing waited.
    free_at: Instant,
    counters: Counters,
}

impl<P: Packet> Cake<P> {
    /// Empty queues for `link`; `seed` keys the hashes and is for BLUE's dice.
    #[must_use]
    pub fn new(config: CakeConfig, link: ShaperConfig, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let flows = Ways::new(config.flows as usize);
        let empty = Flow {
            line: Line::EMPTY,
            deficit: 0,
            src: 0,
            dst: 0,
            set: Set::None,
            guests: false,
            round: 0,
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
            slab: Slab::new(),
            flows: vec![empty; flows.len()],
            bytes: vec![0; flows.len()],
            links: Links::new(flows.len()),
            ways: flows,
            sparse: Chain::EMPTY,
            decaying: Chain::EMPTY,
            rounds: [Chain::EMPTY; ROUNDS as usize],
            filled: 0,
            round: 0,
            backlog: Backlog::default(),
            free_at: Instant::ZERO,
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

    /// How many flows share a turn with this one.
    fn load(&self, at: usize) -> u32 {
        let (src, dst) = self.hosts.bulk(self.flows[at].src, self.flows[at].dst);
        let load = match self.config.isolate {
            Isolate::Triple => src.max(dst),
            Isolate::DualSrc => src,
            Isolate::DualDst => dst,
            Isolate::Flows => 1,
        };
        load.max(1)
    }

    /// The quantum's part of one round, with 16 fractional bits.
    fn share(&self, at: usize) -> u32 {
        ((self.quantum << 16) / self.load(at)).max(1)
    }

    /// The flow's turn is over: it comes back on the way to the round in which its parts of the quantum make up for its debt.
    fn postpone(&mut self, at: usize) {
        let share = i64::from(self.share(at));
        let need = (1 - i64::from(self.flows[at].deficit)) << 16;
        let most = i64::from(ROUNDS - 1);
        let lacks = (need + share - 1) / share;
        let rounds = ((lacks + LEAP - 1) / LEAP).max(lacks - NEAR).clamp(1, most);
        // The fraction is rounded by chance, so that nothing is lost on average.
        let credit = (rounds * share + (self.dice.roll() >> 48).cast_signed()) >> 16;
        let flow = &mut self.flows[at];
        flow.deficit += credit as i32;
        let round = (self.round + rounds as u32) % ROUNDS;
        flow.round = round as u8;
        self.links.push_back(&mut self.rounds[round as usize], at as u32);
        self.filled |= 1 << round;
    }

    /// Takes a flow out of its list.
    fn unlink(&mut self, at: usize) {
        match self.flows[at].set {
            Set::Sparse => return self.links.remove(&mut self.sparse, at as u32),
            Set::Decaying => return self.links.remove(&mut self.decaying, at as u32),
            Set::None | Set::Waiting | Set::Bulk => {}
        }
        let round = usize::from(self.flows[at].round);
        self.links.remove(&mut self.rounds[round], at as u32);
        if self.rounds[round] == Chain::EMPTY {
            self.filled &= !(1 << round);
        }
    }

    /// A queue was found empty, and is in no list any more: it decays, or is forgotten.
    fn found_empty(&mut self, at: usize, now: Instant) {
        let flow = &mut self.flows[at];
        if flow.set == Set::Bulk {
            self.hosts.relieve(flow.src, flow.dst);
        }
        if flow.cobalt.emptied(&self.law, now) {
            self.hosts.leave(flow.src, flow.dst);
            flow.set = Set::None;
        } else {
            flow.set = Set::Decaying;
            self.links.push_back(&mut self.decaying, at as u32);
        }
    }

    /// The next of the queues that decay is looked at.
    fn decay(&mut self, now: Instant) {
        if self.decaying.first != NONE {
            let at = self.decaying.first as usize;
            self.unlink(at);
            self.found_empty(at, now);
        }
    }

    fn becomes_bulk(&mut self, at: usize) {
        let flow = &mut self.flows[at];
        flow.set = Set::Bulk;
        self.hosts.burden(flow.src, flow.dst);
    }

    /// Nothing has waited while the link was free: all queues leave their lists.
    fn retire(&mut self, now: Instant) {
        while self.sparse.first != NONE {
            let at = self.sparse.first as usize;
            self.unlink(at);
            self.found_empty(at, now);
        }
        while self.filled != 0 {
            let at = self.rounds[self.filled.trailing_zeros() as usize].first as usize;
            self.unlink(at);
            self.found_empty(at, now);
        }
    }

    /// The flow whose turn it is: the first sparse one, else the first of the nearest round. It stays in its list.
    fn turn(&mut self) -> Option<usize> {
        loop {
            let at = if self.sparse.first == NONE {
                let ahead = self.filled.rotate_right(self.round).trailing_zeros();
                if ahead >= ROUNDS {
                    return None;
                }
                self.round = (self.round + ahead) % ROUNDS;
                self.rounds[self.round as usize].first as usize
            } else {
                self.sparse.first as usize
            };
            if self.flows[at].deficit > 0 {
                return Some(at);
            }
            self.unlink(at);
            if self.flows[at].set == Set::Sparse {
                if self.flows[at].line.is_empty() {
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
        let (since, packet) = self.slab.pop_front(&mut flow.line)?;
        self.backlog.sub(packet.len());
        self.bytes[at] -= packet.len().get();
        if flow.line.is_empty() {
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
            let mut call = flow.cobalt.judge(&self.law, now, high, &mut self.dice);
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
            if flow.line.is_empty() {
                return Some(packet);
            }
            self.counters.drop_for(reason);
            verdicts.push(Verdict::Dropped { packet, reason });
        }
    }

    /// Takes one packet from the head of the longest queue; `own` is where the newcomer went.
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

    /// Swallows the oldest acknowledgment in the queue that the newcomer makes superfluous.
    fn filter(&mut self, at: usize, new: &Header, verdicts: &mut Verdicts<P>) {
        let spare = match self.config.ack_filter {
            AckFilter::Off => return,
            AckFilter::On => 1,
            AckFilter::Aggressive => 0,
        };
        if !acks::replaces(new) {
            return;
        }
        let (mut oldest, mut found, mut before) = (None, 0, NONE);
        for (place, packet) in self.slab.iter(&self.flows[at].line).take(SCAN) {
            if acks::superfluous(packet.header(), new) {
                oldest.get_or_insert(before);
                found += 1;
                if found > spare {
                    break;
                }
            }
            before = place;
        }
        let Some(before) = oldest.filter(|_| found > spare) else { return };
        let line = &mut self.flows[at].line;
        let gone = match before {
            NONE => self.slab.pop_front(line).map(|(_, packet)| packet),
            before => self.slab.remove_behind(line, before),
        };
        if let Some(packet) = gone {
            self.backlog.sub(packet.len());
            self.bytes[at] -= packet.len().get();
            self.counters.swallowed += 1;
            verdicts.push(Verdict::Swallowed { packet });
        }
    }

    /// The queue of a newcomer.
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
                self.links.push_back(&mut self.sparse, at as u32);
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
        if self.backlog.packets == 0 && now >= self.free_at {
            self.retire(now);
        }
        let at = self.place(packet.header());
        self.filter(at, packet.header(), verdicts);
        self.slab.push_back(&mut self.flows[at].line, now, packet);
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
            if self.backlog.packets == 0 {
                self.free_at = now + self.link.rate.time_to_send(wire);
            }
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

    fn reconfigure(&mut self, _now: Instant, spec: &Spec, link: &ShaperConfig) -> bool {
        let Spec::Cake(config) = spec else { return false };
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
            let here = |f: &&Flow| !f.line.is_empty() && (f.set == Set::Bulk) == bulk;
            for flow in self.flows.iter().filter(here) {
                class.flows += 1;
                for (_, packet) in self.slab.iter(&flow.line) {
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

#[cfg(test)]
mod tests;
