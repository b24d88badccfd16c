//! Table of connections: a slab with an index of chains, as `narrows-flow` has it for the flows of one direction.

use narrows_flow::Micros;
use narrows_lists::{Chains, Slab};
use narrows_wire::FlowKey;

use super::half::Gaps;
use super::record::Record;

/// Connections that are followed at a time.
const CAPACITY: usize = 32_768;
/// Records that are looked at for the one that has been silent longest, where one has to go.
const LOOKS: usize = 16;

/// Table of connections.
#[derive(Debug)]
pub struct Table {
    pub records: Slab<Record>,
    /// Gaps of both directions, by the places of the records.
    pub gaps: Vec<[Gaps; 2]>,
    chains: Chains,
    mask: u64,
    seed: u64,
    hand: usize,
    capacity: usize,
}

impl Table {
    /// An empty table.
    pub fn new(seed: u64) -> Self {
        Self::with_capacity(CAPACITY, seed)
    }

    /// Creates an empty table for `capacity` records, a power of two.
    pub fn with_capacity(capacity: usize, seed: u64) -> Self {
        let buckets = (2 * capacity).next_power_of_two();
        Self {
            records: Slab::new(),
            gaps: Vec::new(),
            chains: Chains::new(buckets),
            mask: buckets as u64 - 1,
            seed,
            hand: 0,
            capacity,
        }
    }

    /// The bucket of a key, for [`Table::find`] and [`Table::make`], which is fetched from memory.
    #[inline]
    pub fn bucket(&self, key: &FlowKey) -> u32 {
        let bucket = (key.hash(self.seed) & self.mask) as u32;
        self.chains.prefetch(bucket as usize);
        bucket
    }

    /// Has the record that a bucket names first, which is mostly the one, fetched from memory.
    #[inline]
    pub fn fetch(&self, bucket: u32) {
        if let Some(record) = self.records.get(self.chains.head(bucket as usize)) {
            record.fetch();
        }
    }

    /// The place of a key.
    #[inline]
    pub fn find(&self, bucket: u32, key: &FlowKey) -> Option<u32> {
        self.chains.find(&self.records, bucket as usize, |r| r.key == *key)
    }

    /// A new record, in the place of another if there is no other; that one is given to `gone` first. `None` if all
    /// that were looked at have packets in the box.
    pub fn make(
        &mut self,
        bucket: u32,
        new: Record,
        now: Micros,
        gone: impl FnOnce(&mut Record, &[Gaps; 2]),
    ) -> Option<u32> {
        if self.records.len() == self.capacity {
            let victim = self.victim(now)?;
            if let Some(record) = self.records.get_mut(victim) {
                gone(record, &self.gaps[victim as usize]);
            }
            self.remove(victim);
        }
        let slot = self.records.insert(new);
        self.gaps.resize(self.records.places(), Default::default());
        self.gaps[slot as usize] = Default::default();
        self.chains.push(&mut self.records, bucket as usize, slot);
        Some(slot)
    }

    fn victim(&mut self, now: Micros) -> Option<u32> {
        let places = self.records.places();
        let looked = (0..LOOKS.min(places)).map(|n| ((self.hand + n) % places) as u32);
        let found = looked
            .filter_map(|at| self.records.get(at).map(|r| (at, r)))
            .filter(|(_, r)| !r.queued())
            .max_by_key(|(_, r)| now.since(r.seen));
        self.hand = (self.hand + LOOKS) % places;
        found.map(|(at, _)| at)
    }

    /// Forgets a record.
    pub fn remove(&mut self, slot: u32) {
        let Some(record) = self.records.get(slot) else { return };
        let bucket = self.bucket(&record.key);
        self.chains.remove(&mut self.records, bucket as usize, slot);
        self.records.remove(slot);
    }
}
