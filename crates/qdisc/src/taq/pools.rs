//! A bounded table of pools (users): a slab, an ordered index and three lists. The index is a tree, so there
//! is no choice of addresses that makes it slow.
//!
//! A pool stands in exactly one list: those who wait, those who were admitted and have sent nothing but SYNs, those who
//! were admitted and have sent more. When the table is full the oldest unproven pool goes first, so that a flood of
//! made-up addresses costs its own kind and not the people who are being served.

use std::collections::BTreeMap;

use narrows_lists::{Arena as _, Links, List as Ends, NIL, Slab, linked};
use narrows_units::Instant;
use narrows_users::User;

/// Names a pool; stays valid until the pool is forgotten, and is then recognised as stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolId {
    index: u32,
    generation: u32,
}

impl PoolId {
    /// No pool at all.
    pub const NOBODY: Self = Self { index: NIL, generation: 0 };
}

/// The list a pool stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// The wait queue, in the order of first SYNs.
    Waiting,
    /// Admitted pools of which only SYNs were seen; least recently seen first.
    Unproven,
    /// Admitted and seen to send or receive; least recently seen first.
    Proven,
}

/// Record of a pool; `T` is the part that the owner keeps for the pool.
#[derive(Debug)]
pub(super) struct PoolRecord<T> {
    pub(super) user: User,
    /// Time at which the pool was admitted, or began to wait.
    pub(super) since: Instant,
    /// Time at which the pool was last seen.
    pub(super) seen: Instant,
    pub(super) data: T,
    list: List,
    generation: u32,
    links: Links,
}

linked!(<T> PoolRecord<T>, (): links);

/// Pools by address.
#[derive(Debug)]
pub(super) struct Pools<T> {
    slab: Slab<PoolRecord<T>>,
    /// Pools ever made: the next one's generation.
    made: u32,
    index: BTreeMap<User, u32>,
    lists: [Ends; 3],
    capacity: usize,
}

impl<T: Default> Pools<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            slab: Slab::new(),
            made: 0,
            index: BTreeMap::new(),
            lists: [Ends::EMPTY; 3],
            capacity: capacity.max(1),
        }
    }

    pub(super) fn len(&self, list: List) -> usize {
        self.lists[list as usize].len() as usize
    }

    pub(super) fn is_full(&self) -> bool {
        self.slab.len() >= self.capacity
    }

    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity.max(1);
    }

    pub(super) fn find(&self, user: User) -> Option<PoolId> {
        self.index.get(&user).map(|&i| self.id(i))
    }

    fn id(&self, index: u32) -> PoolId {
        PoolId { index, generation: self.slab.at(index).generation }
    }

    pub(super) fn first(&self, list: List) -> Option<PoolId> {
        self.lists[list as usize].first().map(|first| self.id(first))
    }

    /// The pool with `id`; `None` if the pool is gone.
    pub(super) fn get(&self, id: PoolId) -> Option<&PoolRecord<T>> {
        self.slab.get(id.index).filter(|p| p.generation == id.generation)
    }

    pub(super) fn get_mut(&mut self, id: PoolId) -> Option<&mut PoolRecord<T>> {
        self.slab.get_mut(id.index).filter(|p| p.generation == id.generation)
    }

    pub(super) fn list_of(&self, id: PoolId) -> Option<List> {
        self.get(id).map(|p| p.list)
    }

    /// A new pool at the end of `list`. The caller has looked that there is room and no such pool.
    pub(super) fn insert(&mut self, now: Instant, user: User, list: List) -> PoolId {
        let generation = self.made;
        self.made = self.made.wrapping_add(1);
        let (data, links) = (T::default(), Links::NONE);
        let pool = PoolRecord { user, since: now, seen: now, data, list, generation, links };
        let index = self.slab.insert(pool);
        self.index.insert(user, index);
        self.lists[list as usize].push_back(&mut self.slab, index);
        self.id(index)
    }

    /// Moves the pool to the end of `list`.
    pub(super) fn move_to(&mut self, id: PoolId, list: List) {
        if let Some(pool) = self.get_mut(id) {
            let before = core::mem::replace(&mut pool.list, list);
            self.lists[before as usize].remove(&mut self.slab, id.index);
            self.lists[list as usize].push_back(&mut self.slab, id.index);
        }
    }

    /// Forgets the pool and returns the data kept for the pool.
    pub(super) fn remove(&mut self, id: PoolId) -> Option<T> {
        let list = self.get(id)?.list;
        self.lists[list as usize].remove(&mut self.slab, id.index);
        let pool = self.slab.remove(id.index);
        self.index.remove(&pool.user);
        Some(pool.data)
    }

    /// The pools of a list in order.
    pub(super) fn iter(&self, list: List) -> impl Iterator<Item = &PoolRecord<T>> {
        self.lists[list as usize].iter(&self.slab).map(|at| self.slab.at(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(n: u8) -> User {
        User::of([10, 0, 0, n].into(), 128)
    }

    #[test]
    fn pools_move_between_lists_and_leave_no_trace() {
        let mut p: Pools<u8> = Pools::new(2);
        let a = p.insert(Instant::ZERO, ip(1), List::Waiting);
        let b = p.insert(Instant::ZERO, ip(2), List::Waiting);
        assert!(p.is_full() && p.find(ip(1)) == Some(a) && p.first(List::Waiting) == Some(a));
        p.move_to(a, List::Proven);
        assert_eq!((p.len(List::Waiting), p.len(List::Proven)), (1, 1));
        assert_eq!(p.remove(b), Some(0));
        assert!(p.get(b).is_none() && p.find(ip(2)).is_none() && p.first(List::Waiting).is_none());
        let c = p.insert(Instant::ZERO, ip(3), List::Unproven);
        assert!(p.get(b).is_none(), "the slot is used again, the old name is not");
        assert_eq!(p.iter(List::Unproven).map(|q| q.user).collect::<Vec<_>>(), [ip(3)]);
        assert_eq!(p.list_of(c), Some(List::Unproven));
    }
}
