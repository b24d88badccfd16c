//! Probes: everything that is measured. `docs/reference/probes.md` says what each figure is.
//!
//! What can be had by asking when a slice, an epoch or the run ends is not counted per packet: connections count for
//! themselves. Per delivery there are a few additions here, per packet one histogram bucket at each queue.
//! Counting begins at the end of the warm-up; names are those of the lab's table where the thing is the same.

mod bursts;
mod calls;
mod epochs;
mod finish;
mod flows;
mod join;
mod links;
mod pages;
mod plan;
mod repairs;
mod report;
mod series;
mod shares;
mod tally;
#[cfg(test)]
mod tests;
mod transfers;
mod users;
mod windows;

use narrows_scenario::Scenario;
use narrows_tcp::TcpEvent;
use narrows_units::{Duration, Instant};

use crate::connection::Connection;
use crate::event::Event;
use crate::flow_stats::NO_ROW;
use crate::host_config::{DATA, RECEIVER};
use crate::ids::FlowId;
use crate::packet::Packet;
use crate::parts::Part;
use crate::path_split::Arrivals;
use crate::statistics::Histogram;
use crate::tap::Lost;
use crate::world::World;

pub use finish::PartEnd;
#[cfg(test)]
use finish::finish;
pub(crate) use finish::{end, report};
pub(crate) use join::join;

use bursts::Bursts;
use calls::Calls;
use epochs::Epochs;
use flows::Flows;
use links::LinkProbe;
use pages::PageLoads;
use plan::ProbePlan;
use repairs::Repairs;
use series::Samples;
use shares::Shares;
use tally::Tallies;
use transfers::Transfers;
use users::Users;

/// Tokens of [`Event::Probe`].
const WARM_UP: u32 = 0;
const SLICE: u32 = 1;
const EPOCH: u32 = 2;
const SAMPLE: u32 = 3;

/// Factors on the RTO up to 2^31.
const BACKOFFS: usize = 32;

/// Number of connections that have data due, summed over time.
#[derive(Debug, Default)]
struct Due {
    connections: u64,
    since: Instant,
    /// Connections times nanoseconds.
    sum: u128,
}

impl Due {
    /// Lets the time until `now` pass.
    fn pass(&mut self, now: Instant) -> &mut Self {
        self.sum += u128::from(self.connections) * u128::from(now.since(self.since).as_nanos());
        self.since = now;
        self
    }
}

/// Datagrams that arrived.
#[derive(Debug, Default)]
struct Datagrams {
    /// Packets and bytes, by user.
    users: Vec<(u64, u64)>,
    /// Delays from host to host, nanoseconds.
    delays: Histogram,
}

/// All measurements of a run.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    plan: ProbePlan,
    flows: Flows,
    transfers: Transfers,
    /// Page loads, reported by applications.
    pub(crate) pages: PageLoads,
    users: Users,
    shares: Shares,
    epochs: Epochs,
    bursts: Bursts,
    samples: Samples,
    links: LinkProbe,
    /// Sums over closed connections, and over all when counting began.
    gone: Tallies,
    before: Tallies,
    /// Payload delivered in order, and how much of it when counting began.
    delivered: u64,
    delivered_before: u64,
    /// Payload that came to takers, what they had already included, and how much of it when counting began.
    pub(crate) arrived: u64,
    /// Log of timeouts, fast retransmits and probes of senders, if wanted.
    pub(crate) repairs: Repairs,
    arrived_before: u64,
    /// Expiries of data senders' timers by the factor's logarithm.
    backoffs: [u64; BACKOFFS],
    due: Due,
    /// Times from an application's write to a connection with nothing to deliver until delivery, nanoseconds.
    writes: Histogram,
    datagrams: Datagrams,
    pub(crate) calls: Calls,
}

impl Probes {
    pub(crate) fn opened(&mut self, place: FlowId, c: &mut Connection) {
        c.user_index = self.users.opened(c);
        // A connection without an object will be written to later, so it counts as a flow.
        if c.size == u64::MAX || c.object() == 0 {
            self.flows.opened(place, c);
        } else if c.stats.retries > 0 {
            self.transfers.tried_again(c);
        }
        if c.size > 0 {
            self.wants(c.stats.opened, c);
        }
    }

    /// The application is about to write to a connection.
    pub(crate) fn writes(&mut self, now: Instant, c: &mut Connection, bytes: u64) {
        c.stats.written = true;
        if bytes > 0 && c.stats.delivered >= c.size {
            c.stats.wants(now);
            self.wants(now, c);
        }
    }

    /// Counts bytes that a user got.
    #[inline]
    pub(crate) fn took(&mut self, now: Instant, user_index: u32, bytes: u64) {
        self.delivered += bytes;
        self.users.took(now, user_index);
        self.shares.took(user_index, bytes);
    }

    /// An end's timer has expired and backs off to this factor.
    #[inline]
    pub(crate) fn backed_off(&mut self, end: usize, backoff: u32) {
        if end == DATA {
            self.backoffs[backoff.max(1).ilog2() as usize] += 1;
        }
    }

    /// Counts an event of an end; `c` is as it was before the transfer's own counts are changed.
    #[inline]
    pub(crate) fn on_event(&mut self, now: Instant, end: usize, event: TcpEvent, c: &Connection) {
        match event {
            TcpEvent::Delivered { bytes } if end == RECEIVER => {
                self.took(now, c.user_index, bytes);
                if c.stats.delivered + bytes >= c.size && !c.stats.failed {
                    if c.stats.written {
                        self.writes.add(now.since(c.stats.due_since).as_nanos());
                    }
                    self.served(now, c);
                }
            }
            TcpEvent::Timeout { backoff } => self.backed_off(end, backoff),
            TcpEvent::Established => self.users.connected(now, c.user_index),
            TcpEvent::Failed if !c.stats.failed && c.stats.delivered < c.size => self.served(now, c),
            _ => {}
        }
    }

    /// A datagram is at its host.
    pub(crate) fn datagram(&mut self, now: Instant, packet: &Packet) {
        let (users, user) = (&mut self.datagrams.users, packet.label.flow.index());
        if user >= users.len() {
            users.resize(user + 1, (0, 0));
        }
        users[user].0 += 1;
        users[user].1 += packet.header.len.get();
        self.datagrams.delays.add(now.since(packet.sent).as_nanos());
    }

    /// A connection is taken out of the world; `lost` of it was.
    pub(crate) fn retired(&mut self, now: Instant, c: &Connection, lost: Lost) {
        if c.stats.delivered < c.size && !c.stats.failed {
            self.served(now, c);
        }
        self.close(now, c, lost, !c.stats.failed);
    }

    /// Takes down what a connection did, which was ended or goes on beyond the run.
    fn close(&mut self, now: Instant, c: &Connection, lost: Lost, ended: bool) {
        self.gone.add(c, lost.packets(), &self.plan.groups);
        if c.stats.row != NO_ROW {
            self.flows.retired(now, c, lost.packets(), ended);
        } else {
            self.transfers.over(now, c);
            if self.plan.bursts && c.stats.first_attempt >= self.plan.warmup {
                self.bursts.over(c, self.plan.mss, lost.segments);
            }
        }
    }

    fn wants(&mut self, now: Instant, c: &Connection) {
        self.due.pass(now).connections += 1;
        self.users.wants(now, c);
    }

    /// Nothing is due any more on a connection on which something was.
    fn served(&mut self, now: Instant, c: &Connection) {
        self.due.pass(now).connections -= 1;
        self.users.served(now, c.user_index);
    }
}

/// Plan of what `scenario` wants recorded.
pub(crate) fn plan(scenario: &Scenario) -> ProbePlan {
    ProbePlan::of(scenario)
}

/// Sets up what `scenario` wants recorded of a part. To be called before the world runs.
pub(crate) fn begin(world: &mut World, scenario: &Scenario, part: Part<'_>) {
    let probes = &mut world.probes;
    probes.shares = Shares::new(scenario);
    if part.is_one_of_several() {
        probes.shares.keep_all();
        probes.flows.keep_all();
        probes.transfers.keep_ends();
    }
    let mut plan = ProbePlan::of(scenario);
    plan.capture.retain(|link| part.has_link(*link));
    world.watch(plan);
}

impl World {
    /// Sets up what is to be recorded, before the world runs.
    pub(crate) fn watch(&mut self, plan: ProbePlan) {
        for link in &plan.links {
            self.net.links[link.link.index()].waits = Some(Box::default());
        }
        for at in &plan.capture {
            self.net.capture(plan.links[*at].link);
        }
        let warmup = plan.warmup;
        if plan.bursts {
            self.net.tap.tell_segments(plan.mss);
        }
        self.probes.repairs.on = plan.repairs;
        let (epochs, samples) = (plan.epoch.is_some(), !plan.series.is_empty());
        self.probes.calls = Calls::new(warmup, plan.calls_until);
        self.probes.plan = plan;
        if samples {
            self.net.events.push(Instant::ZERO, Event::Probe(SAMPLE));
        }
        if warmup > Instant::ZERO {
            self.net.events.push(warmup, Event::Probe(WARM_UP));
        } else {
            // At once: what applications do at the start counts.
            self.warm_up();
        }
        self.again(SLICE, warmup);
        if epochs {
            self.again(EPOCH, warmup);
        }
    }

    /// The next of a kind after `now`.
    fn again(&mut self, probe: u32, now: Instant) {
        let plan = &self.probes.plan;
        let length = match probe {
            SLICE => plan.slice,
            EPOCH => plan.epoch.unwrap_or(plan.slice),
            _ => plan.interval,
        };
        self.net.events.push(now + length.max(Duration::from_nanos(1)), Event::Probe(probe));
    }

    /// A probe looks at the world.
    pub(crate) fn probe(&mut self, probe: u32) {
        let now = self.now();
        self.net.catch_up(self.net.events.since());
        debug_assert_eq!(crate::conservation::check_conservation(&self.net), Ok(()), "at {now:?}");
        let probes = &mut self.probes;
        match probe {
            WARM_UP => return self.warm_up(),
            SLICE => {
                probes.flows.end_slice(now, &self.connections, probes.delivered);
                probes.shares.end_slice(&probes.users);
            }
            EPOCH => probes.epochs.end(now, &self.connections),
            _ => probes.samples.take(&probes.plan, &self.net, &probes.flows, &self.connections),
        }
        self.again(probe, now);
    }

    /// Counting begins.
    fn warm_up(&mut self) {
        let now = self.now();
        let probes = &mut self.probes;
        probes.before = probes.gone.clone();
        for (place, c) in (0..).zip(&self.connections).filter(|(_, c)| c.live) {
            probes.before.add(
                c,
                self.net.tap.lost_of(FlowId(place), c.generation).packets(),
                &probes.plan.groups,
            );
        }
        probes.links.warm_up(&probes.plan, &mut self.net);
        self.net.tap.datagrams_lost.fill(0);
        let tap = &self.net.tap;
        probes.flows.warm_up(now, &mut self.connections, &|place, generation| {
            tap.lost_of(place, generation).packets()
        });
        probes.flows.begin_slice(now, &self.connections, probes.delivered);
        probes.users.warm_up(now);
        probes.shares.warm_up();
        self.edges.arrivals = Arrivals::default();
        if probes.plan.epoch.is_some() {
            probes.epochs.begin(now, &self.connections);
        }
        probes.delivered_before = probes.delivered;
        probes.arrived_before = probes.arrived;
        probes.backoffs = [0; BACKOFFS];
        probes.due.pass(now).sum = 0;
        probes.writes.clear();
        probes.datagrams = Datagrams::default();
    }
}
