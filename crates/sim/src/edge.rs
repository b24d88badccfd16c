//! Edges: nodes that divide connections and datagram flows into two classes, each with its own way or codepoint.
//!
//! An edge is at work where a packet leaves its host, not where it comes by the node: what lies between is the host's
//! own wire and links on which its packets stay in order, so the edge would decide the same, and no other packet pays
//! for it. What is kept of a connection lies beside it, by place, and nothing is where there are no edges.

use fastrand::Rng;
use narrows_scenario::{Policy, Topology};
use narrows_units::{Dscp, Instant};

use crate::connection::Connection;
use crate::host_config::{DATA, HostConfig, RECEIVER};
use crate::ids::{FlowId, LinkId, NodeId, RouteId};
use crate::packet::{Label, Packet};

/// Rule by which connections of one route are split.
#[derive(Clone, Debug)]
struct Division {
    policy: Policy,
    /// Routes of the classes.
    routes: [RouteId; 2],
    mark: Option<[Dscp; 2]>,
}

/// State of a connection or flow of datagrams that an edge splits.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathSplit {
    /// The place belongs to a connection that is split, of this generation.
    live: bool,
    generation: u32,
    /// Packets of data it may still send in its class; then it is of the other.
    left: u32,
    now: (RouteId, Dscp),
    then: (RouteId, Dscp),
    /// Route and codepoint of the first class, and whether the class is recognised by route (else by codepoint).
    first: (RouteId, Dscp),
    by_route: bool,
    /// When the packet sent last of those that arrived left its host, and what it carried: a host sends several at
    /// once, in their order.
    latest: (Instant, u32),
}

impl PathSplit {
    /// A packet of data is about to be sent: its route and codepoint.
    pub(crate) fn sends(&mut self) -> (RouteId, Dscp) {
        if self.left == 0 {
            return self.then;
        }
        if self.left < u32::MAX {
            self.left -= 1;
        }
        self.now
    }
}

/// Counts of packets that arrived on split connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    pub(crate) data: u64,
    pub(crate) first_class: u64,
    pub(crate) reordered: u64,
}

/// All edges, and the connections they divide.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    /// Divisions, by place of the ordinary route; empty without edges.
    divisions: Vec<Option<Box<Division>>>,
    connections: Vec<PathSplit>,
    rng: Rng,
    pub(crate) arrivals: Arrivals,
}

impl Edges {
    /// The edges of a topology. `add_route` makes a route of links and gives its place.
    pub(crate) fn new(
        topology: &Topology,
        seed: u64,
        ordinary: impl Fn(NodeId, NodeId) -> RouteId,
        mut add_route: impl FnMut(Vec<LinkId>) -> RouteId,
    ) -> Self {
        let mut edges = Self { rng: Rng::with_seed(seed), ..Self::default() };
        if topology.edges.is_empty() {
            return edges;
        }
        let mut nodes: Vec<usize> = topology.hosts.iter().map(|h| h.at).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for (from, to) in
            nodes.iter().flat_map(|a| nodes.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b)
        {
            let Some((edge, ways)) = topology.divided(from, to) else { continue };
            let place = ordinary(NodeId::of(from), NodeId::of(to));
            let routes = match edge.paths {
                None => [place; 2],
                Some(_) => ways.map(|way| add_route(way.into_iter().map(LinkId::of).collect())),
            };
            if edges.divisions.len() <= place.index() {
                edges.divisions.resize(place.index() + 1, None);
            }
            edges.divisions[place.index()] =
                Some(Box::new(Division { policy: edge.policy, routes, mark: edge.mark }));
        }
        edges
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.divisions.is_empty()
    }

    /// A connection was opened: it gets its class, route and codepoint.
    pub(crate) fn opened(&mut self, place: FlowId, c: &mut Connection, configs: &[HostConfig]) {
        let at = place.index();
        if at >= self.connections.len() {
            self.connections.resize_with(at + 1, PathSplit::default);
        }
        self.connections[at] = PathSplit::default();
        let mss = u64::from(configs[usize::from(c.config[DATA])].tcp.mss.max(1));
        let Some(split) = self.divide(c.labels[DATA], c.size.div_ceil(mss)) else { return };
        (c.labels[DATA].route, c.labels[DATA].dscp) = split.now;
        c.labels[RECEIVER].dscp = split.now.1;
        self.connections[at] = PathSplit { generation: c.generation, ..split };
    }

    /// A flow of datagrams begins, whose end nobody knows, with the ordinary route and its own codepoint: what is to be
    /// known of it, if it is split.
    pub(crate) fn datagrams(&mut self, route: RouteId, dscp: Dscp) -> Option<PathSplit> {
        self.divide(Label { route, dscp, ..Label::default() }, u64::MAX)
    }

    /// Splits a flow of this label, which will carry `carries` full packets; `None` if no edge divides its route.
    fn divide(&mut self, label: Label, carries: u64) -> Option<PathSplit> {
        let Some(Some(division)) = self.divisions.get(label.route.index()) else { return None };
        let own = label.dscp;
        let (class, left) = match division.policy {
            Policy::Random => (usize::from(self.rng.bool()), u32::MAX),
            Policy::Size(packets) => (usize::from(carries >= u64::from(packets)), u32::MAX),
            Policy::Lifetime(packets) => (0, packets),
            Policy::Dscp(first) => (usize::from(own != first), u32::MAX),
        };
        let of = |class: usize| (division.routes[class], division.mark.map_or(own, |m| m[class]));
        Some(PathSplit {
            live: true,
            generation: 0,
            left,
            now: of(class),
            then: of(1),
            first: of(0),
            by_route: division.routes[0] != division.routes[1],
            latest: (Instant::ZERO, 0),
        })
    }

    /// State of the connection at `place`; `None` if no edge splits it.
    pub(crate) fn of(&mut self, place: FlowId) -> Option<&mut PathSplit> {
        self.connections.get_mut(place.index()).filter(|d| d.live)
    }

    /// A packet for a receiver is at its host.
    pub(crate) fn arrived(&mut self, packet: &Packet) {
        let Some(d) = self.connections.get_mut(packet.label.flow.index()) else { return };
        let Some(tcp) = packet.header.tcp.filter(|t| t.payload > 0) else { return };
        if !d.live || d.generation != packet.label.generation {
            return;
        }
        let sent = (packet.sent, tcp.seq.0);
        let (seen, known) = (&mut self.arrivals, d.latest);
        seen.data += 1;
        seen.first_class += u64::from(if d.by_route {
            packet.label.route == d.first.0
        } else {
            packet.header.dscp == d.first.1
        });
        seen.reordered += u64::from(sent < known);
        d.latest = known.max(sent);
    }
}
