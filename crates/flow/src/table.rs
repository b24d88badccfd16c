//! Where the records live: a slab, a seeded index of chains into it, and two lists that say who is evicted first.
//!
//! The lists hold flows in the order in which they were last heard of, to [`Table::GRAIN`]: one for flows of which only a
//! handshake or a single packet was seen and for those that ended, which go first, and one for the rest. A flow with
//! packets waiting is never evicted; one that is met on a list leaves it, and is put back when its last packet has left.
//! So both eviction and all that keeps the order take constant time on average.

use narrows_units::Instant;
use narrows_wire::FlowKey;

use crate::TrackerConfig;
use crate::flow::{Coarse, Flow, Marks};

/// Where a flow stands in line for eviction and on the wheel. Indices are slots; [`NONE`] is the end. Kept apart from
/// the records, so that moving one flow does not pull its neighbours' records into the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    older: u32,
    newer: u32,
    pub(crate) wheel_prev: u32,
    pub(crate) wheel_next: u32,
    pub(crate) wheel_slot: u16,
}

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

impl Default for Links {
    fn default() -> Self {
        Self { older: NONE, newer: NONE, wheel_prev: NONE, wheel_next: NONE, wheel_slot: crate::wheel::OFF }
    }
}

/// Record, links, and at most two buckets a flow.
pub(crate) const BYTES_PER_FLOW: usize = size_of::<Flow>() + size_of::<Links>() + 2 * size_of::<u32>();

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
}

/// Where a key's record is, most often, if it has one.
#[derive(Clone, Copy, Debug)]
pub struct Likely {
    pub(crate) bucket: usize,
    pub(crate) slot: u32,
}

impl Likely {
    /// The slot, as an index into arrays that others keep beside the table; out of bounds if there is none.
    #[must_use]
    pub const fn index(self) -> usize {
        self.slot as usize
    }
}

/// The records by slot and by key.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) slots: Vec<Flow>,
    pub(crate) links: Vec<Links>,
    /// Slot plus one, so that an index that is all zero is empty and costs nothing until it is used.
    buckets: Vec<u32>,
    mask: u64,
    seed: u64,
    free: u32,
    pub(crate) live: usize,
    capacity: usize,
    /// The cheap, and the proven.
    lists: [List; 2],
}

/// What became of a request for a record.
pub(crate) struct Made {
    pub(crate) slot: u32,
    /// The flow that had to go.
    pub(crate) evicted: bool,
}

impl Table {
    /// The order is kept to 2^11 units of [`Coarse`], 2.1 s: a busy flow is moved so seldom that it costs nothing.
    const GRAIN: u32 = 11;

    pub(crate) fn new(capacity: usize, seed: u64) -> Self {
        // The largest power of two that leaves at most two buckets a flow.
        let buckets = 1usize << (2 * capacity).ilog2();
        Self {
            slots: Vec::with_capacity(capacity),
            links: Vec::with_capacity(capacity),
            buckets: vec![0; buckets],
            mask: buckets as u64 - 1,
            seed,
            free: NONE,
            live: 0,
            capacity,
            lists: [List { oldest: NONE, newest: NONE }; 2],
        }
    }

    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    fn bucket(&self, key: &FlowKey) -> usize {
        (key.hash(self.seed) & self.mask) as usize
    }

    /// The slot of `key`, if it has one.
    pub(crate) fn find(&self, key: &FlowKey) -> Option<u32> {
        self.find_in(self.bucket(key), key)
    }

    /// The slot of `key`, whose bucket this is, if it has one.
    pub(crate) fn find_in(&self, bucket: usize, key: &FlowKey) -> Option<u32> {
        let mut slot = self.buckets[bucket].wrapping_sub(1);
        while slot != NONE {
            let flow = &self.slots[slot as usize];
            if flow.key == *key {
                return Some(slot);
            }
            slot = flow.chain;
        }
        None
    }

    /// The slot the key's bucket names first.
    pub(crate) fn likely(&self, key: &FlowKey) -> Likely {
        let bucket = self.bucket(key);
        Likely { bucket, slot: self.buckets[bucket].wrapping_sub(1) }
    }

    /// Reads a word of each line of the record that a packet changes: a processor that runs ahead has them fetched
    /// together, while the code that uses them would wait for one after the other.
    pub(crate) fn touch(&self, slot: u32) {
        if let Some(flow) = self.slots.get(slot as usize) {
            core::hint::black_box((flow.marks, flow.epoch_start, flow.rate_bytes));
        }
    }

    /// Makes a record for a key that has none, in a free slot or in that of the flow that matters least. `gone` is
    /// told of that flow while its record still stands. `None` if every flow has packets waiting.
    pub(crate) fn make(
        &mut self,
        now: Instant,
        key: FlowKey,
        bucket: usize,
        config: &TrackerConfig,
        gone: impl FnOnce(&mut Self, u32),
    ) -> Option<Made> {
        let mut evicted = false;
        if self.free == NONE && self.slots.len() == self.capacity {
            let victim = self.least_needed()?;
            gone(self, victim);
            self.remove(victim);
            evicted = true;
        }
        let slot = if self.free == NONE {
            let slot = self.slots.len() as u32;
            self.slots.push(Flow::new(now, key, 0, config));
            self.links.push(Links::default());
            slot
        } else {
            let slot = self.free;
            let old = &self.slots[slot as usize];
            self.free = old.chain;
            let generation = old.generation.wrapping_add(1);
            self.slots[slot as usize] = Flow::new(now, key, generation, config);
            slot
        };
        self.slots[slot as usize].chain = self.buckets[bucket].wrapping_sub(1);
        self.buckets[bucket] = slot + 1;
        self.live += 1;
        self.list(slot);
        Some(Made { slot, evicted })
    }

    /// Forgets a flow; its slot is free.
    pub(crate) fn remove(&mut self, slot: u32) {
        self.unlist(slot);
        let bucket = self.bucket(&self.slots[slot as usize].key);
        let next = self.slots[slot as usize].chain;
        let first = self.buckets[bucket].wrapping_sub(1);
        if first == slot {
            self.buckets[bucket] = next.wrapping_add(1);
        } else {
            let mut at = first;
            while self.slots[at as usize].chain != slot {
                at = self.slots[at as usize].chain;
            }
            self.slots[at as usize].chain = next;
        }
        let flow = &mut self.slots[slot as usize];
        flow.marks.keep(0);
        flow.chain = self.free;
        self.free = slot;
        self.live -= 1;
    }

    /// The flow to evict: the longest unheard of the cheap, then of the proven, that has nothing waiting.
    fn least_needed(&mut self) -> Option<u32> {
        for list in 0..2 {
            while self.lists[list].oldest != NONE {
                let slot = self.lists[list].oldest;
                if self.slots[slot as usize].queued == 0 {
                    return Some(slot);
                }
                self.unlist(slot);
            }
        }
        None
    }

    /// Whether it belongs to the flows that are evicted last.
    fn is_dear(flow: &Flow) -> bool {
        flow.marks.has(Marks::PROVEN) && !flow.marks.has(Marks::CLOSED)
    }

    /// Notes that the flow was heard of at `now`, and before that at `before`.
    pub(crate) fn heard(&mut self, slot: u32, before: Coarse, now: Coarse) {
        let marks = self.slots[slot as usize].marks;
        let dear = Self::is_dear(&self.slots[slot as usize]);
        let same = dear == marks.has(Marks::LIST_PROVEN);
        if marks.has(Marks::LISTED) && !(same && before.0 >> Self::GRAIN == now.0 >> Self::GRAIN) {
            self.unlist(slot);
            self.list(slot);
        }
    }

    /// Puts a flow last in line, unless it is in line already.
    pub(crate) fn list(&mut self, slot: u32) {
        let flow = &mut self.slots[slot as usize];
        if flow.marks.has(Marks::LISTED) {
            return;
        }
        let dear = Self::is_dear(flow);
        let list = &mut self.lists[usize::from(dear)];
        flow.marks.set(Marks::LISTED);
        flow.marks.put(Marks::LIST_PROVEN, dear);
        let links = &mut self.links[slot as usize];
        (links.older, links.newer) = (list.newest, NONE);
        let before = core::mem::replace(&mut list.newest, slot);
        if before == NONE {
            list.oldest = slot;
        } else {
            self.links[before as usize].newer = slot;
        }
    }

    fn unlist(&mut self, slot: u32) {
        let flow = &mut self.slots[slot as usize];
        if !flow.marks.take(Marks::LISTED) {
            return;
        }
        let list = usize::from(flow.marks.has(Marks::LIST_PROVEN));
        let Links { older, newer, .. } = self.links[slot as usize];
        if older == NONE {
            self.lists[list].oldest = newer;
        } else {
            self.links[older as usize].newer = newer;
        }
        if newer == NONE {
            self.lists[list].newest = older;
        } else {
            self.links[newer as usize].older = older;
        }
    }

    /// Bytes of memory taken, index and all.
    pub(crate) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Flow>()
            + self.links.capacity() * size_of::<Links>()
            + self.buckets.capacity() * size_of::<u32>()
    }
}
