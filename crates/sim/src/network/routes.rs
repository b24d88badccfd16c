//! Routes: the links a packet takes from one node to another.

use narrows_units::Duration;

use super::{Hop, Network};

impl Network {
    /// Finds the routes: least propagation, among equals the fewest links, among those the one added first. To be
    /// called when all is built.
    pub(crate) fn settle(&mut self) {
        let n = self.nodes as usize;
        self.routes = vec![Box::default(); n * n];
        let with_hosts: Vec<u32> =
            (0..self.nodes).filter(|node| self.groups.iter().any(|g| g.node == *node)).collect();
        for &from in &with_hosts {
            let came = self.ways(from);
            for &to in with_hosts.iter().filter(|to| **to != from) {
                let (mut path, mut at) = (Vec::new(), to);
                while let Some(edge) = came[at as usize] {
                    path.push(edge.link);
                    at = edge.from;
                }
                path.reverse();
                self.routes[from as usize * n + to as usize] = path.into();
            }
        }
        self.find_single();
    }

    /// Adds a route beside those that [`Network::settle`] found, and gives its place.
    pub(crate) fn add_route(&mut self, links: Vec<u32>) -> u32 {
        self.routes.push(links.into());
        u32::try_from(self.routes.len() - 1).expect("a scenario is checked to have fewer nodes")
    }

    /// Whether packets get from one node to another.
    pub(crate) fn has_route(&self, from: u32, to: u32) -> bool {
        !self.routes[(from * self.nodes + to) as usize].is_empty()
    }

    /// The last link of the best way to each node from `from`.
    fn ways(&self, from: u32) -> Vec<Option<Hop>> {
        // Bellman-Ford, as `narrows_scenario::Topology::route` has it.
        let mut came = vec![None; self.nodes as usize];
        let mut best = vec![None; self.nodes as usize];
        best[from as usize] = Some((Duration::ZERO, 0));
        let mut changed = true;
        while changed {
            changed = false;
            for edge in &self.edges {
                let Some((delay, links)) = best[edge.from as usize] else { continue };
                let cost = (delay + self.links[edge.link as usize].delay, links + 1);
                if best[edge.to as usize].is_none_or(|known| cost < known) {
                    best[edge.to as usize] = Some(cost);
                    came[edge.to as usize] = Some(*edge);
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
