//! Probes: everything that is measured. `docs/reference/probes.md` says what each figure is.
//!
//! What can be had by asking when a slice, an epoch or the run ends is not counted per packet: connections count for
//! themselves. Per delivery there are a few additions here, per packet one histogram bucket at each queue.
//! Counting begins at the end of the warm-up; names are those of the lab's table where the thing is the same.

mod bursts;
mod calls;
mod decisions;
pub(crate) mod ends;
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
use crate::edge::Edges;
use crate::event::Event;
use crate::flow_stats::NO_ROW;
use crate::host_config::RECEIVER;
use crate::ids::FlowId;
use crate::network::Network;
use crate::packet::Packet;
use crate::parts::Part;
use crate::path_split::Arrivals;
use crate::statistics::Histogram;
use crate::tap::Lost;

pub use finish::PartEnd;
pub(crate) use finish::report;
pub(crate) use join::join;
pub(crate) use plan::ProbePlan;

use bursts::Bursts;
use calls::Calls;
use decisions::Decisions;
use ends::EndProbe;
use epochs::Epochs;
use flows::Flows;
use links::LinkProbe;
use pages::PageLoads;
use series::Samples;
use shares::Shares;
use tally::Tallies;
use transfers::Transfers;

/// Tokens of [`Event::Probe`].
const WARM_UP: u32 = 0;
const SLICE: u32 = 1;
const EPOCH: u32 = 2;
const SAMPLE: u32 = 3;
const DECISIONS: u32 = 4;

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
    /// Counts of what ends tell as packets come and go.
    pub(crate) ends: EndProbe,
    flows: Flows,
    transfers: Transfers,
    /// Page loads, reported by applications.
    pub(crate) pages: PageLoads,
    epochs: Epochs,
    bursts: Bursts,
    samples: Samples,
    decisions: Decisions,
    links: LinkProbe,
    /// Sums over closed connections, and over all when counting began.
    gone: Tallies,
    before: Tallies,
    /// Payload that came to takers, what they had already included, and how much of it when counting began.
    pub(crate) arrived: u64,
    arrived_before: u64,
    due: Due,
    /// Times from an application's write to a connection with nothing to deliver until delivery, nanoseconds.
    writes: Histogram,
    datagrams: Datagrams,
    pub(crate) calls: Calls,
}

impl Probes {
    pub(crate) fn opened(&mut self, place: FlowId, c: &mut Connection) {
        c.user_index = self.ends.users.opened(c.user, c.stats.first_attempt);
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

    /// Counts an event of an end; `c` is as it was before the transfer's own counts are changed.
    #[inline]
    pub(crate) fn on_event(&mut self, now: Instant, end: usize, event: TcpEvent, c: &Connection) {
        match event {
            TcpEvent::Delivered { bytes } if end == RECEIVER => {
                self.ends.took(now, c.user_index, bytes);
                if c.stats.delivered + bytes >= c.size && !c.stats.failed {
                    if c.stats.written {
                        self.writes.add(now.since(c.stats.due_since).as_nanos());
                    }
                    self.served(now, c);
                }
            }
            TcpEvent::Timeout { backoff } => self.ends.backed_off(end, backoff),
            TcpEvent::Established => self.ends.users.connected(now, c.user_index),
            TcpEvent::Failed if !c.stats.failed && c.stats.delivered < c.size => self.served(now, c),
            _ => {}
        }
    }

    /// Counts a datagram that is at the datagram's destination host.
    pub(crate) fn datagram(&mut self, now: Instant, packet: &Packet) {
        let (users, user) = (&mut self.datagrams.users, packet.label.flow.index());
        if user >= users.len() {
            users.resize(user + 1, (0, 0));
        }
        users[user].0 += 1;
        users[user].1 += packet.header.len.get();
        self.datagrams.delays.add(now.since(packet.sent).as_nanos());
    }

    /// Records a connection that is taken out of the world; `lost` are the connection's losses.
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
        self.ends.users.wants(now, c.user_index, c.stats.retries);
    }

    /// Nothing is due any more on a connection on which something was.
    fn served(&mut self, now: Instant, c: &Connection) {
        self.due.pass(now).connections -= 1;
        self.ends.users.served(now, c.user_index);
    }
}

/// Plan of what `scenario` wants recorded.
pub(crate) fn plan(scenario: &Scenario) -> ProbePlan {
    ProbePlan::of(scenario)
}

/// Parts of a world that probes look at when a slice, an epoch or the warm-up ends.
pub(crate) struct Sight<'a> {
    pub(crate) net: &'a mut Network,
    pub(crate) connections: &'a mut [Connection],
    pub(crate) edges: &'a mut Edges,
}

impl Probes {
    /// Sets the probes up for a part of `scenario`, and gives the plan of what to record there.
    pub(crate) fn prepare(&mut self, scenario: &Scenario, part: Part<'_>) -> ProbePlan {
        self.ends.shares = Shares::new(scenario);
        if part.is_one_of_several() {
            self.ends.shares.keep_all();
            self.flows.keep_all();
            self.transfers.keep_ends();
        }
        let mut plan = ProbePlan::of(scenario);
        plan.capture.retain(|link| part.has_link(*link));
        plan
    }

    /// Begins to record what `plan` says. To be called before time passes.
    pub(crate) fn watch(&mut self, plan: ProbePlan, sight: &mut Sight<'_>) {
        let net = &mut *sight.net;
        for link in &plan.links {
            net.links[link.link.index()].waits = Some(Box::default());
        }
        for at in &plan.capture {
            net.capture(plan.links[*at].link);
        }
        let warmup = plan.warmup;
        if plan.bursts {
            net.tap.tell_segments(plan.mss);
        }
        self.ends.repairs.on = plan.repairs;
        self.ends.qlogs.want(plan.qlog);
        if plan.decisions {
            Decisions::watch(&plan, net);
        }
        let (epochs, samples) = (plan.epoch.is_some(), !plan.series.is_empty());
        self.calls = Calls::new(warmup, plan.calls_until);
        self.plan = plan;
        if samples {
            net.events.push(Instant::ZERO, Event::Probe(SAMPLE));
        }
        if warmup > Instant::ZERO {
            net.events.push(warmup, Event::Probe(WARM_UP));
        } else {
            // At once: what applications do at the start counts.
            self.warm_up(sight);
        }
        self.again(SLICE, warmup, sight.net);
        if self.plan.decisions {
            self.again(DECISIONS, Instant::ZERO, sight.net);
        }
        if epochs {
            self.again(EPOCH, warmup, sight.net);
        }
    }

    /// Schedules the next probe of a kind after `now`.
    fn again(&self, probe: u32, now: Instant, net: &mut Network) {
        let plan = &self.plan;
        let length = match probe {
            SLICE => plan.slice,
            EPOCH => plan.epoch.unwrap_or(plan.slice),
            DECISIONS => decisions::FETCHES_EVERY,
            _ => plan.interval,
        };
        net.events.push(now + length.max(Duration::from_nanos(1)), Event::Probe(probe));
    }

    /// Takes the sample of the probe numbered `probe`.
    pub(crate) fn look(&mut self, probe: u32, sight: &mut Sight<'_>) {
        let Sight { net, connections, .. } = sight;
        let now = net.now;
        net.catch_up(net.events.since());
        debug_assert_eq!(crate::conservation::check_conservation(net), Ok(()), "at {now:?}");
        match probe {
            WARM_UP => return self.warm_up(sight),
            SLICE => {
                self.flows.end_slice(now, connections, self.ends.delivered());
                self.ends.shares.end_slice(&self.ends.users);
            }
            EPOCH => self.epochs.end(now, connections),
            DECISIONS => self.decisions.take(&self.plan, net),
            _ => self.samples.take(&self.plan, net, &self.flows, connections),
        }
        self.again(probe, now, net);
    }

    /// Counting begins.
    fn warm_up(&mut self, sight: &mut Sight<'_>) {
        let Sight { net, connections, edges } = sight;
        let now = net.now;
        self.before = self.gone.clone();
        for (place, c) in (0..).zip(connections.iter()).filter(|(_, c)| c.live) {
            self.before.add(c, net.tap.lost_of(FlowId(place), c.generation).packets(), &self.plan.groups);
        }
        self.links.warm_up(&self.plan, net);
        net.tap.datagrams_lost.fill(0);
        let tap = &net.tap;
        self.flows.warm_up(now, connections, &|place, generation| tap.lost_of(place, generation).packets());
        self.flows.begin_slice(now, connections, self.ends.delivered());
        self.ends.warm_up(now);
        edges.arrivals = Arrivals::default();
        if self.plan.epoch.is_some() {
            self.epochs.begin(now, connections);
        }
        self.arrived_before = self.arrived;
        self.due.pass(now).sum = 0;
        self.writes.clear();
        self.datagrams = Datagrams::default();
    }
}
