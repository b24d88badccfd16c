//! Doubly linked lists.

use core::marker::PhantomData;

use crate::{Arena, NIL, some};

/// A record's neighbours in one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    prev: u32,
    next: u32,
}

impl Links {
    /// Links of a record that is in no list.
    pub const NONE: Self = Self { prev: NIL, next: NIL };

    /// Index of the record after this one; `None` for the last one and for a record in no list.
    #[must_use]
    pub const fn next(&self) -> Option<u32> {
        some(self.next)
    }
}

impl Default for Links {
    fn default() -> Self {
        Self::NONE
    }
}

/// A record that can be in a list by `By`.
pub trait Linked<By> {
    /// Links of the record to its neighbours in the list by `By`.
    fn links(&self) -> &Links;
    /// Links of the record in the list by `By`, to change them.
    fn links_mut(&mut self) -> &mut Links;
}

/// Says in which field a record has the links of its lists by `By`: `linked!(Flow, Turn: turn);`, with a type parameter
/// of the record `linked!(<P> Packet<P>, Turn: turn);`. A field of a field is named as `queue.turn`.
#[macro_export]
macro_rules! linked {
    (<$($generic:ident),*> $record:ty, $by:ty: $($field:ident).+) => {
        impl<$($generic),*> $crate::Linked<$by> for $record {
            fn links(&self) -> &$crate::Links {
                &self.$($field).+
            }
            fn links_mut(&mut self) -> &mut $crate::Links {
                &mut self.$($field).+
            }
        }
    };
    ($record:ty, $by:ty: $($field:ident).+) => {
        $crate::linked!(<> $record, $by: $($field).+);
    };
}

/// Bare links, kept beside the records, are for whatever list they are used with.
impl<By> Linked<By> for Links {
    fn links(&self) -> &Links {
        self
    }
    fn links_mut(&mut self) -> &mut Links {
        self
    }
}

/// A list: its ends and its length. A record is in at most one list by the same links.
pub struct List<By = ()> {
    head: u32,
    tail: u32,
    len: u32,
    by: PhantomData<By>,
}

impl<By> List<By> {
    /// The empty list.
    pub const EMPTY: Self = Self { head: NIL, tail: NIL, len: 0, by: PhantomData };

    /// Whether the list has no member.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// Number of records in the list.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// First record of the list.
    #[must_use]
    pub const fn first(&self) -> Option<u32> {
        some(self.head)
    }

    /// Last record of the list.
    #[must_use]
    pub const fn last(&self) -> Option<u32> {
        some(self.tail)
    }

    /// Appends `at`, which is in no list by these links.
    #[inline]
    pub fn push_back(&mut self, arena: &mut (impl Arena<Item: Linked<By>> + ?Sized), at: u32) {
        *arena.at_mut(at).links_mut() = Links { prev: self.tail, next: NIL };
        match self.tail {
            NIL => self.head = at,
            last => arena.at_mut(last).links_mut().next = at,
        }
        self.tail = at;
        self.len += 1;
    }

    /// Puts `at`, which is in no list by these links, before all others.
    #[inline]
    pub fn push_front(&mut self, arena: &mut (impl Arena<Item: Linked<By>> + ?Sized), at: u32) {
        *arena.at_mut(at).links_mut() = Links { prev: NIL, next: self.head };
        match self.head {
            NIL => self.tail = at,
            first => arena.at_mut(first).links_mut().prev = at,
        }
        self.head = at;
        self.len += 1;
    }

    /// Takes `at` out; it must be in this list.
    #[inline]
    pub fn remove(&mut self, arena: &mut (impl Arena<Item: Linked<By>> + ?Sized), at: u32) {
        let Links { prev, next } = *arena.at(at).links();
        match prev {
            NIL => self.head = next,
            prev => arena.at_mut(prev).links_mut().next = next,
        }
        match next {
            NIL => self.tail = prev,
            next => arena.at_mut(next).links_mut().prev = prev,
        }
        self.len -= 1;
    }

    /// Takes the first out.
    #[inline]
    pub fn pop_front(&mut self, arena: &mut (impl Arena<Item: Linked<By>> + ?Sized)) -> Option<u32> {
        let first = self.first()?;
        self.remove(arena, first);
        Some(first)
    }

    /// Takes `at`, which must be in this list, to its end.
    #[inline]
    pub fn move_to_back(&mut self, arena: &mut (impl Arena<Item: Linked<By>> + ?Sized), at: u32) {
        self.remove(arena, at);
        self.push_back(arena, at);
    }

    /// Index of the record after `at`, which is in this list; `None` if `at` is the last.
    pub fn after(&self, arena: &(impl Arena<Item: Linked<By>> + ?Sized), at: u32) -> Option<u32> {
        some(arena.at(at).links().next)
    }

    /// Index of the record before `at`, which is in this list; `None` if `at` is the first.
    pub fn before(&self, arena: &(impl Arena<Item: Linked<By>> + ?Sized), at: u32) -> Option<u32> {
        some(arena.at(at).links().prev)
    }

    /// Everybody, from the first on.
    pub fn iter(&self, arena: &(impl Arena<Item: Linked<By>> + ?Sized)) -> impl Iterator<Item = u32> {
        core::iter::successors(self.first(), move |&at| some(arena.at(at).links().next))
    }

    /// Everybody, from the last on.
    pub fn iter_back(&self, arena: &(impl Arena<Item: Linked<By>> + ?Sized)) -> impl Iterator<Item = u32> {
        core::iter::successors(self.last(), move |&at| some(arena.at(at).links().prev))
    }
}

// By hand, because `derive` would ask the same of `By`, which is only a name.
impl<By> Clone for List<By> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<By> Copy for List<By> {}
impl<By> Default for List<By> {
    fn default() -> Self {
        Self::EMPTY
    }
}
impl<By> core::fmt::Debug for List<By> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "List({}..{}, {})", self.head, self.tail, self.len)
    }
}

/// A list that knows only its first record: half the memory, for tables of lists (`hlist` in Linux).
pub struct HeadList<By = ()> {
    head: u32,
    by: PhantomData<By>,
}

impl<By> HeadList<By> {
    /// The empty list.
    pub const EMPTY: Self = Self { head: NIL, by: PhantomData };

    /// Whether the list has no member.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// First record of the list.
    #[must_use]
    pub const fn first(&self) -> Option<u32> {
        some(self.head)
    }

    /// Puts `at`, which is in no list by these links, before all others.
    #[inline]
    pub fn push_front(&mut self, arena: &mut (impl Arena<Item: Linked<By>> + ?Sized), at: u32) {
        *arena.at_mut(at).links_mut() = Links { prev: NIL, next: self.head };
        if self.head != NIL {
            arena.at_mut(self.head).links_mut().prev = at;
        }
        self.head = at;
    }

    /// Takes `at` out; it must be in this list.
    #[inline]
    pub fn remove(&mut self, arena: &mut (impl Arena<Item: Linked<By>> + ?Sized), at: u32) {
        let Links { prev, next } = *arena.at(at).links();
        match prev {
            NIL => self.head = next,
            prev => arena.at_mut(prev).links_mut().next = next,
        }
        if next != NIL {
            arena.at_mut(next).links_mut().prev = prev;
        }
    }
}

impl<By> Clone for HeadList<By> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<By> Copy for HeadList<By> {}
impl<By> core::fmt::Debug for HeadList<By> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "HeadList({}..)", self.head)
    }
}
