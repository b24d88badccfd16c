//! Bulk flows of each host, and each host's part of a round by them: sources and destinations, each in a table of
//! eight ways.

use core::net::IpAddr;

use narrows_wire::{FlowKey, Proto};

use super::ways::Ways;

/// One, with 16 fractional bits.
pub const ONE: u32 = 1 << 16;

/// A host.
#[derive(Clone, Copy, Debug)]
struct Host {
    /// Queues of the host's flows that are in a list.
    queues: u32,
    /// Bulk flows among `queues`.
    bulk: u32,
    /// A flow's part of a round: one by `bulk`.
    part: u32,
    /// The sum of the parts of all rounds before `since`. It wraps: differences count.
    sum: u32,
    since: u32,
}

impl Host {
    const fn sum(&self, round: u32) -> u32 {
        self.sum.wrapping_add(round.wrapping_sub(self.since).wrapping_mul(self.part))
    }

    fn set_bulk(&mut self, bulk: u32, round: u32) {
        (self.sum, self.since) = (self.sum(round), round);
        (self.bulk, self.part) = (bulk, ONE / bulk.max(1));
    }
}

/// A flow's part of a round, or the sum of many: by its source's flows and by its destination's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    pub src: u32,
    pub dst: u32,
}

#[derive(Clone, Debug)]
struct Table {
    ways: Ways,
    hosts: Vec<Host>,
}

impl Table {
    fn new(places: usize) -> Self {
        let ways = Ways::new(places);
        Self { hosts: vec![Host { queues: 0, bulk: 0, part: ONE, sum: 0, since: 0 }; ways.len()], ways }
    }

    fn enter(&mut self, address: IpAddr, salt: u64) -> u16 {
        let hash = FlowKey::new(address, address, 0, 0, Proto(0)).hash(salt);
        let hosts = &self.hosts;
        let at = self.ways.find(hash, |at| hosts[at].queues > 0, |_| false).index();
        self.hosts[at].queues += 1;
        at as u16
    }
}

/// Sources and destinations.
#[derive(Clone, Debug)]
pub struct Hosts {
    src: Table,
    dst: Table,
    salt: u64,
}

impl Hosts {
    /// Room for `places` of each, at most 65 536.
    pub fn new(places: usize, salt: u64) -> Self {
        Self { src: Table::new(places), dst: Table::new(places), salt }
    }

    /// Enters a queue of a flow between the two hosts of `key`; returns the hosts' places.
    pub fn enter(&mut self, key: &FlowKey) -> (u16, u16) {
        (self.src.enter(key.src(), self.salt), self.dst.enter(key.dst(), self.salt))
    }

    fn pair(&mut self, src: u16, dst: u16) -> [&mut Host; 2] {
        [&mut self.src.hosts[usize::from(src)], &mut self.dst.hosts[usize::from(dst)]]
    }

    /// Counts a flow as a bulk flow from this round on.
    pub fn burden(&mut self, src: u16, dst: u16, round: u32) {
        self.pair(src, dst).into_iter().for_each(|host| host.set_bulk(host.bulk + 1, round));
    }

    /// Counts a bulk flow no longer, for the time being.
    pub fn relieve(&mut self, src: u16, dst: u16, round: u32) {
        self.pair(src, dst).into_iter().for_each(|host| host.set_bulk(host.bulk - 1, round));
    }

    /// Counts a flow's queue no longer.
    pub fn leave(&mut self, src: u16, dst: u16) {
        self.pair(src, dst).into_iter().for_each(|host| host.queues -= 1);
    }

    /// The hosts' parts of the present round.
    pub fn parts(&self, src: u16, dst: u16) -> Parts {
        Parts { src: self.src.hosts[usize::from(src)].part, dst: self.dst.hosts[usize::from(dst)].part }
    }

    /// The sums of the parts of all rounds before `round`. Only differences mean anything.
    pub fn sums(&self, src: u16, dst: u16, round: u32) -> Parts {
        let (src, dst) = (&self.src.hosts[usize::from(src)], &self.dst.hosts[usize::from(dst)]);
        Parts { src: src.sum(round), dst: dst.sum(round) }
    }
}
