//! Which flow of a class loses a packet (notes, section 2.6): the one with the fewest drops in its current epoch, and of
//! those the one with the largest rate for its fair share; equals lose at the tail.
//!
//! Flows stand in buckets by drops (0, 1, 2, more) and by the logarithm of rate over share (four steps an octave), so
//! that the choice costs the same among ten flows as among fifty thousand. Among the flows at the end of the first
//! bucket the exact figures decide; with up to [`LOOK`] flows in a bucket the choice is that of the text, with more it
//! is off by less than a fifth in the rate.

use super::store::{FlowQueue, NONE};

/// Flows of the first bucket that are looked at.
pub(super) const LOOK: usize = 16;
const RATES: usize = 64;
const DROPS: usize = 4;
/// Stands in no bucket.
const NOWHERE: u16 = u16::MAX;

/// A flow's place in a bucket's list. Links are kept as halves, so that a flow's queue fits half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(2))]
pub(super) struct Place {
    bucket: u16,
    prev: u32,
    next: u32,
}

impl Default for Place {
    fn default() -> Self {
        Self { bucket: NOWHERE, prev: NONE, next: NONE }
    }
}

impl Place {
    pub(super) fn bucket(&self) -> Option<u16> {
        (self.bucket != NOWHERE).then_some(self.bucket)
    }
}

/// A quantity on a logarithmic scale of four steps an octave.
pub(super) const fn steps(value: u64) -> u16 {
    if value < 4 {
        return value as u16;
    }
    let octave = value.ilog2();
    (octave * 4) as u16 + ((value >> (octave - 2)) & 3) as u16
}

/// The bucket for so many drops and so large a rate: the lower, the sooner it loses a packet. Rate and fair share are
/// given as [`steps`], so that no packet costs a division.
pub(super) fn bucket(drops: u32, rate: u16, share: u16) -> u16 {
    // A rate at its share stands in the middle; 1/256 and 256 times it at the ends.
    let above = (rate + RATES as u16 / 2).saturating_sub(share).min(RATES as u16 - 1);
    let drops = u16::try_from(drops).unwrap_or(u16::MAX).min(DROPS as u16 - 1);
    drops * RATES as u16 + (RATES as u16 - 1 - above)
}

/// The flows of one class, by bucket.
#[derive(Debug)]
pub(super) struct Victims {
    ends: Vec<(u32, u32)>,
    used: [u64; DROPS],
}

impl Victims {
    pub(super) fn new() -> Self {
        Self { ends: vec![(NONE, NONE); RATES * DROPS], used: [0; DROPS] }
    }

    pub(super) fn add(&mut self, flows: &mut [FlowQueue], flow: u32, bucket: u16) {
        let ends = &mut self.ends[usize::from(bucket)];
        let tail = core::mem::replace(&mut ends.1, flow);
        if tail == NONE {
            ends.0 = flow;
        } else {
            flows[tail as usize].place.next = flow;
        }
        flows[flow as usize].place = Place { bucket, prev: tail, next: NONE };
        self.used[usize::from(bucket) / RATES] |= 1 << (usize::from(bucket) % RATES);
    }

    pub(super) fn remove(&mut self, flows: &mut [FlowQueue], flow: u32) {
        let Place { bucket, prev, next } = core::mem::take(&mut flows[flow as usize].place);
        let ends = &mut self.ends[usize::from(bucket)];
        if prev == NONE {
            ends.0 = next;
        } else {
            flows[prev as usize].place.next = next;
        }
        if next == NONE {
            ends.1 = prev;
        } else {
            flows[next as usize].place.prev = prev;
        }
        if *ends == (NONE, NONE) {
            self.used[usize::from(bucket) / RATES] &= !(1 << (usize::from(bucket) % RATES));
        }
    }

    /// The flows of the first bucket in use, the last to join first; at most [`LOOK`] of them.
    pub(super) fn candidates(&self, flows: &[FlowQueue]) -> ([u32; LOOK], usize) {
        let mut found = ([NONE; LOOK], 0);
        let first = self.used.iter().enumerate().find(|(_, bits)| **bits != 0);
        let Some((drops, bits)) = first else { return found };
        let mut at = self.ends[drops * RATES + bits.trailing_zeros() as usize].1;
        while at != NONE && found.1 < LOOK {
            found.0[found.1] = at;
            found.1 += 1;
            at = flows[at as usize].place.prev;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_drops_lose_first_then_the_faster() {
        let of = |drops, rate, share| bucket(drops, steps(rate), steps(share));
        let share = 100_000;
        assert!(of(0, share, share) < of(1, 100 * share, share));
        assert!(of(0, 2 * share, share) < of(0, share, share));
        assert_eq!(of(0, 2 * share, 2 * share), of(0, share, share));
        // Four steps an octave: 2^16 = 65 536, 81 920, 98 304, 114 688, and 131 072.
        assert_eq!(
            [65_535, 65_536, 81_919, 81_920, 98_304, 114_688, 131_072].map(steps),
            [63, 64, 64, 65, 66, 67, 68]
        );
        assert_eq!((of(9, u64::MAX, 1), of(0, 0, share)), (3 * 64, 63));
    }

    #[test]
    fn the_lists_hold_what_was_put_in() {
        let mut flows = vec![FlowQueue::default(); 4];
        let mut v = Victims::new();
        for (flow, b) in [(0, 70), (1, 5), (2, 5), (3, 200)] {
            v.add(&mut flows, flow, b);
        }
        assert_eq!(&v.candidates(&flows).0[..2], [2, 1]);
        v.remove(&mut flows, 2);
        v.remove(&mut flows, 1);
        assert_eq!(v.candidates(&flows), {
            let mut a = [NONE; LOOK];
            a[0] = 0;
            (a, 1)
        });
        v.remove(&mut flows, 0);
        v.remove(&mut flows, 3);
        assert_eq!(v.candidates(&flows).1, 0);
        assert!(flows.iter().all(|f| f.place.bucket().is_none()));
    }
}
