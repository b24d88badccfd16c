//! Routes: the links a packet takes from one node to another.

use narrows_units::Duration;

use super::{Hop, Network};
use crate::ids::{LinkId, NodeId, RouteId};

impl Network {
    /// Finds the routes: least propagation, among equals the fewest links, among those the one added first. To be
    /// called when all is built.
    pub(crate) fn settle(&mut self) {
        let n = self.nodes as usize;
        self.routes = vec![Box::default(); n * n];
        let with_hosts: Vec<NodeId> =
            (0..self.nodes).map(NodeId).filter(|node| self.groups.iter().any(|g| g.node == *node)).collect();
        for &from in &with_hosts {
            let came = self.ways(from);
            for &to in with_hosts.iter().filter(|to| **to != from) {
                let (mut path, mut at) = (Vec::new(), to);
                while let Some(edge) = came[at.index()] {
                    path.push(edge.link);
                    at = edge.from;
                }
                path.reverse();
                self.routes[from.index() * n + to.index()] = path.into();
            }
        }
        self.find_single();
    }

    /// Adds a route beside those that [`Network::settle`] found, and gives its place.
    pub(crate) fn add_route(&mut self, links: Vec<LinkId>) -> RouteId {
        self.routes.push(links.into());
        RouteId::of(self.routes.len() - 1)
    }

    /// The ordinary route from one node to another.
    pub(crate) fn between(&self, from: NodeId, to: NodeId) -> RouteId {
        RouteId(from.0 * self.nodes + to.0)
    }

    /// Whether packets get from one node to another.
    pub(crate) fn has_route(&self, from: NodeId, to: NodeId) -> bool {
        !self.routes[self.between(from, to).index()].is_empty()
    }

    /// The last link of the best way to each node from `from`.
    fn ways(&self, from: NodeId) -> Vec<Option<Hop>> {
        // Bellman-Ford, as `narrows_scenario::Topology::route` has it.
        let mut came = vec![None; self.nodes as usize];
        let mut best = vec![None; self.nodes as usize];
        best[from.index()] = Some((Duration::ZERO, 0));
        let mut changed = true;
        while changed {
            changed = false;
            for edge in &self.edges {
                let Some((delay, links)) = best[edge.from.index()] else { continue };
                let cost = (delay + self.links[edge.link.index()].delay, links + 1);
                if best[edge.to.index()].is_none_or(|known| cost < known) {
                    best[edge.to.index()] = Some(cost);
                    came[edge.to.index()] = Some(*edge);
                    changed = true;
                }
            }
        }
        came
    }

    /// Finds the groups to which a single link leads. (Hosts of one node do not talk to each other.)
    fn find_single(&mut self) {
        for group in &mut self.groups {
            group.single = self.edges.iter().filter(|edge| edge.to == group.node).count() == 1;
        }
    }
}
