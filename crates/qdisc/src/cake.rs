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
//! - The filter keeps more ([`crate::acks`]), COBALT's first spell begins as all others ([`cobalt`]).
//! - The limit counts packets, not bytes.

mod cobalt;
mod config;
mod hosts;
mod rounds;
mod schedule;
mod ways;

use core::any::Any;

use narrows_lists::{Links, List, Queue};
use narrows_units::{Duration, Instant};
use narrows_wire::Header;

pub use self::config::{AckFilter, CakeConfig, Isolate};
pub(crate) use self::ways::{Found, Ways};

use self::cobalt::{Call, Cobalt};
use self::hosts::{Hosts, Parts};
use self::rounds::Rounds;
use crate::flow_fifos::FlowFifos;
use crate::sojourn::Law;
use crate::{
    Backlog, Counters, Dice, Discipline, Manage, Packet, Qdisc, Reason, Report, ShaperConfig, Verdict,
    Verdicts, acks,
};
/// Packets of a long queue that are looked at for superfluous acknowledgments.
const SCAN: usize = 64;
/// Packets of the link's time; CoDel does not act on a delay shorter than they take.
const LEAST_PACKETS: u64 = 4;

/// Set that a queue belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    /// Queue in no list.
    None,
    /// Queue that has not used up its first turn: it goes first.
    Sparse,
    /// Queue that has used up its first turn and is empty: in debt, but no burden to its hosts.
    Waiting,
    /// Queue served round robin.
    Bulk,
    /// Queue found empty before COBALT had come to rest: keeps its place until then.
    Decaying,
}

/// Queue of one flow: one line of a cache. Its bytes are kept apart, so that the longest is soon found.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct CakeFlow {
    queue: Queue,
    /// Bytes that the flow may still send in this turn.
    deficit: i32,
    src: u16,
    dst: u16,
    set: Set,
    /// Whether the queue holds packets of flows without a queue of their own.
    guests: bool,
    /// Unless it is sparse: how many rounds after `credited` it is in the list of.
    away: u16,
    /// The last round whose credit the flow has, and the sums of its hosts' parts then.
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
    /// Sojourn below which no queue is too long.
    least: Duration,
    quantum: u32,
    salt: u64,
    dice: Dice,
    ways: Ways,
    hosts: Hosts,
    packets: FlowFifos<P>,
    flows: Vec<CakeFlow>,
    links: Vec<Links>,
    sparse: List,
    /// Empty queues whose COBALT is not at rest: each dequeue looks at the next one.
    decaying: List,
    /// All other flows.
    rounds: Rounds,
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
            packets: FlowFifos::new(flows.len()),
            flows: vec![empty; flows.len()],
            links: vec![Links::NONE; flows.len()],
            ways: flows,
            sparse: List::EMPTY,
            decaying: List::EMPTY,
            rounds: Rounds::new(),
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

    fn pop(&mut self, at: usize) -> Option<(Instant, P)> {
        let flow = &mut self.flows[at];
        let (since, packet) = self.packets.pop(at, &mut flow.queue)?;
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
            if call == Call::Tell
                && self.config.ecn
                && self.counters.mark_packet(&mut packet, Reason::Sojourn, verdicts)
            {
                flow.cobalt.marked(now);
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
            self.counters.drop_packet(packet, reason, verdicts);
        }
    }

    /// Takes one packet from the head of the longest queue; `own` is where the packet that came went.
    fn shed(&mut self, own: usize, now: Instant, verdicts: &mut Verdicts<P>) {
        let longest = self.packets.longest();
        let reason = if longest == own { Reason::OverLimit } else { Reason::PushedOut };
        if let Some((_, packet)) = self.pop(longest) {
            self.flows[longest].cobalt.full(&self.law, now);
            self.counters.drop_packet(packet, reason, verdicts);
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
        for (place, packet) in self.packets.iter(&self.flows[at].queue).take(SCAN) {
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
            None => self.packets.pop(at, queue).map(|(_, packet)| packet),
            Some(before) => self.packets.remove_after(at, queue, before),
        };
        if let Some(packet) = gone {
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
            Found::Own(_) | Found::New(_) => {}
            Found::Shared(_) => self.flows[at].guests = true,
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
        self.counters.arrive(packet.len());
        let at = self.place(packet.header());
        self.filter(at, packet.header(), verdicts);
        self.packets.push(at, &mut self.flows[at].queue, now, packet);
        // More than once only after the limit was lowered.
        while self.packets.backlog().packets > self.config.limit as usize {
            self.shed(at, now, verdicts);
        }
    }

    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        if self.packets.backlog().packets > 0 {
            self.decay(now);
        }
        while self.packets.backlog().packets > 0 {
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

    fn backlog(&self) -> Backlog {
        self.packets.backlog()
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
        let of = |bulk| self.flows.iter().filter(move |f| (f.set == Set::Bulk) == bulk).map(|f| &f.queue);
        self.packets.report("cake", &self.counters, [("sparse", of(false)), ("bulk", of(true))])
    }
}

impl<P: Packet> Discipline<P> for Cake<P> {}

#[cfg(test)]
mod tests;
