//! Applications: they open connections, and hear what becomes of them. One file per kind of traffic;
//! `docs/reference/workloads.md` says what each does.
//!
//! Chance: each application draws from generators seeded from the run's seed, its place in the scenario and the number
//! of the flow, file or user's connection. So one more traffic shifts no other, and what arrives by itself (starts,
//! sizes, recorded requests) is the same whatever the network does.

mod arrivals;
mod calls;
mod files;
mod lines;
mod log;
mod long;
mod objects;
mod pages;
mod spread;
mod stream;
mod synthetic_log;
mod telnet;
#[cfg(test)]
mod tests;
mod udp;
mod visits;

use fastrand::Rng;
use narrows_scenario::maths::ln;
use narrows_scenario::{OpenedBy, Scenario, Traffic, TrafficKind, Transport};
use narrows_tcp::Handshake;
use narrows_units::{Dscp, Duration, Instant};

use crate::build::{Groups, TrafficConfigs, derive};
use crate::ids::{AppId, FlowId, HostId};
use crate::parts::Part;
use crate::tls::TlsSizes;
use crate::transfer::{Happened, Transfer};
use crate::world::{App, World};

/// Pause of a user after a connection failed, before the next attempt, as in the lab.
const RETRY: Duration = Duration::from_secs(1);

/// First purpose of the seed for traffics, one for each traffic: clear of the purposes of links.
const TRAFFIC: u64 = 1 << 40;

/// The applications of a part of a scenario, in the scenario's order.
pub(crate) fn apps(
    scenario: &Scenario,
    groups: &Groups,
    configs: &TrafficConfigs,
    seed: u64,
    part: Part<'_>,
) -> Vec<Box<dyn App>> {
    let mut first_user = 0;
    let mut apps = Vec::with_capacity(scenario.traffic.len());
    for (index, (traffic, config)) in scenario.traffic.iter().zip(configs).enumerate() {
        let common = Common {
            first_user,
            class: u16::try_from(index).expect("a scenario is checked to have fewer entries of traffic"),
            config: *config,
            jitter: scenario.jitter,
            seed: derive(seed, TRAFFIC + index as u64),
            ..Common::of(traffic, groups)
        };
        if part.has_traffic(index) {
            apps.push(app(traffic, common));
        }
        first_user += traffic.users();
    }
    apps
}

fn app(traffic: &Traffic, common: Common) -> Box<dyn App> {
    match traffic.kind.clone() {
        TrafficKind::Long { flows } => Box::new(long::Long::new(common, flows)),
        TrafficKind::Files { flows, arrivals, users, size } => {
            Box::new(files::Files::new(common, flows, arrivals, users, size))
        }
        TrafficKind::Objects { users, connections, think, size } => match traffic.web.visits {
            Some(rates) => Box::new(visits::Visits::new(common, rates, [users, connections], think, size)),
            None => Box::new(objects::Objects::new(common, users, connections, think, size)),
        },
        TrafficKind::Pages { users, connections, objects, size, think } => {
            let visits = traffic.web.visits;
            Box::new(pages::Pages::new(common, visits, [users, connections], [objects, size], think))
        }
        TrafficKind::Telnet { flows, interval, bytes } => {
            Box::new(telnet::Telnet::new(common, flows, interval, bytes))
        }
        TrafficKind::Udp { flows, rate, packet, on, off } => {
            Box::new(udp::Udp::new(common, flows, rate, packet, [on, off]))
        }
        TrafficKind::Calls { flows, call } => Box::new(calls::Calls::new(common, flows, call)),
        TrafficKind::Log { source, clients, connections, timing, retry } => {
            Box::new(log::Log::new(common, &source, [clients, connections], timing, retry))
        }
    }
}

/// Settings that all kinds of traffic share: hosts, TCP settings, bytes of request and header, start and stop.
#[derive(Clone, Debug)]
struct Common {
    groups: Groups,
    /// Groups of hosts: the senders of the data in `from`, the receivers in `to`.
    from: usize,
    to: usize,
    /// Host of user 0 in either group.
    first_host: u32,
    /// User 0 in the numbering of all users.
    first_user: u32,
    class: u16,
    dscp: Dscp,
    config: [u16; 2],
    receiver_opens: bool,
    request: u32,
    header: u64,
    /// Whether connections are closed. ns-2's one-way agents know no FIN, and what was never opened is not closed.
    close: bool,
    tls: Option<TlsSizes>,
    start: Instant,
    /// No new transfers from here on.
    stop: Instant,
    jitter: Duration,
    seed: u64,
}

/// An object and the attempts to fetch the object so far.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    /// Number of the user within the traffic.
    user: u32,
    size: u64,
    /// Time at which the first connection for the object was opened.
    since: Instant,
    /// Connections that failed.
    retries: u32,
}

impl Common {
    /// Reads the settings from `traffic`. Class, numbers of users, TCP settings, jitter and seed are zero until the
    /// caller sets them.
    fn of(traffic: &Traffic, groups: &Groups) -> Self {
        Self {
            groups: groups.clone(),
            from: traffic.from,
            to: traffic.to,
            first_host: traffic.first,
            first_user: 0,
            class: 0,
            dscp: traffic.dscp,
            config: [0; 2],
            receiver_opens: traffic.opened_by == OpenedBy::Receiver,
            request: u32::try_from(traffic.request).unwrap_or(u32::MAX),
            header: traffic.header,
            close: traffic.tcp_from.handshake == Handshake::ThreeWay || traffic.transport == Transport::Quic,
            tls: (traffic.transport == Transport::Tls).then(|| TlsSizes::of(&traffic.quic.handshake)),
            start: Instant::default() + traffic.start,
            stop: Instant::default() + traffic.stop,
            jitter: Duration::ZERO,
            seed: 0,
        }
    }

    /// The generator of flow, file or connection `number`.
    fn rng(&self, number: u32) -> Rng {
        Rng::with_seed(derive(self.seed, u64::from(number)))
    }

    /// Time at which something that starts within the jitter does.
    fn begins(&self, rng: &mut Rng) -> Instant {
        let spread = self.jitter.as_nanos();
        self.start + Duration::from_nanos(if spread == 0 { 0 } else { rng.u64(0..spread) })
    }

    /// The hosts at both ends of `user`'s connections.
    fn hosts(&self, user: u32) -> (HostId, HostId) {
        let index = self.first_host.wrapping_add(user);
        (self.groups.host(self.from, index), self.groups.host(self.to, index))
    }

    /// Opens a connection for `fetch` and returns the connection's place.
    fn open(&self, world: &mut World, me: AppId, fetch: &Fetch, tag: u32) -> FlowId {
        let (from, to) = self.hosts(fetch.user);
        let transfer = Transfer {
            from,
            to,
            size: fetch.size,
            header: self.header,
            request: self.request,
            tls: self.tls,
            receiver_opens: self.receiver_opens,
            close: self.close,
            config: self.config,
            dscp: self.dscp,
            class: self.class,
            user: self.first_user + fetch.user,
            first_attempt: Some(fetch.since),
            retries: fetch.retries,
            tag,
        };
        world.open(me, transfer)
    }
}

/// An exponential time.
fn exponential(rng: &mut Rng, mean: Duration) -> Duration {
    Duration::from_nanos((-(mean.as_nanos() as f64) * ln(1.0 - rng.f64())).round() as u64)
}
