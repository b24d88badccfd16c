//! Intrusive lists, queues and a slab over 32-bit indices. What waits in a box is counted in packets and flows, and
//! each is in several orders at once (its flow's, its class's, by age, by length); none of them allocates per packet.
//!
//! - [`List`]: doubly linked; anybody leaves from anywhere in constant time. [`HeadList`]: the same without an end.
//! - [`Queue`]: singly linked, first in, first out.
//! - [`Chains`]: the buckets of a hash index, each a singly linked chain of records.
//! - [`Slab`]: records in one vector, whose places are used again. [`Fifos`]: a slab with any number of queues through
//!   it.
//!
//! A list keeps only its ends. The links are in the records ([`Linked`], [`Chained`]), which live in an [`Arena`]: a
//! vector of the caller's own records, a vector of bare [`Links`] beside them, or a [`Slab`]. A record with two pairs
//! of links can be in two lists; a type parameter says which list goes by which pair, so that they cannot be mistaken:
//!
//! ```
//! use narrows_lists::{Links, List, linked};
//!
//! #[derive(Default)]
//! struct Flow {
//!     bytes: u64,
//!     turn: Links,
//! }
//! enum Turn {}
//! linked!(Flow, Turn: turn);
//!
//! let mut flows = vec![Flow::default(), Flow::default()];
//! let mut round = List::<Turn>::EMPTY;
//! round.push_back(&mut flows, 1);
//! round.push_back(&mut flows, 0);
//! round.move_to_back(&mut flows, 1);
//! assert_eq!(round.iter(&flows).collect::<Vec<_>>(), [0, 1]);
//! ```

#![forbid(unsafe_code)]

mod chains;
mod list;
mod queue;
mod slab;

pub use chains::Chains;
pub use list::{HeadList, Linked, Links, List};
pub use queue::{Chained, Fifos, Queue};
pub use slab::Slab;

/// Index of no record.
pub const NIL: u32 = u32::MAX;

/// Where records are found by index. An index that is not in use is a broken invariant, and panics.
pub trait Arena {
    /// A record.
    type Item;
    /// The record at an index.
    fn at(&self, index: u32) -> &Self::Item;
    /// The record at an index, to change it.
    fn at_mut(&mut self, index: u32) -> &mut Self::Item;
}

impl<T> Arena for [T] {
    type Item = T;
    fn at(&self, index: u32) -> &T {
        &self[index as usize]
    }
    fn at_mut(&mut self, index: u32) -> &mut T {
        &mut self[index as usize]
    }
}

impl<T> Arena for Vec<T> {
    type Item = T;
    fn at(&self, index: u32) -> &T {
        &self[index as usize]
    }
    fn at_mut(&mut self, index: u32) -> &mut T {
        &mut self[index as usize]
    }
}

/// Has the cache line in which `value` begins fetched from memory, should it not be there. Nothing waits for it, and
/// nothing but speed depends on it.
#[inline]
pub fn prefetch<T>(value: &T) {
    prefetch_index::prefetch_index(core::slice::from_ref(value), 0);
}

/// An index, unless it is [`NIL`].
const fn some(index: u32) -> Option<u32> {
    if index == NIL { None } else { Some(index) }
}

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
