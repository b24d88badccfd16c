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

/// A flow's place in a bucket's list.
#[derive(Clone, Copy, Debug)]
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

/// The bucket for so many drops and so large a rate: the lower, the sooner it loses a packet. `ratio` is rate over fair
/// share in 1/256.
pub(super) fn bucket(drops: u32, ratio: u64) -> u16 {
    let step = match ratio {
        0 => 0,
        r => {
            let octave = r.ilog2();
            let quarter = if octave >= 2 { (r >> (octave - 2)) & 3 } else { (r << (2 - octave)) & 3 };
            u64::from(octave) * 4 + quarter
        }
    };
    let rate = u16::try_from(step).unwrap_or(u16::MAX).min(RATES as u16 - 1);
    let drops = u16::try_from(drops).unwrap_or(u16::MAX).min(DROPS as u16 - 1);
    drops * RATES as u16 + (RATES as u16 - 1 - rate)
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
        let share = 256;
        assert!(bucket(0, share) < bucket(1, 100 * share));
        assert!(bucket(0, 2 * share) < bucket(0, share));
        // A quarter octave apart: 256 and 320 (256 * 5/4).
        assert_eq!(bucket(0, 319), bucket(0, 256));
        assert_eq!(bucket(0, 320) + 1, bucket(0, 256));
        assert_eq!(bucket(9, u64::MAX), 3 * 64);
        assert_eq!(bucket(0, 0), 63);
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
