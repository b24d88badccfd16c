//! Nodes, links and hosts: the one form behind every way to write a topology.

use core::fmt;
use core::str::FromStr;

use narrows_qdisc::{Framing, SettingError, ShaperConfig, Spec};
use narrows_units::{Bytes, Dscp, Duration, Rate};

use crate::{Service, Shaping};

/// A network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// Names of the nodes; links, hosts and edges refer to the nodes by index.
    pub nodes: Vec<String>,
    /// Links, one direction each.
    pub links: Vec<Link>,
    /// Groups of hosts.
    pub hosts: Vec<Hosts>,
    /// Edges that divide flows into two classes; the first that has to do with a flow decides.
    pub edges: Vec<EdgeRouter>,
}

/// A node that divides the connections and datagram flows that come by it into two classes, and sends each class its
/// own way, or writes its codepoint on it, or both (Yilmaz and Matta, section 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeRouter {
    /// Index into [`Topology::nodes`].
    pub at: usize,
    /// Rule that puts connections into the first class.
    pub policy: Policy,
    /// Indices into [`Topology::links`]: the first link of each class's way. Connections whose ordinary way takes one
    /// of the two are divided; without paths, all that come by.
    pub paths: Option<[usize; 2]>,
    /// Codepoints written on the packets of each class, if any.
    pub mark: Option<[Dscp; 2]>,
}

/// Rule by which an [`EdgeRouter`] divides connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Each class has equal chances, and a connection keeps its class: load balancing.
    Random,
    /// The first class has connections that carry fewer full segments than this; they know it at the start.
    Size(u32),
    /// A connection is of the first class until it has sent this many packets of data, then of the second.
    Lifetime(u32),
    /// The first class has connections that bear the codepoint given.
    Dscp(Dscp),
}

/// One direction of a link: a queue, a transmitter, a wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Name in the file; the way back is called `NAME.back`.
    pub name: String,
    /// Index into [`Topology::nodes`]: where the queue stands.
    pub from: usize,
    /// Index into [`Topology::nodes`]: where the wire ends.
    pub to: usize,
    /// Index into [`Topology::links`] of the opposite direction, if there is one.
    pub back: Option<usize>,
    /// Rate of the transmitter: of one whose rate changes the mean of its trace, or the first of its rates.
    pub rate: Rate,
    /// Times at which the link sends: a rate, a trace, steps.
    pub service: Service,
    /// Shaper at the entrance of the queue.
    pub shaping: Shaping,
    /// Propagation.
    pub delay: Duration,
    /// The queue in front of the link.
    pub discipline: LinkDiscipline,
    /// Bytes of link layer per packet.
    pub overhead: u32,
    /// Least size, in bytes, that a packet counts as, overhead included.
    pub mpu: u32,
    /// Framing of the link layer.
    pub framing: Framing,
    /// Random losses on the wire, after the transmitter.
    pub loss: Loss,
    /// Packets the wire loses: the first to be sent is 1; ascending.
    pub drop: Vec<u64>,
    /// Times at each of which the first packet whose sending ends then or later is lost; ascending.
    pub drop_at: Vec<Duration>,
}

/// Discipline before a link.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkDiscipline {
    /// A discipline of ours, which simulator and lab can both run.
    Ours(Spec),
    /// A discipline of the kernel, as `cake` of `kernel:cake`; only the lab can run it.
    Kernel(String),
    /// Shortest remaining processing time: it knows what each transfer has left, so only the simulator can run it.
    Srpt,
    /// A discipline that the program brings which starts the run, by the program's own number: only the simulator.
    Own(u16),
}

/// Random losses of a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// The wire loses nothing.
    #[default]
    None,
    /// Independent losses of packets with the probability given.
    Random(f64),
    /// Losses in bursts: two states, a change before each packet (Gilbert 1960, Elliott 1963).
    GilbertElliott {
        /// Probability to go from good to bad.
        to_bad: f64,
        /// Probability to go from bad to good.
        to_good: f64,
        /// Probability of loss in the bad state.
        bad: f64,
        /// Probability of loss in the good state.
        good: f64,
    },
}

/// Hosts alike, each with a link of its own to a node. A host's own link has no overhead, loses nothing, and its queue
/// is as long as need be, both ways.
#[derive(Clone, Debug, PartialEq)]
pub struct Hosts {
    /// Name in the file.
    pub name: String,
    /// Index into [`Topology::nodes`]: the node at which the hosts' links end.
    pub at: usize,
    /// Number of hosts.
    pub count: u32,
    /// Rate of each host's link, both ways.
    pub rate: Rate,
    /// Propagation of each host's link, one way.
    pub delay: Delays,
}

/// Delays of a group of hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Least.
    pub low: Duration,
    /// Greatest.
    pub high: Duration,
    /// Distribution of the values between `low` and `high`.
    pub spread: Spacing,
}

/// Distribution of values within a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// Evenly by index, the ends included.
    #[default]
    Even,
    /// Uniformly at random.
    Random,
}

impl Delays {
    /// The delay of host `index` of `count`; `draw` is a random number, of which [`Spacing::Random`] makes use.
    #[must_use]
    pub fn of(&self, index: u32, count: u32, draw: u64) -> Duration {
        let width = u128::from(self.high.as_nanos().saturating_sub(self.low.as_nanos()));
        let above = match self.spread {
            // A single host takes the middle.
            Spacing::Even if count < 2 => width / 2,
            Spacing::Even => width * u128::from(index) / u128::from(count - 1),
            Spacing::Random => (width * u128::from(draw)) >> 64,
        };
        self.low + Duration::from_nanos(above as u64)
    }
}

impl Link {
    /// Rate and framing as a shaper and a discipline see them; `mtu` is that of the scenario.
    #[must_use]
    pub const fn shaper(&self, mtu: u32) -> ShaperConfig {
        ShaperConfig {
            rate: self.rate,
            overhead: self.overhead,
            mpu: self.mpu,
            framing: self.framing,
            mtu: Bytes((mtu + self.overhead) as u64),
            ..ShaperConfig::new(self.rate)
        }
    }
}

impl Topology {
    /// The edge that divides connections whose data go from node `from` to node `to`, if one does, and the ways of its
    /// classes: both the ordinary one if it has no paths.
    #[must_use]
    pub fn divided(&self, from: usize, to: usize) -> Option<(&EdgeRouter, [Vec<usize>; 2])> {
        let way = self.route(from, to)?;
        self.edges.iter().find_map(|edge| {
            let Some(paths) = edge.paths else {
                let comes_by = way.iter().any(|l| self.links[*l].from == edge.at);
                return comes_by.then(|| (edge, [way.clone(), way.clone()]));
            };
            let up_to = way.iter().position(|l| paths.contains(l))?;
            let by = |path: usize| {
                let mut links = way[..up_to].to_vec();
                links.push(path);
                links.extend(self.route(self.links[path].to, to)?);
                // Whoever comes back to the edge has not been sent anywhere.
                let back = links[up_to + 1..].iter().any(|l| self.links[*l].from == edge.at);
                (!back).then_some(links)
            };
            Some((edge, [by(paths[0])?, by(paths[1])?]))
        })
    }

    /// The links from node `from` to node `to` with the least propagation; among equals the fewest, among those the
    /// first listed. `None` if there is no way; empty if the two are one.
    #[must_use]
    pub fn route(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        // Bellman-Ford: some dozens of links, and each round settles all routes of one more hop.
        let mut best: Vec<Option<(u64, usize, usize)>> = vec![None; self.nodes.len()];
        *best.get_mut(from)? = Some((0, 0, usize::MAX));
        for _ in 0..self.nodes.len() {
            let mut changed = false;
            for (at, link) in self.links.iter().enumerate() {
                let Some((delay, hops, _)) = best[link.from] else { continue };
                let cost = (delay.saturating_add(link.delay.as_nanos()), hops + 1);
                if best[link.to].is_none_or(|(d, h, _)| cost < (d, h)) {
                    best[link.to] = Some((cost.0, cost.1, at));
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        let (mut links, mut at) = (Vec::new(), to);
        while at != from {
            let (_, _, link) = (*best.get(at)?)?;
            links.push(link);
            at = self.links[link].from;
        }
        links.reverse();
        Some(links)
    }
}

impl fmt::Display for LinkDiscipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(spec) => spec.fmt(f),
            Self::Kernel(name) => write!(f, "kernel:{name}"),
            Self::Srpt => f.write_str("srpt"),
            Self::Own(number) => write!(f, "own:{number}"),
        }
    }
}

impl FromStr for LinkDiscipline {
    type Err = SettingError;
    fn from_str(text: &str) -> Result<Self, SettingError> {
        if let Some(name) = text.strip_prefix("kernel:") {
            return Ok(Self::Kernel(name.to_owned()));
        }
        match text.strip_prefix("own:").and_then(|number| number.parse().ok()) {
            Some(number) => Ok(Self::Own(number)),
            None if text == "srpt" => Ok(Self::Srpt),
            None => text.parse().map(Self::Ours),
        }
    }
}
