//! Packets in the order of their times, where the capture has them unordered by a little: several queues of an
//! interface, or several interfaces.

use std::collections::VecDeque;

use narrows_units::Instant;

/// Holds back a few packets and gives the earliest of them.
#[derive(Clone, Debug)]
pub struct Ordered<T> {
    held: VecDeque<(Instant, T)>,
    most: usize,
    moved: u64,
}

impl<T> Ordered<T> {
    /// Puts in order what is at most `most` packets too late.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { held: VecDeque::with_capacity(most + 1), most, moved: 0 }
    }

    /// Takes a packet, and gives the earliest if there are more than are held back. Equal times keep their order.
    pub fn push(&mut self, at: Instant, packet: T) -> Option<(Instant, T)> {
        self.held.push_back((at, packet));
        let mut place = self.held.len() - 1;
        self.moved += u64::from(place > 0 && self.held[place - 1].0 > at);
        while place > 0 && self.held[place - 1].0 > at {
            self.held.swap(place - 1, place);
            place -= 1;
        }
        if self.held.len() > self.most { self.held.pop_front() } else { None }
    }

    /// Gives the earliest that is held.
    pub fn pop(&mut self) -> Option<(Instant, T)> {
        self.held.pop_front()
    }

    /// Number of packets that were out of order.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.moved
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
        // The last comes three packets too late for two that are held.
        assert_eq!((names.as_str(), o.moved()), ("acebd", 2));
    }
}
