//! Records in one vector, whose places are used again.

use crate::{Arena, NIL};

#[derive(Clone, Debug)]
enum Cell<T> {
    /// Place without a record, with the index of the next free place.
    Free(u32),
    Used(T),
}

/// A slab: the place freed last is used first, while it is still in a near cache.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    cells: Vec<Cell<T>>,
    free: u32,
    len: usize,
}

impl<T> Slab<T> {
    /// Bytes that a record takes. No more than the record has, if it has a value that is none of its own.
    pub const BYTES_EACH: usize = size_of::<Cell<T>>();

    /// Makes a slab without records.
    #[must_use]
    pub const fn new() -> Self {
        Self { cells: Vec::new(), free: NIL, len: 0 }
    }

    /// How many records there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Places in memory, taken or free: the most records there ever were at once.
    #[must_use]
    pub const fn places(&self) -> usize {
        self.cells.len()
    }

    /// Adds a record and returns its index. A slab holds fewer than 2^32 of them: limits of packets and flows are far
    /// lower.
    #[inline]
    pub fn insert(&mut self, item: T) -> u32 {
        self.len += 1;
        let at = self.free;
        let Some(cell) = self.cells.get_mut(at as usize) else {
            self.cells.push(Cell::Used(item));
            return u32::try_from(self.cells.len() - 1).unwrap_or(NIL);
        };
        if let Cell::Free(next) = *cell {
            self.free = next;
        }
        *cell = Cell::Used(item);
        at
    }

    /// Takes a record out. The index must be in use.
    #[inline]
    pub fn remove(&mut self, at: u32) -> T {
        match core::mem::replace(&mut self.cells[at as usize], Cell::Free(self.free)) {
            Cell::Used(item) => {
                self.free = at;
                self.len -= 1;
                item
            }
            Cell::Free(_) => unused(at),
        }
    }

    /// Has a record fetched from memory, where somebody will soon ask for it.
    #[inline]
    pub fn prefetch(&self, at: u32) {
        if let Some(cell) = self.cells.get(at as usize) {
            crate::prefetch(cell);
        }
    }

    /// The record at an index, if it is in use.
    #[inline]
    pub fn get(&self, at: u32) -> Option<&T> {
        match self.cells.get(at as usize) {
            Some(Cell::Used(item)) => Some(item),
            _ => None,
        }
    }

    /// The record at an index, if it is in use, to change it.
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        match self.cells.get_mut(at as usize) {
            Some(Cell::Used(item)) => Some(item),
            _ => None,
        }
    }
}

impl<T> Arena for Slab<T> {
    type Item = T;

    #[inline]
    fn at(&self, index: u32) -> &T {
        match &self.cells[index as usize] {
            Cell::Used(item) => item,
            Cell::Free(_) => unused(index),
        }
    }

    #[inline]
    fn at_mut(&mut self, index: u32) -> &mut T {
        match &mut self.cells[index as usize] {
            Cell::Used(item) => item,
            Cell::Free(_) => unused(index),
        }
    }
}

#[cold]
fn unused(at: u32) -> ! {
    panic!("no record at {at}: lists hold only records in use");
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}
