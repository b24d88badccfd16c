//! Which flow of a class loses a packet (notes, section 2.6): the one with the fewest drops in its current epoch, and
//! of those the one with the largest rate for its fair share; equals lose at the tail.
//!
//! Flows stand in buckets by drops (0, 1, 2, more) and by the logarithm of rate over share (four steps an octave), so
//! that the choice costs the same among ten flows as among fifty thousand. Among the flows at the end of the first
//! bucket the exact figures decide; with up to [`LOOK`] flows in a bucket the choice is that of the text, with more it
//! is off by less than a fifth in the rate.

use narrows_lists::{List, NIL};

use super::store::{InBucket, PaperFlow};

/// Flows of the first bucket that are looked at.
pub(super) const LOOK: usize = 16;
const RATES: usize = 64;
const DROPS: usize = 4;
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
    buckets: Vec<List<InBucket>>,
    used: [u64; DROPS],
}

impl Victims {
    pub(super) fn new() -> Self {
        Self { buckets: vec![List::EMPTY; RATES * DROPS], used: [0; DROPS] }
    }

    /// Puts a flow, which is in no bucket, last into one.
    pub(super) fn add(&mut self, flows: &mut [PaperFlow], flow: u32, bucket: u16) {
        flows[flow as usize].set_bucket(Some(bucket));
        self.buckets[usize::from(bucket)].push_back(flows, flow);
        self.used[usize::from(bucket) / RATES] |= 1 << (usize::from(bucket) % RATES);
    }

    /// Takes a flow out of its bucket, if it is in one.
    pub(super) fn remove(&mut self, flows: &mut [PaperFlow], flow: u32) {
        let Some(bucket) = flows[flow as usize].bucket().map(usize::from) else { return };
        flows[flow as usize].set_bucket(None);
        self.buckets[bucket].remove(flows, flow);
        if self.buckets[bucket].is_empty() {
            self.used[bucket / RATES] &= !(1 << (bucket % RATES));
        }
    }

    /// The flows of the first bucket in use, the last to join first; at most [`LOOK`] of them.
    pub(super) fn candidates(&self, flows: &[PaperFlow]) -> ([u32; LOOK], usize) {
        let mut found = ([NIL; LOOK], 0);
        let first = self.used.iter().enumerate().find(|(_, bits)| **bits != 0);
        let Some((drops, bits)) = first else { return found };
        let bucket = &self.buckets[drops * RATES + bits.trailing_zeros() as usize];
        for (place, flow) in found.0.iter_mut().zip(bucket.iter_back(flows)) {
            *place = flow;
            found.1 += 1;
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
        let mut flows = vec![PaperFlow::default(); 4];
        let mut v = Victims::new();
        for (flow, b) in [(0, 70), (1, 5), (2, 5), (3, 200)] {
            v.add(&mut flows, flow, b);
        }
        assert_eq!(&v.candidates(&flows).0[..2], [2, 1]);
        v.remove(&mut flows, 2);
        v.remove(&mut flows, 1);
        assert_eq!(v.candidates(&flows), {
            let mut a = [NIL; LOOK];
            a[0] = 0;
            (a, 1)
        });
        v.remove(&mut flows, 0);
        v.remove(&mut flows, 3);
        assert_eq!(v.candidates(&flows).1, 0);
        assert!(flows.iter().all(|f| f.bucket().is_none()));
    }
}
