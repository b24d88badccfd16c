//! Where the connections that are followed are: a slab with an index of chains, by a hash that nobody outside can
//! foresee. One look-up a packet, and a quick one: that is a good part of what a packet costs.

use std::hash::{BuildHasher as _, RandomState};

use narrows_lists::{Arena as _, Chains, Slab};
use narrows_wire::FlowKey;

use crate::connection::Connection;

narrows_lists::chained!(Connection: chain);

/// Open connections, found by the addresses and ports of a packet in either direction.
#[derive(Debug)]
pub(crate) struct Connections {
    slab: Slab<Connection>,
    chains: Chains,
    seed: u64,
}

impl Connections {
    /// Makes an empty table with a bucket for each of `most` connections, which is 8 to 2^24; more connections only
    /// make look-ups slower.
    pub(crate) fn new(most: usize) -> Self {
        let buckets = most.clamp(8, 1 << 24).next_power_of_two();
        Self { slab: Slab::new(), chains: Chains::new(buckets), seed: RandomState::new().hash_one(0) }
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Bucket of a connection, one for both directions.
    fn bucket(&self, key: &FlowKey) -> usize {
        key.hash_either_way(self.seed) as usize & (self.chains.buckets() - 1)
    }

    /// The place of the connection of a packet with this key, of either direction.
    pub(crate) fn find(&self, key: &FlowKey) -> Option<u32> {
        let back = key.reverse();
        self.chains.find(&self.slab, self.bucket(key), |c| c.key == *key || c.key == back)
    }

    pub(crate) fn at_mut(&mut self, place: u32) -> &mut Connection {
        self.slab.at_mut(place)
    }

    /// Adds a connection that is not in the table yet.
    pub(crate) fn insert(&mut self, connection: Connection) -> u32 {
        let bucket = self.bucket(&connection.key);
        let place = self.slab.insert(connection);
        self.chains.push(&mut self.slab, bucket, place);
        place
    }

    pub(crate) fn remove(&mut self, place: u32) -> Connection {
        let bucket = self.bucket(&self.slab.at(place).key);
        self.chains.remove(&mut self.slab, bucket, place);
        self.slab.remove(place)
    }

    /// All connections, each with its place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Connection)> {
        (0..self.slab.places() as u32).filter_map(|place| Some((place, self.slab.get(place)?)))
    }
}
