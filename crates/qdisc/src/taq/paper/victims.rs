//! Victim of a queue: a packet whose loss has the cheapest consequence for its sender ([`NextState`]), and of those
//! one of the flow that sends most for its fair share; of equals the newest.
//!
//! Packets stand in buckets by next state and by the logarithm of rate over share (four steps an octave), so that the
//! choice costs the same among ten as among fifty thousand. Among the packets at the end of the first bucket the exact
//! figures decide; with up to [`LOOK`] of them the choice is exact, with more it is off by less than a fifth in the
//! rate. A packet stands where it belonged when it came, and is looked at again before it is lost.

use narrows_lists::{Linked, List, NIL, Slab};

use super::predict::NextState;
use super::store::{InBucket, Node};

/// Packets of the first bucket that are looked at.
pub(super) const LOOK: usize = 16;
const RATES: usize = 64;
/// A quantity on a logarithmic scale of four steps an octave.
pub(super) const fn steps(value: u64) -> u16 {
    if value < 4 {
        return value as u16;
    }
    let octave = value.ilog2();
    (octave * 4) as u16 + ((value >> (octave - 2)) & 3) as u16
}

/// The bucket for such a consequence and so large a rate: the lower, the sooner it is lost. Rate and fair share are
/// given as [`steps`], so that no packet costs a division.
pub(super) fn bucket(next: NextState, rate: u16, share: u16) -> u16 {
    // A rate at its share stands in the middle; 1/256 and 256 times it at the ends.
    let above = (rate + RATES as u16 / 2).saturating_sub(share).min(RATES as u16 - 1);
    next as u16 * RATES as u16 + (RATES as u16 - 1 - above)
}

/// The packets of one class, by bucket.
#[derive(Debug)]
pub(super) struct Victims {
    buckets: Vec<List<InBucket>>,
    used: [u64; NextState::COUNT],
}

impl Victims {
    pub(super) fn new() -> Self {
        Self { buckets: vec![List::EMPTY; RATES * NextState::COUNT], used: [0; NextState::COUNT] }
    }

    /// Puts a packet, which is in no bucket, last into one.
    pub(super) fn add<P>(&mut self, nodes: &mut Slab<Node<P>>, node: u32, bucket: u16)
    where
        Node<P>: Linked<InBucket>,
    {
        self.buckets[usize::from(bucket)].push_back(nodes, node);
        self.used[usize::from(bucket) / RATES] |= 1 << (usize::from(bucket) % RATES);
    }

    /// Takes a packet out of the packet's bucket.
    pub(super) fn remove<P>(&mut self, nodes: &mut Slab<Node<P>>, node: u32, bucket: u16)
    where
        Node<P>: Linked<InBucket>,
    {
        let bucket = usize::from(bucket);
        self.buckets[bucket].remove(nodes, node);
        if self.buckets[bucket].is_empty() {
            self.used[bucket / RATES] &= !(1 << (bucket % RATES));
        }
    }

    /// The cheapest consequence that a loss here would have; `None` if nothing waits.
    pub(super) fn cheapest(&self) -> Option<usize> {
        self.used.iter().position(|bits| *bits != 0)
    }

    /// The packets of the first bucket in use, the last to join first; at most [`LOOK`] of them.
    pub(super) fn candidates<P>(&self, nodes: &Slab<Node<P>>) -> ([u32; LOOK], usize)
    where
        Node<P>: Linked<InBucket>,
    {
        let mut found = ([NIL; LOOK], 0);
        let Some(next) = self.cheapest() else { return found };
        let bucket = &self.buckets[next * RATES + self.used[next].trailing_zeros() as usize];
        for (place, node) in found.0.iter_mut().zip(bucket.iter_back(nodes)) {
            *place = node;
            found.1 += 1;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::NextState::*;
    use super::*;

    #[test]
    fn the_cheaper_consequence_loses_first_then_the_faster() {
        let of = |next, rate, share| bucket(next, steps(rate), steps(share));
        let share = 100_000;
        assert!(of(LossRecovery, share, share) < of(Timeout, 100 * share, share));
        assert!(of(Timeout, share, share) < of(SecondLoss, 100 * share, share));
        assert!(of(SecondLoss, share, share) < of(Repeated, 100 * share, share));
        assert!(of(Timeout, 2 * share, share) < of(Timeout, share, share));
        assert_eq!(of(Timeout, 2 * share, 2 * share), of(Timeout, share, share));
        // Four steps an octave: 2^16 = 65 536, 81 920, 98 304, 114 688, and 131 072.
        assert_eq!(
            [65_535, 65_536, 81_919, 81_920, 98_304, 114_688, 131_072].map(steps),
            [63, 64, 64, 65, 66, 67, 68]
        );
        assert_eq!((of(Repeated, u64::MAX, 1), of(LossRecovery, 0, share)), (3 * 64, 63));
    }
}
