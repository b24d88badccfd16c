//! Where the records live: a slab, a seeded index of chains into it, and two lists that say who is evicted first.
//!
//! The lists hold flows in the order in which they were last heard of, to [`Table::GRAIN`]: one for flows of which only
//! a handshake or a single packet was seen and for those that ended, which go first, and one for the rest. A flow with
//! packets waiting is never evicted; one that is met on a list leaves it, and is put back when its last packet has
//! left. So both eviction and all that keeps the order take constant time on average.
//!
//! Flows of a user who has more than an eighth of the table go among the first as well: a window scale is said once in
//! a connection's life, and whoever sends two packets each to fresh ports must not have the box forget those of others.

use narrows_lists::{Chains, Links, List, NIL, chained, linked, prefetch};
use narrows_units::Instant;
use narrows_users::UserRule;
use narrows_wire::FlowKey;

use crate::flags::FlowFlags;
use crate::flow::Flow;
use crate::times::Coarse;
use crate::{FlowId, TrackerConfig};

/// Where a flow stands in line for eviction and on the wheel. Kept apart from the records, so that moving one flow does
/// not pull its neighbours' records into the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hooks {
    age: Links,
    wheel: Links,
    pub(crate) wheel_slot: u16,
}

/// Lists of flows by the time at which a flow was last heard of.
#[derive(Clone, Debug)]
enum ByAge {}

linked!(Hooks, ByAge: age);

/// Lists of flows by the time at which a flow is to be looked at.
#[derive(Clone, Debug)]
pub(crate) enum OnWheel {}

linked!(Hooks, OnWheel: wheel);

impl Default for Hooks {
    fn default() -> Self {
        Self { age: Links::NONE, wheel: Links::NONE, wheel_slot: crate::wheel::OFF }
    }
}

chained!(Flow: chain);

/// Record, links, and at most two buckets a flow.
pub(crate) const BYTES_PER_FLOW: usize = size_of::<Flow>() + size_of::<Hooks>() + 2 * size_of::<u32>();

/// Bucket that holds a key's record, if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    bucket: usize,
}

/// Place where a key's record most likely is, for a key with a record.
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
    pub(crate) hooks: Vec<Hooks>,
    chains: Chains,
    mask: u64,
    seed: u64,
    free: u32,
    pub(crate) live: usize,
    capacity: usize,
    /// The cheap, and the proven.
    lists: [List<ByAge>; 2],
    crowds: Crowds,
}

/// How many flows each user has, by hash: two users with one are counted together.
#[derive(Clone, Debug)]
struct Crowds {
    users: UserRule,
    seed: u64,
    flows: Box<[u32; CROWDS]>,
    most: u32,
}

/// Number of counters for users' flows: a user seldom shares one with another who has a crowd.
const CROWDS: usize = 1024;
/// Part of the table, as its inverse, that is kept for one user while there is need.
const FOR_ONE_USER: usize = 8;
/// Flows that are kept for one user however small the table: two or three pages with all they call for.
const FOR_ANY_USER: usize = 64;

impl Crowds {
    fn new(capacity: usize, users: UserRule, seed: u64) -> Self {
        let most = (capacity / FOR_ONE_USER).max(FOR_ANY_USER) as u32;
        Self { users, seed, flows: Box::new([0; CROWDS]), most }
    }

    /// The count of the user of a flow, by its addresses and ports alone: who opened it is learned later.
    fn count(&mut self, key: &FlowKey) -> &mut u32 {
        let user = self.users.user(key, None);
        &mut self.flows[FlowKey::of_host(user.bits()).hash(self.seed) as usize % CROWDS]
    }

    fn is_one(&mut self, key: &FlowKey) -> bool {
        *self.count(key) > self.most
    }
}

/// Answer to a request for a record.
pub(crate) struct Made {
    pub(crate) slot: u32,
    /// The flow that had to go.
    pub(crate) evicted: bool,
}

impl Table {
    /// The order is kept to 2^11 units of [`Coarse`], 2.1 s: a busy flow is moved so seldom that it costs nothing.
    const GRAIN: u32 = 11;

    pub(crate) fn new(capacity: usize, users: UserRule, seed: u64) -> Self {
        // The largest power of two that leaves at most two buckets a flow.
        let buckets = 1usize << (2 * capacity).ilog2();
        Self {
            slots: Vec::with_capacity(capacity),
            hooks: Vec::with_capacity(capacity),
            chains: Chains::new(buckets),
            mask: buckets as u64 - 1,
            seed,
            free: NIL,
            live: 0,
            capacity,
            lists: [List::EMPTY; 2],
            crowds: Crowds::new(capacity, users, seed),
        }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    fn bucket(&self, key: &FlowKey) -> usize {
        (key.hash(self.seed) & self.mask) as usize
    }

    /// The slot of `key`; `None` if `key` has no slot.
    pub(crate) fn find(&self, key: &FlowKey) -> Option<u32> {
        self.find_in(self.bucket(key), key)
    }

    /// The slot of `key` in the bucket `bucket`, which is the key's; `None` if `key` has no slot.
    pub(crate) fn find_in(&self, bucket: usize, key: &FlowKey) -> Option<u32> {
        self.chains.find(&self.slots, bucket, |flow| flow.key == *key)
    }

    /// The key's bucket, fetched from memory from now on.
    pub(crate) fn expect(&self, key: &FlowKey) -> Expected {
        let bucket = self.bucket(key);
        self.chains.prefetch(bucket);
        Expected { bucket }
    }

    /// The slot the bucket names first.
    pub(crate) fn likely(&self, Expected { bucket }: Expected) -> Likely {
        Likely { bucket, slot: self.chains.head(bucket) }
    }

    /// Has the lines of the record that a packet changes fetched together, where the code that uses them would wait for
    /// one after the other.
    pub(crate) fn prefetch(&self, slot: u32) {
        if let Some(flow) = self.slots.get(slot as usize) {
            prefetch(&flow.key);
            prefetch(&flow.epoch);
            prefetch(&flow.round_trip);
        }
    }

    /// Has fetched what making room for the next new flow needs: of the next to go its bucket, by its key, which was
    /// fetched before; of the one after that, which is returned, its record.
    pub(crate) fn prefetch_least_needed(&self) -> Option<u32> {
        if self.free != NIL || self.slots.len() < self.capacity {
            return None;
        }
        let list = self.lists.iter().find(|list| !list.is_empty())?;
        let next = list.first()?;
        self.chains.prefetch(self.bucket(&self.slots[next as usize].key));
        let later = list.after(&self.hooks, next)?;
        self.prefetch(later);
        if let Some(after) = list.after(&self.hooks, later) {
            prefetch(&self.hooks[after as usize]);
        }
        Some(later)
    }

    /// Makes a record for a key that has none, in a free slot or in that of the flow that matters least. `gone` is
    /// told of that flow while its record still stands. `None` if every flow has packets waiting.
    #[inline(never)]
    pub(crate) fn make(
        &mut self,
        now: Instant,
        key: FlowKey,
        bucket: usize,
        config: &TrackerConfig,
        gone: impl FnOnce(&mut Self, u32),
    ) -> Option<Made> {
        let mut evicted = false;
        if self.free == NIL && self.slots.len() == self.capacity {
            let victim = self.least_needed()?;
            gone(self, victim);
            self.remove(victim);
            evicted = true;
        }
        let slot = if self.free == NIL {
            let slot = self.slots.len() as u32;
            self.slots.push(Flow::new(now, key, 0, config));
            self.hooks.push(Hooks::default());
            slot
        } else {
            let slot = self.free;
            let old = &self.slots[slot as usize];
            self.free = old.chain;
            let generation = old.generation.wrapping_add(1);
            self.slots[slot as usize] = Flow::new(now, key, generation, config);
            slot
        };
        self.chains.push(&mut self.slots, bucket, slot);
        *self.crowds.count(&key) += 1;
        self.live += 1;
        self.list(slot);
        Some(Made { slot, evicted })
    }

    /// Forgets a flow; the flow's slot is free afterwards.
    pub(crate) fn remove(&mut self, slot: u32) {
        self.unlist(slot);
        let key = self.slots[slot as usize].key;
        *self.crowds.count(&key) -= 1;
        let bucket = self.bucket(&key);
        self.chains.remove(&mut self.slots, bucket, slot);
        let flow = &mut self.slots[slot as usize];
        flow.flags.keep(0);
        flow.chain = self.free;
        self.free = slot;
        self.live -= 1;
    }

    /// The flow to evict: the longest unheard of the cheap, then of the proven, that has nothing waiting.
    fn least_needed(&mut self) -> Option<u32> {
        for list in 0..2 {
            while let Some(slot) = self.lists[list].first() {
                if self.slots[slot as usize].queued == 0 {
                    return Some(slot);
                }
                self.unlist(slot);
            }
        }
        None
    }

    /// Tells whether a flow is among the flows that are evicted last.
    pub(crate) fn is_dear(flow: &Flow) -> bool {
        flow.flags.has(FlowFlags::PROVEN) && !flow.flags.any(FlowFlags::CLOSED | FlowFlags::CROWD)
    }

    /// Whether a flow that was heard of now, and before that at `before`, has another place in line.
    #[inline]
    pub(crate) fn moves(flow: &Flow, before: Coarse) -> bool {
        flow.flags.has(FlowFlags::LISTED)
            && (before.0 >> Self::GRAIN != flow.seen.0 >> Self::GRAIN
                || Self::is_dear(flow) != flow.flags.has(FlowFlags::LIST_PROVEN))
    }

    /// Puts a flow that is in line last in line.
    pub(crate) fn relist(&mut self, slot: u32) {
        self.unlist(slot);
        self.list(slot);
    }

    /// Puts a flow last in the line for eviction, unless the flow is in line already.
    pub(crate) fn list(&mut self, slot: u32) {
        let flow = &mut self.slots[slot as usize];
        if flow.flags.has(FlowFlags::LISTED) {
            return;
        }
        flow.flags.put(FlowFlags::CROWD, self.crowds.is_one(&flow.key));
        let dear = Self::is_dear(flow);
        flow.flags.set(FlowFlags::LISTED);
        flow.flags.put(FlowFlags::LIST_PROVEN, dear);
        self.lists[usize::from(dear)].push_back(&mut self.hooks, slot);
    }

    fn unlist(&mut self, slot: u32) {
        let flow = &mut self.slots[slot as usize];
        if !flow.flags.take(FlowFlags::LISTED) {
            return;
        }
        let list = usize::from(flow.flags.has(FlowFlags::LIST_PROVEN));
        self.lists[list].remove(&mut self.hooks, slot);
    }

    /// The flows last heard of among the cheap and among the proven, at most `most` of each. `None` if some flow is in
    /// neither list.
    pub(crate) fn last_heard(&self, most: [usize; 2]) -> Option<Vec<FlowId>> {
        let listed: u32 = self.lists.iter().map(List::len).sum();
        if listed as usize != self.live {
            return None;
        }
        let last = |list: usize| self.lists[list].iter_back(&self.hooks).take(most[list]).map(FlowId);
        Some(last(0).chain(last(1)).collect())
    }

    /// Bytes of memory taken, index and all.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Flow>()
            + self.hooks.capacity() * size_of::<Hooks>()
            + self.chains.memory()
            + size_of_val(&*self.crowds.flows)
    }
}
