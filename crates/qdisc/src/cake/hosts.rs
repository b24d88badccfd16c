//! How many flows each host has in turns: sources and destinations, each in a table of eight ways.

use core::net::IpAddr;

use narrows_wire::{FlowKey, Proto};

use super::ways::Ways;

/// One host.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    /// Queues of its flows that are in a list.
    queues: u32,
    /// Of these, those that take turns.
    bulk: u32,
}

#[derive(Clone, Debug)]
struct Table {
    ways: Ways,
    hosts: Vec<Host>,
}

impl Table {
    fn new(places: usize) -> Self {
        let ways = Ways::new(places);
        Self { hosts: vec![Host::default(); ways.len()], ways }
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

    /// A queue of a flow between these two comes into a list.
    pub fn enter(&mut self, key: &FlowKey) -> (u16, u16) {
        (self.src.enter(key.src(), self.salt), self.dst.enter(key.dst(), self.salt))
    }

    /// It takes turns from now on.
    pub fn burden(&mut self, src: u16, dst: u16) {
        self.src.hosts[usize::from(src)].bulk += 1;
        self.dst.hosts[usize::from(dst)].bulk += 1;
    }

    /// It takes none for the time being.
    pub fn relieve(&mut self, src: u16, dst: u16) {
        self.src.hosts[usize::from(src)].bulk -= 1;
        self.dst.hosts[usize::from(dst)].bulk -= 1;
    }

    /// It leaves.
    pub fn leave(&mut self, src: u16, dst: u16) {
        self.src.hosts[usize::from(src)].queues -= 1;
        self.dst.hosts[usize::from(dst)].queues -= 1;
    }

    /// How many of each take turns.
    pub fn bulk(&self, src: u16, dst: u16) -> (u32, u32) {
        (self.src.hosts[usize::from(src)].bulk, self.dst.hosts[usize::from(dst)].bulk)
    }
}
