//! Flows grouped by the address of the user who opened them: a bounded map from address to whatever the policy keeps.
//!
//! Source: TAQ (EuroSys 2014), section 4.3: the flows of one user that begin within a few seconds form a pool, and are
//! admitted or held as one. The policy is not here.

use core::net::IpAddr;

use narrows_lists::{Arena as _, Chains, Links, List, NIL, Slab, chained, linked};
use narrows_units::{Duration, Instant};
use narrows_wire::{FlowKey, Proto};

/// One pool.
#[derive(Clone, Debug)]
pub struct Pool<T> {
    address: IpAddr,
    started: Instant,
    seen: Instant,
    age: Links,
    chain: u32,
    /// Data that the policy keeps for the pool.
    pub state: T,
}

linked!(<T> Pool<T>, (): age);

chained!(<T> Pool<T>: chain);

impl<T> Pool<T> {
    /// The user's address.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }
    /// Time at which the pool was made.
    #[must_use]
    pub const fn started(&self) -> Instant {
        self.started
    }
    /// Time at which the pool was made, or last asked for by [`Pools::refresh`].
    #[must_use]
    pub const fn seen(&self) -> Instant {
        self.seen
    }
    /// Whether a flow that begins now still belongs to the pool.
    #[must_use]
    pub const fn joins(&self, now: Instant, within: Duration) -> bool {
        now.since(self.started).as_nanos() < within.as_nanos()
    }
}

/// Result of [`Pools::insert`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inserted<T> {
    /// The pool was made, and there was room for the pool.
    Room,
    /// The address had a pool, which began anew; the value is the old pool's state.
    Replaced(T),
    /// The pool of the address given was evicted for the new one; the value is the old pool's state.
    Evicted(IpAddr, T),
    /// The pool was not made: none might be evicted for it. The state comes back.
    Full(T),
}

/// Pools by address, in the order in which they were made. All operations take constant time on average, except where
/// they say otherwise.
#[derive(Clone, Debug)]
pub struct Pools<T> {
    slots: Slab<Pool<T>>,
    chains: Chains,
    seed: u64,
    capacity: usize,
    /// The oldest first.
    order: List,
}

/// Number of the oldest pools that are asked whether the pool may be evicted.
const EVICTION_LOOKS: usize = 64;

impl<T> Pools<T> {
    /// Room for `capacity` pools, 1 to 2^24.
    #[must_use]
    pub fn new(capacity: usize, seed: u64) -> Self {
        let capacity = capacity.clamp(1, 1 << 24);
        Self {
            slots: Slab::new(),
            chains: Chains::new(capacity.next_power_of_two()),
            seed,
            capacity,
            order: List::EMPTY,
        }
    }

    /// Pools known.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slots.len()
    }
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Most pools at a time.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// The pool of an address.
    #[must_use]
    pub fn get(&self, address: IpAddr) -> Option<&Pool<T>> {
        self.slots.get(self.find(address)?)
    }
    /// The pool of an address, to change the pool's state.
    pub fn get_mut(&mut self, address: IpAddr) -> Option<&mut Pool<T>> {
        let slot = self.find(address)?;
        self.slots.get_mut(slot)
    }
    /// The pool of an address, to change its state; notes `now` as the time of its last use.
    pub fn refresh(&mut self, now: Instant, address: IpAddr) -> Option<&mut Pool<T>> {
        let pool = self.get_mut(address)?;
        pool.seen = now;
        Some(pool)
    }

    /// Makes a pool that starts now. If there is no room, the one made first of those that `idle` allows is evicted; at
    /// most the 64 made first are asked.
    pub fn insert(
        &mut self,
        now: Instant,
        address: IpAddr,
        state: T,
        idle: impl FnMut(&Pool<T>) -> bool,
    ) -> Inserted<T> {
        let mut result = Inserted::Room;
        if let Some(old) = self.remove(address) {
            result = Inserted::Replaced(old);
        } else if self.len() == self.capacity {
            let Some(victim) = self.victim(idle) else { return Inserted::Full(state) };
            if let Some(old) = self.remove(victim) {
                result = Inserted::Evicted(victim, old);
            }
        }
        let bucket = self.bucket(address);
        let pool = Pool { address, started: now, seen: now, age: Links::NONE, chain: NIL, state };
        let slot = self.slots.insert(pool);
        self.chains.push(&mut self.slots, bucket, slot);
        self.order.push_back(&mut self.slots, slot);
        result
    }

    /// Forgets a pool.
    pub fn remove(&mut self, address: IpAddr) -> Option<T> {
        let slot = self.find(address)?;
        let bucket = self.bucket(address);
        self.chains.remove(&mut self.slots, bucket, slot);
        self.order.remove(&mut self.slots, slot);
        Some(self.slots.remove(slot).state)
    }

    /// All pools, the one made first first.
    pub fn iter(&self) -> impl Iterator<Item = &Pool<T>> {
        self.order.iter(&self.slots).map(|slot| self.slots.at(slot))
    }

    fn victim(&self, mut idle: impl FnMut(&Pool<T>) -> bool) -> Option<IpAddr> {
        self.iter().take(EVICTION_LOOKS).find(|p| idle(p)).map(|p| p.address)
    }

    fn find(&self, address: IpAddr) -> Option<u32> {
        self.chains.find(&self.slots, self.bucket(address), |pool| pool.address == address)
    }

    fn bucket(&self, address: IpAddr) -> usize {
        // The hash of flows, of a flow from the address to itself.
        let hash = FlowKey::new(address, address, 0, 0, Proto(0)).hash(self.seed);
        hash as usize & (self.chains.buckets() - 1)
    }
}
