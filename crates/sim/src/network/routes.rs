//! Which links a packet takes, and which of them may be told of it ahead of time.

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
        self.fuse();
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

    /// A wire may be told of packets ahead of time if all it gets comes from one link, in order: what follows the only
    /// link into a node. (Hosts of one node do not talk to each other; a host's way out always may.)
    fn fuse(&mut self) {
        let mut into = vec![0_u32; self.nodes as usize];
        for edge in &self.edges {
            into[edge.to as usize] += 1;
        }
        let single = |node: u32| into[node as usize] == 1;
        for group in &mut self.groups {
            group.single = single(group.node);
        }
        for edge in &self.edges {
            let hosts_send = self.groups.iter().any(|g| g.node == edge.from);
            let link = &mut self.links[edge.link as usize];
            link.fused = single(edge.from)
                && !hosts_send
                && link.queue.is_none()
                && link.tail.is_none()
                && !link.watched;
        }
    }
}
