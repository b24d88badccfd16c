//! Singly linked queues, and a slab with any number of them.

use crate::{Arena, NIL, Slab, some};

/// A record with a word for whoever comes after it, in a [`Queue`] or in one of [`Chains`](crate::Chains).
pub trait Chained {
    /// Index of the record after this one; [`NIL`] for the last.
    fn next(&self) -> u32;
    /// Sets the index of the record after this one.
    fn set_next(&mut self, next: u32);
}

/// Says in which field a record has that word: `chained!(Flow: chain);`.
#[macro_export]
macro_rules! chained {
    (<$($generic:ident),*> $record:ty: $field:ident) => {
        impl<$($generic),*> $crate::Chained for $record {
            fn next(&self) -> u32 {
                self.$field
            }
            fn set_next(&mut self, next: u32) {
                self.$field = next;
            }
        }
    };
    ($record:ty: $field:ident) => {
        $crate::chained!(<> $record: $field);
    };
}

/// First in, first out: its ends. A record is in at most one queue.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    head: u32,
    tail: u32,
}

impl Queue {
    /// The empty queue.
    pub const EMPTY: Self = Self { head: NIL, tail: NIL };

    /// Whether nothing waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// First record of the queue.
    #[must_use]
    pub const fn first(&self) -> Option<u32> {
        some(self.head)
    }

    /// Appends `at`.
    #[inline]
    pub fn push_back(&mut self, arena: &mut (impl Arena<Item: Chained> + ?Sized), at: u32) {
        arena.at_mut(at).set_next(NIL);
        match self.tail {
            NIL => self.head = at,
            last => arena.at_mut(last).set_next(at),
        }
        self.tail = at;
    }

    /// Puts `at` before all others.
    #[inline]
    pub fn push_front(&mut self, arena: &mut (impl Arena<Item: Chained> + ?Sized), at: u32) {
        arena.at_mut(at).set_next(self.head);
        if self.head == NIL {
            self.tail = at;
        }
        self.head = at;
    }

    /// Takes the first out.
    #[inline]
    pub fn pop_front(&mut self, arena: &(impl Arena<Item: Chained> + ?Sized)) -> Option<u32> {
        let first = self.first()?;
        self.head = arena.at(first).next();
        if self.head == NIL {
            self.tail = NIL;
        }
        Some(first)
    }

    /// Takes out whoever comes after `at`, which is in this queue.
    pub fn remove_after(&mut self, arena: &mut (impl Arena<Item: Chained> + ?Sized), at: u32) -> Option<u32> {
        let gone = some(arena.at(at).next())?;
        let next = arena.at(gone).next();
        arena.at_mut(at).set_next(next);
        if self.tail == gone {
            self.tail = at;
        }
        Some(gone)
    }

    /// Index of the record after `at`, which is in this queue; `None` if `at` is the last.
    pub fn after(&self, arena: &(impl Arena<Item: Chained> + ?Sized), at: u32) -> Option<u32> {
        some(arena.at(at).next())
    }

    /// Everybody, from the first on.
    pub fn iter(&self, arena: &(impl Arena<Item: Chained> + ?Sized)) -> impl Iterator<Item = u32> {
        core::iter::successors(self.first(), move |&at| some(arena.at(at).next()))
    }
}

#[derive(Clone, Debug)]
struct Entry<T> {
    item: T,
    next: u32,
}

chained!(<T> Entry<T>: next);

/// Store of any number of queues in one slab: no allocation for an item, none for a queue.
#[derive(Clone, Debug)]
pub struct Fifos<T> {
    slab: Slab<Entry<T>>,
}

impl<T> Fifos<T> {
    /// Makes a store of queues in which nothing waits.
    #[must_use]
    pub const fn new() -> Self {
        Self { slab: Slab::new() }
    }

    /// Appends an item to a queue.
    #[inline]
    pub fn push_back(&mut self, queue: &mut Queue, item: T) {
        let at = self.slab.insert(Entry { item, next: NIL });
        queue.push_back(&mut self.slab, at);
    }

    /// Puts an item before all others of a queue.
    #[inline]
    pub fn push_front(&mut self, queue: &mut Queue, item: T) {
        let at = self.slab.insert(Entry { item, next: NIL });
        queue.push_front(&mut self.slab, at);
    }

    /// Takes the first item of a queue.
    #[inline]
    pub fn pop_front(&mut self, queue: &mut Queue) -> Option<T> {
        let at = queue.pop_front(&self.slab)?;
        Some(self.slab.remove(at).item)
    }

    /// Takes out the item after that at index `at`, which waits in this queue.
    pub fn remove_after(&mut self, queue: &mut Queue, at: u32) -> Option<T> {
        let gone = queue.remove_after(&mut self.slab, at)?;
        Some(self.slab.remove(gone).item)
    }

    /// The items of a queue from the front, with their indices.
    pub fn iter(&self, queue: &Queue) -> impl Iterator<Item = (u32, &T)> {
        queue.iter(&self.slab).map(|at| (at, &self.slab.at(at).item))
    }

    /// How many wait in all queues.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether nothing waits in any of them.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Places in memory, taken or free: the most that ever waited at once.
    #[must_use]
    pub const fn places(&self) -> usize {
        self.slab.places()
    }
}

impl<T> Default for Fifos<T> {
    fn default() -> Self {
        Self::new()
    }
}
