//! Division of a scenario into parts that never meet: no link, host, user or discipline of one part affects another, so
//! that each can be simulated by itself, and several at a time.
//!
//! Entries of traffic belong together if they share a host or a link of their ways, there or back; links, if they are
//! the two directions of one or if one's queue stands before the other. Nodes have no state, so bottlenecks that hang
//! at one node may be parts of their own. The parts depend on the scenario alone, never on who simulates them.

use narrows_scenario::{Link, Scenario, Service, Topology, Traffic};

#[cfg(test)]
mod tests;

/// More parts are put together: each builds all hosts of the scenario, so that a number means the same in all.
const MOST: usize = 64;

/// The parts of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Numbers of parts, by entry of traffic and by link.
    traffic: Vec<usize>,
    links: Vec<usize>,
    count: usize,
}

/// Part of a division.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    parts: &'a Parts,
    pub(crate) number: usize,
}

impl Parts {
    /// Divides `scenario`; parts are numbered by their first entries of traffic. Unused links belong to the first part.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let topology = &scenario.topology;
        let (entries, links) = (scenario.traffic.len(), topology.links.len());
        if entries < 2 {
            return Self::whole(scenario);
        }
        let mut sets = Sets::new(entries + links);
        for (at, traffic) in scenario.traffic.iter().enumerate() {
            ways(topology, traffic).for_each(|link| sets.join(at, entries + link));
        }
        for (at, link) in topology.links.iter().enumerate() {
            let next = shaped_for(topology, link).map(|(next, _)| next);
            link.back.into_iter().chain(next).for_each(|other| sets.join(entries + at, entries + other));
        }
        share_hosts(scenario, &mut sets);
        let mut roots: Vec<usize> = Vec::new();
        let mut number = |sets: &mut Sets, at: usize, known: bool| {
            let root = sets.root(at);
            let found = roots.iter().position(|r| *r == root);
            let found = found.or_else(|| known.then(|| (roots.push(root), roots.len() - 1).1));
            found.unwrap_or(0) % MOST
        };
        let traffic: Vec<usize> = (0..entries).map(|at| number(&mut sets, at, true)).collect();
        let links = (entries..entries + links).map(|at| number(&mut sets, at, false)).collect();
        Self { traffic, links, count: roots.len().min(MOST) }
    }

    /// Division into a single part.
    pub(crate) fn whole(scenario: &Scenario) -> Self {
        let links = vec![0; scenario.topology.links.len()];
        Self { traffic: vec![0; scenario.traffic.len()], links, count: 1 }
    }

    /// Number of parts, at least one.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    pub(crate) const fn part(&self, number: usize) -> Part<'_> {
        Part { parts: self, number }
    }
}

impl Part<'_> {
    /// Whether the part is one of several.
    pub(crate) const fn is_one_of_several(self) -> bool {
        self.parts.count > 1
    }
    pub(crate) fn has_traffic(self, at: usize) -> bool {
        self.parts.traffic[at] == self.number
    }
    pub(crate) fn has_link(self, at: usize) -> bool {
        self.parts.links[at] == self.number
    }
}

/// The links that packets of an entry may take, there and back.
fn ways(topology: &Topology, traffic: &Traffic) -> impl Iterator<Item = usize> {
    let (from, to) = (topology.hosts[traffic.from].at, topology.hosts[traffic.to].at);
    [(from, to), (to, from)].into_iter().flat_map(|(from, to)| {
        let divided = topology.divided(from, to).map_or_else(Vec::new, |(_, ways)| ways.concat());
        topology.route(from, to).unwrap_or_default().into_iter().chain(divided)
    })
}

/// The link whose rate changes and which `link` shapes for: the only one that goes on from where it ends, or else the
/// only one that ends where it begins.
pub(crate) fn shaped_for<'a>(topology: &'a Topology, link: &Link) -> Option<(usize, &'a Link)> {
    let links = || topology.links.iter().enumerate();
    let mut on = links().filter(|(_, l)| l.from == link.to && l.to != link.from);
    let mut before = links().filter(|(_, l)| l.to == link.from && l.from != link.to);
    let changes = |only: &(usize, &Link)| only.1.service != Service::Constant;
    let behind = on.next().filter(|_| on.next().is_none()).filter(changes);
    behind.or_else(|| before.next().filter(|_| before.next().is_none()).filter(changes))
}

/// Joins entries that have users on one host: user `u` sits on host `first + u` of a group, round and round.
fn share_hosts(scenario: &Scenario, sets: &mut Sets) {
    let mut used: Vec<(usize, u64, u64, usize)> = Vec::new();
    for (at, traffic) in scenario.traffic.iter().enumerate() {
        for group in [traffic.from, traffic.to] {
            let count = u64::from(scenario.topology.hosts[group].count.max(1));
            let (first, users) = (u64::from(traffic.first) % count, u64::from(traffic.users().max(1)));
            let end = first + users.min(count);
            used.push((group, first, end.min(count), at));
            if end > count {
                used.push((group, 0, end - count, at));
            }
        }
    }
    used.sort_unstable();
    // Among the ranges that begin before: group, end and entry of the range that reaches farthest.
    let mut last: Option<(usize, u64, usize)> = None;
    for (group, first, end, at) in used {
        last = match last {
            Some((of, until, other)) if of == group && first < until => {
                sets.join(other, at);
                Some((group, until.max(end), at))
            }
            _ => Some((group, end, at)),
        };
    }
}

/// Sets that do not overlap (union-find).
struct Sets(Vec<usize>);

impl Sets {
    fn new(count: usize) -> Self {
        Self((0..count).collect())
    }
    fn root(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}
