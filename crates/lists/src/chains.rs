//! The buckets of a hash index.

use crate::{Arena, Chained, NIL, some};

/// A chain of records for each bucket; who came last stands first.
#[derive(Clone, Debug)]
pub struct Chains {
    /// Index plus one, so that an empty table is all zero and costs no memory until it is used.
    heads: Vec<u32>,
}

impl Chains {
    /// Makes `buckets` empty buckets.
    #[must_use]
    pub fn new(buckets: usize) -> Self {
        Self { heads: vec![0; buckets] }
    }

    /// How many buckets there are.
    #[must_use]
    pub const fn buckets(&self) -> usize {
        self.heads.len()
    }

    /// Bytes of memory taken.
    #[must_use]
    pub const fn memory(&self) -> usize {
        self.heads.capacity() * size_of::<u32>()
    }

    /// The first record of a bucket; [`NIL`] if there is none.
    #[inline]
    #[must_use]
    pub fn head(&self, bucket: usize) -> u32 {
        self.heads[bucket].wrapping_sub(1)
    }

    /// Has a bucket fetched from memory, where somebody will soon ask for its first record.
    #[inline]
    pub fn prefetch(&self, bucket: usize) {
        crate::prefetch(&self.heads[bucket]);
    }

    /// The first record of a bucket of which `is` is true.
    #[inline]
    pub fn find<T: Chained>(
        &self,
        arena: &(impl Arena<Item = T> + ?Sized),
        bucket: usize,
        is: impl Fn(&T) -> bool,
    ) -> Option<u32> {
        let mut at = self.head(bucket);
        while at != NIL {
            let record = arena.at(at);
            if is(record) {
                break;
            }
            at = record.next();
        }
        some(at)
    }

    /// Puts a record first into a bucket.
    #[inline]
    pub fn push(&mut self, arena: &mut (impl Arena<Item: Chained> + ?Sized), bucket: usize, at: u32) {
        arena.at_mut(at).set_next(self.head(bucket));
        self.heads[bucket] = at.wrapping_add(1);
    }

    /// Takes a record out of its bucket, in which it must be.
    #[inline]
    pub fn remove(&mut self, arena: &mut (impl Arena<Item: Chained> + ?Sized), bucket: usize, at: u32) {
        let next = arena.at(at).next();
        let mut before = self.head(bucket);
        if before == at {
            self.heads[bucket] = next.wrapping_add(1);
            return;
        }
        while arena.at(before).next() != at {
            before = arena.at(before).next();
        }
        arena.at_mut(before).set_next(next);
    }
}
