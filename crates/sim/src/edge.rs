//! Edges: nodes that divide connections and datagram flows into two classes, each with its own way or codepoint.
//!
//! An edge is at work where a packet leaves its host, not where it comes by the node: what lies between is the host's
//! own wire and links on which its packets stay in order, so the edge would decide the same, and no other packet pays
//! for it. What is kept of a connection lies beside it, by place, and nothing is where there are no edges.

use fastrand::Rng;
use narrows_scenario::{Policy, Topology};
use narrows_units::Dscp;

use crate::connection::Connection;
use crate::host_config::{DATA, HostConfig, RECEIVER};
use crate::ids::{FlowId, LinkId, NodeId, RouteId};
use crate::packet::{Label, Packet};
use crate::path_split::{Arrivals, ClassWay, PathSplit};

/// Rule by which connections of one route are split.
#[derive(Clone, Debug)]
struct Division {
    policy: Policy,
    /// Routes of the classes.
    routes: [RouteId; 2],
    mark: Option<[Dscp; 2]>,
}

/// All edges, and the connections that the edges divide.
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

    /// Gives a newly opened connection its class, route and codepoint.
    pub(crate) fn opened(&mut self, place: FlowId, c: &mut Connection, configs: &[HostConfig]) {
        let at = place.index();
        if at >= self.connections.len() {
            self.connections.resize_with(at + 1, PathSplit::default);
        }
        self.connections[at] = PathSplit::default();
        let mss = u64::from(configs[usize::from(c.config[DATA])].tcp.mss.max(1));
        let Some(split) = self.divide(c.labels[DATA], c.size.div_ceil(mss)) else { return };
        let ClassWay { route, dscp } = split.way();
        (c.labels[DATA].route, c.labels[DATA].dscp) = (route, dscp);
        c.labels[RECEIVER].dscp = dscp;
        self.connections[at] = split.of_generation(c.generation);
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
        let of = |class: usize| ClassWay {
            route: division.routes[class],
            dscp: division.mark.map_or(own, |m| m[class]),
        };
        Some(PathSplit::new([of(0), of(1)], class, left))
    }

    /// State of the connection at `place`; `None` if no edge splits the connection.
    pub(crate) fn of(&mut self, place: FlowId) -> Option<&mut PathSplit> {
        self.connections.get_mut(place.index()).filter(|d| d.is_live())
    }

    /// Takes note of a packet for a receiver that is at the receiver's host.
    pub(crate) fn arrived(&mut self, packet: &Packet) {
        if let Some(split) = self.connections.get_mut(packet.label.flow.index()) {
            split.arrived(packet, &mut self.arrivals);
        }
    }
}
