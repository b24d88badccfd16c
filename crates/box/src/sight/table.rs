//! Where the records are: a slab with an index of chains, as `narrows-flow` has it for the flows of one direction.

use narrows_flow::Micros;
use narrows_lists::{Chains, NIL};
use narrows_wire::FlowKey;

use super::record::{Record, Record16};

/// Connections that are followed at a time.
const CAPACITY: usize = 32_768;
/// How many are looked at for the one that has been silent longest, where one has to go.
const LOOKS: usize = 16;

/// See the head of the file.
#[derive(Debug)]
pub struct Table {
    pub records: Vec<Record>,
    chains: Chains,
    mask: u64,
    seed: u64,
    free: u32,
    hand: usize,
    capacity: usize,
}

impl Table {
    /// An empty one.
    pub fn new(seed: u64) -> Self {
        Self::with_capacity(CAPACITY, seed)
    }

    /// An empty one for so many records, a power of two.
    pub fn with_capacity(capacity: usize, seed: u64) -> Self {
        let buckets = (2 * capacity).next_power_of_two();
        Self {
            records: Vec::new(),
            chains: Chains::new(buckets),
            mask: buckets as u64 - 1,
            seed,
            free: NIL,
            hand: 0,
            capacity,
        }
    }

    /// The bucket of a key, for [`Table::find`] and [`Table::make`].
    pub fn bucket(&self, key: &FlowKey) -> usize {
        (key.hash(self.seed) & self.mask) as usize
    }

    /// The place of a key.
    pub fn find(&self, bucket: usize, key: &FlowKey) -> Option<u32> {
        self.chains.find(&self.records, bucket, |r| r.key == *key)
    }

    /// A new record, in the place of another if there is no other; that one is given to `gone` first. `None` if all
    /// that were looked at have packets in the box.
    pub fn make(
        &mut self,
        bucket: usize,
        new: Record,
        now: Micros,
        gone: impl FnOnce(&mut Record),
    ) -> Option<u32> {
        if self.free == NIL && self.records.len() == self.capacity {
            let victim = self.victim(now)?;
            gone(&mut self.records[victim as usize]);
            self.remove(victim);
        }
        let slot = if self.free == NIL {
            self.records.push(new);
            self.records.len() as u32 - 1
        } else {
            let slot = self.free;
            self.free = self.records[slot as usize].chain;
            self.records[slot as usize] = new;
            slot
        };
        self.chains.push(&mut self.records, bucket, slot);
        Some(slot)
    }

    fn victim(&mut self, now: Micros) -> Option<u32> {
        let looked = (0..LOOKS.min(self.records.len())).map(|n| (self.hand + n) % self.records.len());
        let found = looked
            .filter(|at| !self.records[*at].queued())
            .max_by_key(|at| now.since(self.records[*at].seen));
        self.hand = (self.hand + LOOKS) % self.records.len();
        found.map(|at| at as u32)
    }

    /// Forgets a record.
    pub fn remove(&mut self, slot: u32) {
        let bucket = self.bucket(&self.records[slot as usize].key);
        self.chains.remove(&mut self.records, bucket, slot);
        let record = &mut self.records[slot as usize];
        record.flags.take(Record16::LIVE);
        record.chain = self.free;
        self.free = slot;
    }
}
