//! A bounded table of pools (user addresses): a slab, an ordered index and three lists. The index is a tree, so there is no
//! choice of addresses that makes it slow.
//!
//! A pool stands in exactly one list: in the line if it waits, among the newcomers if it was admitted and has sent
//! nothing but SYNs, among the proven if it has. When the table is full the oldest newcomer goes first, so that a flood of
//! made-up addresses costs its own kind and not the people who are being served.

use core::net::{IpAddr, Ipv6Addr};
use std::collections::BTreeMap;

use narrows_units::Instant;

/// Names a pool; stays valid until the pool is forgotten, and is then recognised as stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolId {
    index: u32,
    generation: u32,
}

const NONE: u32 = u32::MAX;

impl PoolId {
    /// No pool at all.
    pub const NOBODY: Self = Self { index: NONE, generation: 0 };
}

/// The list a pool stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// Waits at the door, in the order of its first SYN.
    Line,
    /// Admitted, nothing seen of it but SYNs; least recently seen first.
    Newcomers,
    /// Admitted and seen to send or receive; least recently seen first.
    Proven,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
    len: usize,
}

/// What is known of a pool; `T` is what the owner keeps for it.
#[derive(Debug)]
pub(super) struct Pool<T> {
    pub(super) address: u128,
    /// When it was admitted, or began to wait.
    pub(super) since: Instant,
    /// When it was last seen.
    pub(super) seen: Instant,
    pub(super) data: T,
    list: List,
    generation: u32,
    prev: u32,
    next: u32,
}

/// Pools by address.
#[derive(Debug)]
pub(super) struct Pools<T> {
    slab: Vec<Pool<T>>,
    free: Vec<u32>,
    index: BTreeMap<u128, u32>,
    lists: [Ends; 3],
    capacity: usize,
}

impl<T: Default> Pools<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            slab: Vec::new(),
            free: Vec::new(),
            index: BTreeMap::new(),
            lists: [Ends { head: NONE, tail: NONE, len: 0 }; 3],
            capacity: capacity.max(1),
        }
    }

    pub(super) fn len(&self, list: List) -> usize {
        self.lists[list as usize].len
    }

    pub(super) fn is_full(&self) -> bool {
        self.slab.len() - self.free.len() >= self.capacity
    }

    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity.max(1);
    }

    pub(super) fn find(&self, address: IpAddr) -> Option<PoolId> {
        self.index.get(&bits(address)).map(|&i| self.id(i))
    }

    fn id(&self, index: u32) -> PoolId {
        PoolId { index, generation: self.slab[index as usize].generation }
    }

    pub(super) fn first(&self, list: List) -> Option<PoolId> {
        let head = self.lists[list as usize].head;
        (head != NONE).then(|| self.id(head))
    }

    /// The pool, if it is still the one that was meant.
    pub(super) fn get(&self, id: PoolId) -> Option<&Pool<T>> {
        self.slab.get(id.index as usize).filter(|p| p.generation == id.generation)
    }

    pub(super) fn get_mut(&mut self, id: PoolId) -> Option<&mut Pool<T>> {
        self.slab.get_mut(id.index as usize).filter(|p| p.generation == id.generation)
    }

    pub(super) fn list_of(&self, id: PoolId) -> Option<List> {
        self.get(id).map(|p| p.list)
    }

    /// A new pool at the end of `list`. The caller has looked that there is room and no such pool.
    pub(super) fn insert(&mut self, now: Instant, address: IpAddr, list: List) -> PoolId {
        let address = bits(address);
        let fresh = |generation| Pool {
            address,
            since: now,
            seen: now,
            data: T::default(),
            list,
            generation,
            prev: NONE,
            next: NONE,
        };
        let index = match self.free.pop() {
            Some(i) => {
                let slot = &mut self.slab[i as usize];
                *slot = fresh(slot.generation.wrapping_add(1));
                i
            }
            None => {
                self.slab.push(fresh(0));
                u32::try_from(self.slab.len() - 1).unwrap_or(NONE)
            }
        };
        self.index.insert(address, index);
        self.link(index, list);
        self.id(index)
    }

    /// Moves the pool to the end of `list`.
    pub(super) fn move_to(&mut self, id: PoolId, list: List) {
        if self.get(id).is_some() {
            self.unlink(id.index);
            self.link(id.index, list);
        }
    }

    /// Forgets the pool and returns what was kept for it.
    pub(super) fn remove(&mut self, id: PoolId) -> Option<T> {
        let address = self.get(id)?.address;
        self.unlink(id.index);
        self.index.remove(&address);
        self.free.push(id.index);
        let slot = &mut self.slab[id.index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        Some(core::mem::take(&mut slot.data))
    }

    /// The pools of a list in order.
    pub(super) fn iter(&self, list: List) -> impl Iterator<Item = &Pool<T>> {
        let mut at = self.lists[list as usize].head;
        core::iter::from_fn(move || {
            let pool = self.slab.get(at as usize)?;
            at = pool.next;
            Some(pool)
        })
    }

    fn link(&mut self, index: u32, list: List) {
        let ends = &mut self.lists[list as usize];
        let tail = core::mem::replace(&mut ends.tail, index);
        ends.len += 1;
        if tail == NONE {
            ends.head = index;
        } else {
            self.slab[tail as usize].next = index;
        }
        let pool = &mut self.slab[index as usize];
        (pool.list, pool.prev, pool.next) = (list, tail, NONE);
    }

    fn unlink(&mut self, index: u32) {
        let pool = &self.slab[index as usize];
        let (prev, next, list) = (pool.prev, pool.next, pool.list);
        let ends = &mut self.lists[list as usize];
        ends.len -= 1;
        if prev == NONE {
            ends.head = next;
        } else {
            self.slab[prev as usize].next = next;
        }
        if next == NONE {
            self.lists[list as usize].tail = prev;
        } else {
            self.slab[next as usize].prev = prev;
        }
    }
}

/// An address as 128 bits, IPv4 mapped into IPv6.
pub(super) fn bits(address: IpAddr) -> u128 {
    let v6 = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    u128::from(v6)
}

/// And back.
pub(super) fn address(bits: u128) -> IpAddr {
    let v6 = Ipv6Addr::from(bits);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(n: u8) -> IpAddr {
        [10, 0, 0, n].into()
    }

    #[test]
    fn pools_move_between_lists_and_leave_no_trace() {
        let mut p: Pools<u8> = Pools::new(2);
        let a = p.insert(Instant::ZERO, ip(1), List::Line);
        let b = p.insert(Instant::ZERO, ip(2), List::Line);
        assert!(p.is_full() && p.find(ip(1)) == Some(a) && p.first(List::Line) == Some(a));
        p.move_to(a, List::Proven);
        assert_eq!((p.len(List::Line), p.len(List::Proven)), (1, 1));
        assert_eq!(p.remove(b), Some(0));
        assert!(p.get(b).is_none() && p.find(ip(2)).is_none() && p.first(List::Line).is_none());
        let c = p.insert(Instant::ZERO, ip(3), List::Newcomers);
        assert!(p.get(b).is_none(), "the slot is used again, the old name is not");
        assert_eq!(p.iter(List::Newcomers).map(|q| address(q.address)).collect::<Vec<_>>(), [ip(3)]);
        assert_eq!(p.list_of(c), Some(List::Newcomers));
    }
}
