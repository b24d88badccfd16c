//! Packets in the order of their times, where the capture has them unordered: several queues of an interface, several
//! interfaces, or files one behind the other.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use narrows_units::Instant;

/// A packet that waits: its time, its place in the capture, and what it is.
#[derive(Clone, Copy, Debug)]
struct Held<T> {
    at: Instant,
    nth: u64,
    packet: T,
}

/// Order of the heap: packets that came late are compared by time and place alone.
impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.nth) == (other.at, other.nth)
    }
}
impl<T> Eq for Held<T> {}
impl<T> PartialOrd for Held<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Held<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.nth).cmp(&(other.at, other.nth))
    }
}

/// Holds back packets and gives the earliest of them. Those that come in order wait in a queue, those that came too
/// late in a heap, so that lateness costs what comes late alone.
#[derive(Clone, Debug)]
pub struct Ordered<T> {
    queue: VecDeque<Held<T>>,
    late: BinaryHeap<Reverse<Held<T>>>,
    most: usize,
    nth: u64,
    /// Latest time of the packets that came, and of the packets that were given.
    latest: Instant,
    given: Instant,
    moved: u64,
    too_late: u64,
}

impl<T> Ordered<T> {
    /// Puts in order what is at most `most` packets too late.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            queue: VecDeque::with_capacity(most + 1),
            late: BinaryHeap::new(),
            most,
            nth: 0,
            latest: Instant::ZERO,
            given: Instant::ZERO,
            moved: 0,
            too_late: 0,
        }
    }

    /// Holds back `most` packets from now on, or as many as before if that is more.
    pub fn hold(&mut self, most: usize) {
        self.most = self.most.max(most);
    }

    /// Takes a packet, and gives the earliest if there are more than are held back. Equal times keep their order.
    #[inline]
    pub fn push(&mut self, at: Instant, packet: T) -> Option<(Instant, T)> {
        let held = Held { at, nth: self.nth, packet };
        self.nth += 1;
        if at >= self.latest {
            self.latest = at;
            self.queue.push_back(held);
        } else {
            self.moved += 1;
            self.too_late += u64::from(at < self.given);
            self.late.push(Reverse(held));
        }
        if self.queue.len() + self.late.len() > self.most { self.pop() } else { None }
    }

    /// Gives the earliest that is held. One that came too late even for that is given at the time of the last.
    #[inline]
    pub fn pop(&mut self) -> Option<(Instant, T)> {
        if !self.late.is_empty() {
            return self.pop_of_both();
        }
        let Held { at, packet, .. } = self.queue.pop_front()?;
        self.given = at;
        Some((at, packet))
    }

    #[cold]
    fn pop_of_both(&mut self) -> Option<(Instant, T)> {
        let Reverse(late) = self.late.peek()?;
        let late = self.queue.front().is_none_or(|first| late < first);
        let Held { at, packet, .. } = if late { self.late.pop()?.0 } else { self.queue.pop_front()? };
        self.given = self.given.max(at);
        Some((self.given, packet))
    }

    /// Packets held back, those in order before those that came late.
    pub fn held(&self) -> impl Iterator<Item = &T> {
        self.queue.iter().map(|h| &h.packet).chain(self.late.iter().map(|Reverse(h)| &h.packet))
    }

    /// Number of packets that were out of order.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Number of packets that came too late to be put in order.
    #[must_use]
    pub fn too_late(&self) -> u64 {
        self.too_late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_packets_are_moved_and_equal_ones_are_not() {
        let mut o = Ordered::new(2);
        let mut out = Vec::new();
        for (at, name) in [(1, 'a'), (5, 'b'), (3, 'c'), (5, 'd'), (2, 'e')] {
            out.extend(o.push(Instant::from_nanos(at), name));
        }
        out.extend(core::iter::from_fn(|| o.pop()));
        let names: String = out.iter().map(|(_, n)| n).collect();
        // The last comes three packets too late for two that are held: it is given when it comes.
        assert_eq!((names.as_str(), o.moved(), o.too_late()), ("acebd", 2, 1));
        assert_eq!(out[2].0, Instant::from_nanos(3), "time never goes back");
    }

    #[test]
    fn a_block_of_late_ones_is_merged() {
        // Two queues of a card, of which the second is written behind the first.
        let mut o = Ordered::new(100);
        let mut out = Vec::new();
        for at in (0..50).map(|n| n * 2).chain((0..50).map(|n| n * 2 + 1)) {
            out.extend(o.push(Instant::from_nanos(at), at));
        }
        out.extend(core::iter::from_fn(|| o.pop()));
        assert!(out.iter().map(|(_, n)| *n).eq(0..100));
        // The last comes when it should.
        assert_eq!((o.moved(), o.too_late()), (49, 0));
    }
}
