//! From a scenario to a world: nodes, links, hosts and settings in the order of the file, so that a number means the
//! same thing in every run.

use core::ops::Range;

use narrows_qdisc::{ShaperConfig, Side};
use narrows_scenario::{
    Link as LinkSetting, LinkDiscipline, Scenario, Shaping, Timetable, Traffic, Transport,
};
use narrows_tcp::{CcKind, Config};
use narrows_units::{Instant, Rate};

use crate::edge::Edges;
use crate::host_config::HostConfig;
use crate::ids::{HostId, LinkId, NodeId, RouteId};
use crate::link::Changing;
use crate::loss::Loss;
use crate::network::{LinkPlan, Network, QueuePlan, ShaperPlan};
use crate::own::Own;
use crate::parts::{Part, shaped_for};
use crate::shaped::{Autorate, Rule, Shaped};
use crate::usage::Usage;
use crate::world::World;

/// Hosts of the world, by group of the scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups(Vec<Range<u32>>);

impl Groups {
    /// Host `index` of group `group`; an index beyond the last host begins again at the first.
    pub(crate) fn host(&self, group: usize, index: u32) -> HostId {
        let range = &self.0[group];
        HostId(range.start + index % (range.end - range.start).max(1))
    }
}

/// Settings of the ends of each traffic's connections.
pub(crate) type TrafficConfigs = Vec<[u16; 2]>;

/// Why a scenario cannot be simulated, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError(pub String);

impl core::fmt::Display for BuildError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for BuildError {}

/// A number for each purpose of a seed, so that one use of chance does not shift another (SplitMix64).
pub(crate) fn derive(seed: u64, purpose: u64) -> u64 {
    let mut z = seed.wrapping_add(purpose.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Seed of a stream that a part draws from while it runs, independent of the order of events in other parts. Part 0 has
/// the stream of an undivided run.
fn stream(seed: u64, purpose: u64, part: Part<'_>) -> u64 {
    let first = derive(seed, purpose);
    if part.number == 0 { first } else { derive(first, part.number as u64) }
}

const NETWORK: u64 = 1;
const HOSTS: u64 = 2;
const EDGES: u64 = 3;
/// Links follow, two purposes each.
const LINKS: u64 = 1 << 32;

/// Builds the network of a scenario and the settings of its connections.
///
/// Links of other parts are plain wires in a part, and no packet takes them.
pub(crate) fn build(
    scenario: &Scenario,
    seed: u64,
    part: Part<'_>,
    own: &dyn Own,
) -> Result<(World, Groups, TrafficConfigs), BuildError> {
    let mut net = Network::new(stream(seed, NETWORK, part));
    for _ in &scenario.topology.nodes {
        net.add_node();
    }
    for (at, (link, users)) in scenario.topology.links.iter().zip(sides(scenario)).enumerate() {
        let plan = link_plan(scenario, link, users, at, seed, own)?;
        let wire = LinkPlan { from: plan.from, to: plan.to, delay: plan.delay, ..LinkPlan::default() };
        net.add_link(if part.has_link(at) { plan } else { wire });
    }
    for (at, link) in scenario.topology.links.iter().enumerate() {
        if let Some(back) = link.back.filter(|back| *back > at) {
            net.pair(LinkId::of(at), LinkId::of(back));
        }
    }
    add_rules(&mut net, scenario, part)?;
    let groups = add_hosts(&mut net, scenario, seed);
    net.settle();
    check_routes(&net, scenario)?;
    let nodes = number(scenario.topology.nodes.len());
    let edges = Edges::new(
        &scenario.topology,
        stream(seed, EDGES, part),
        |from, to| RouteId(from.0 * nodes + to.0),
        |links| net.add_route(links),
    );
    let mut configs: Vec<HostConfig> = Vec::new();
    let mut config = |tcp: &Config, t: &Traffic| -> Result<u16, BuildError> {
        let quic = (t.transport == Transport::Quic).then_some(&t.quic);
        let tfrc = t.transport == Transport::Tfrc;
        let opaque = t.opaque || quic.is_some() || tfrc;
        let same = |c: &HostConfig| {
            c.tcp == *tcp && c.opaque == opaque && c.quic.as_deref() == quic && c.tfrc == tfrc
        };
        let there = configs.iter().position(same);
        let at = there.unwrap_or(configs.len());
        if there.is_none() {
            let control = match tcp.congestion {
                CcKind::Own(number) => Some(own.control(number).map_err(|why| {
                    BuildError(format!("traffic '{}': congestion = 'own:{number}' {why}", t.name))
                })?),
                _ => None,
            };
            let quic = quic.map(|c| Box::new(*c));
            configs.push(HostConfig { opaque, quic, tfrc, control, ..HostConfig::of_tcp(*tcp) });
        }
        Ok(u16::try_from(at).expect("as many settings as entries of traffic, twice"))
    };
    let of_traffic: Result<TrafficConfigs, BuildError> =
        scenario.traffic.iter().map(|t| Ok([config(&t.tcp_from, t)?, config(&t.tcp_to, t)?])).collect();
    let mut world = World::new(net, configs);
    world.edges = edges;
    Ok((world, groups, of_traffic?))
}

fn check_routes(net: &Network, scenario: &Scenario) -> Result<(), BuildError> {
    let topology = &scenario.topology;
    for traffic in &scenario.traffic {
        let (from, to) = (topology.hosts[traffic.from].at, topology.hosts[traffic.to].at);
        for (a, b) in [(from, to), (to, from)] {
            if !net.has_route(NodeId::of(a), NodeId::of(b)) {
                return Err(BuildError(format!(
                    "traffic '{}': no way from node '{}' to node '{}'; add a link",
                    traffic.name, topology.nodes[a], topology.nodes[b]
                )));
            }
        }
    }
    Ok(())
}

fn number(at: usize) -> u32 {
    u32::try_from(at).expect("a scenario is checked to have fewer")
}

/// On which side of each link the users are: where data come to that nobody sends back on the same link.
fn sides(scenario: &Scenario) -> Vec<Side> {
    let topology = &scenario.topology;
    let mut carries = vec![[false; 2]; topology.links.len()];
    for traffic in &scenario.traffic {
        let (from, to) = (topology.hosts[traffic.from].at, topology.hosts[traffic.to].at);
        let divided = topology.divided(from, to).map_or_else(Vec::new, |(_, ways)| ways.concat());
        let ways = [
            [topology.route(from, to).unwrap_or_default(), divided].concat(),
            topology.route(to, from).unwrap_or_default(),
        ];
        for (back, way) in ways.iter().enumerate() {
            way.iter().for_each(|link| carries[*link][back] = true);
        }
    }
    let side = |carries: &[bool; 2]| match carries {
        [true, false] => Side::Destination,
        [false, true] => Side::Source,
        _ => Side::Opener,
    };
    carries.iter().map(side).collect()
}

fn link_plan<'a>(
    scenario: &'a Scenario,
    link: &'a LinkSetting,
    users: Side,
    at: usize,
    seed: u64,
    own: &dyn Own,
) -> Result<LinkPlan<'a>, BuildError> {
    let discipline = match &link.discipline {
        LinkDiscipline::Ours(spec) => QueuePlan::Ours(spec),
        LinkDiscipline::Srpt => QueuePlan::Srpt,
        LinkDiscipline::Own(number) => {
            let shape = ShaperConfig { users, ..link.shaper(scenario.mtu) };
            let wrong = |why| BuildError(format!("link '{}': discipline = 'own:{number}' {why}", link.name));
            if link.shaping != Shaping::None {
                return Err(wrong("is a program's: a shaper takes one of our disciplines".to_owned()));
            }
            let seed = derive(seed, LINKS + 2 * at as u64 + 1);
            QueuePlan::Own(own.queue(*number, &shape, seed).map_err(wrong)?)
        }
        LinkDiscipline::Kernel(_) => {
            return Err(BuildError(format!(
                "link '{}': discipline = '{}' is a kernel's: only `narrows lab` can run it; take one of ours, as \
                 fifo:30 or taq",
                link.name, link.discipline
            )));
        }
    };
    let purpose = LINKS + 2 * at as u64;
    let instants = link.drop_at.iter().map(|d| Instant::default() + *d).collect();
    Ok(LinkPlan {
        from: NodeId::of(link.from),
        to: NodeId::of(link.to),
        shape: Some(ShaperConfig { users, ..link.shaper(scenario.mtu) }),
        delay: link.delay,
        discipline: Some(discipline),
        loss: Loss::new(link.loss, link.drop.clone(), instants, derive(seed, purpose)),
        seed: derive(seed, purpose + 1),
        changing: Timetable::new(&link.service).map(|timetable| {
            let usage = Usage::new(&timetable, Instant::ZERO + scenario.duration);
            Changing { timetable, usage }
        }),
        shaper: shaper(scenario, link)?,
    })
}

/// Plan of the shaper before `link`. Fails if the shaper depends on a link behind or before and there is not
/// exactly one with a changing rate.
fn shaper<'a>(scenario: &Scenario, link: &'a LinkSetting) -> Result<ShaperPlan<'a>, BuildError> {
    let follows = || {
        shaped_for(&scenario.topology, link).map(|(_, l)| l).ok_or_else(|| {
            BuildError(format!(
                "link '{}': shaper = '{}' is about the one link behind or before it, which needs a trace or rates",
                link.name, link.shaping
            ))
        })
    };
    Ok(match &link.shaping {
        Shaping::None => ShaperPlan::None,
        Shaping::Static(rate) => ShaperPlan::At(*rate),
        Shaping::Mean(hundredths) => {
            ShaperPlan::At(Rate::from_bps(follows()?.rate.as_bps() * u64::from(*hundredths) / 100))
        }
        Shaping::Known | Shaping::Late(_) | Shaping::Autorate => ShaperPlan::At(follows()?.rate),
        Shaping::Auto(config) => ShaperPlan::Follow(config),
    })
}

/// Joins boxes with the links they shape for, and sets the rules of shapers that are told their rates.
fn add_rules(net: &mut Network, scenario: &Scenario, part: Part<'_>) -> Result<(), BuildError> {
    for (at, (link, users)) in scenario.topology.links.iter().zip(sides(scenario)).enumerate() {
        let Some((next, modem)) = shaped_for(&scenario.topology, link) else { continue };
        if part.has_link(at) {
            net.feed(LinkId::of(at), LinkId::of(next));
        }
        let rule = match &link.shaping {
            Shaping::Known => Rule::Known,
            Shaping::Late(hundredths) => Rule::Late { hundredths: *hundredths },
            Shaping::Autorate => Rule::Autorate(Box::new(Autorate::new(modem.rate))),
            _ => continue,
        };
        let LinkDiscipline::Ours(spec) = &link.discipline else {
            return Err(BuildError(format!("link '{}': a shaper takes one of our disciplines", link.name)));
        };
        let config = ShaperConfig { rate: modem.rate, users, ..link.shaper(scenario.mtu) };
        if part.has_link(at) {
            net.set_rule(Shaped {
                link: LinkId::of(at),
                behind: LinkId::of(next),
                spec: spec.clone(),
                config,
                rule,
            });
        }
    }
    Ok(())
}

fn add_hosts(net: &mut Network, scenario: &Scenario, seed: u64) -> Groups {
    let mut rng = fastrand::Rng::with_seed(derive(seed, HOSTS));
    let mut groups = Groups::default();
    net.hosts.reserve_exact(scenario.topology.hosts.iter().map(|group| group.count as usize).sum());
    for (index, group) in scenario.topology.hosts.iter().enumerate() {
        let first = number(net.hosts.len());
        // Chance moves those who send data: what an ACK does to a receiver takes no decision that phases could lock.
        let sends = scenario.traffic.iter().any(|t| t.from == index);
        let number_of_group = net.add_group(NodeId::of(group.at), Some(group.rate));
        if sends {
            net.groups[index].dephase = scenario.dephase;
        }
        for i in 0..group.count {
            let delay = group.delay.of(i, group.count, rng.u64(..));
            net.add_host(number_of_group, delay);
        }
        groups.0.push(first..number(net.hosts.len()));
    }
    groups
}
