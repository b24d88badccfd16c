//! Bursts: whether short objects come through a queue whole, and what still arrives after the first loss (figures 4 and
//! 5 of the Initial Spreading paper). With an initial window of the whole object an object is one burst.
//!
//! A segment counts as lost if any copy of it was: only what was lost is sent again, so the first one was, except where
//! a timer was wrong.

use super::report::{Tables, integers, share};
use crate::connection::Connection;

/// Longest burst, segments: a bit each.
const MOST: u64 = u64::BITS as u64;
/// First losses at this many places are in the summary; the table has all.
const PLACES: usize = 16;
/// Later segments that must arrive to start a fast retransmission.
const AFTER: usize = 3;

/// Bursts whose first lost segment is at one place.
#[derive(Clone, Copy, Debug, Default)]
struct BurstPosition {
    bursts: u64,
    /// Bursts of which at least one, two, three segments after the first loss arrived.
    after: [u64; AFTER],
}

/// Counts of all bursts.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    bursts: u64,
    whole: u64,
    segments: u64,
    lost: u64,
    /// Bursts by the position of the first lost segment.
    places: Vec<BurstPosition>,
}

impl Bursts {
    /// Counts a finished object, whose segments carry `mss` bytes; `lost` has a bit for each lost segment.
    pub(super) fn over(&mut self, c: &Connection, mss: u32, lost: u64) {
        let segments = c.size.div_ceil(mss.max(1).into());
        if c.stats.delivered_at.come().is_some() || c.stats.failed {
            self.add(segments, lost);
        }
    }

    fn add(&mut self, segments: u64, lost: u64) {
        if !(1..=MOST).contains(&segments) {
            return;
        }
        self.bursts += 1;
        self.segments += segments;
        self.lost += u64::from(lost.count_ones());
        if lost == 0 {
            self.whole += 1;
            return;
        }
        let first = lost.trailing_zeros();
        let later = segments.saturating_sub(u64::from(first + lost.count_ones()));
        let at = first as usize;
        self.places.resize(self.places.len().max(at + 1), BurstPosition::default());
        let place = &mut self.places[at];
        place.bursts += 1;
        for (least, n) in (1..).zip(&mut place.after) {
            *n += u64::from(later >= least);
        }
    }

    /// Adds the bursts of another part.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.bursts += other.bursts;
        self.whole += other.whole;
        self.segments += other.segments;
        self.lost += other.lost;
        self.places.resize(self.places.len().max(other.places.len()), BurstPosition::default());
        for (own, more) in self.places.iter_mut().zip(&other.places) {
            own.bursts += more.bursts;
            own.after.iter_mut().zip(more.after).for_each(|(sum, n)| *sum += n);
        }
    }

    pub(super) fn report(&self, out: &mut Tables) {
        if self.bursts == 0 {
            return;
        }
        out.put("bursts", self.bursts as f64);
        out.put("burst_whole", share(self.whole, self.bursts));
        out.put("burst_loss", share(self.lost, self.segments));
        for (k, place) in (1..).zip(&self.places).take(PLACES) {
            out.put(format!("burst_first_{k}"), share(place.bursts, self.bursts));
            for (least, n) in (1..).zip(place.after) {
                out.put(format!("burst_after_{k}_{least}"), share(n, place.bursts));
            }
        }
        let mut columns = vec![
            integers("first", (1..).take(self.places.len())),
            integers("bursts", self.places.iter().map(|p| p.bursts)),
        ];
        for at in 0..AFTER {
            columns.push(integers(format!("after_{}", at + 1), self.places.iter().map(|p| p.after[at])));
        }
        out.table("bursts", columns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four bursts of five: whole; the second and fourth lost, so two of the three after it live; all from the first
    /// on; the last alone. And one that is too long to tell.
    #[test]
    fn by_hand() {
        let mut bursts = Bursts::default();
        for lost in [0, 0b01010, 0b11111, 0b10000] {
            bursts.add(5, lost);
        }
        bursts.add(65, 1);
        bursts.add(0, 0);
        let mut out = Tables::default();
        bursts.report(&mut out);
        for (name, value) in [
            ("bursts", 4.0),
            ("burst_whole", 0.25),
            ("burst_loss", 0.4),
            ("burst_first_1", 0.25),
            ("burst_after_1_1", 0.0),
            ("burst_first_2", 0.25),
            ("burst_after_2_1", 1.0),
            ("burst_after_2_2", 1.0),
            ("burst_after_2_3", 0.0),
            ("burst_first_5", 0.25),
            ("burst_after_5_1", 0.0),
        ] {
            assert_eq!(out.0.summary.get(name), Some(&value), "{name}");
        }
        // Places at which no burst lost its first have a share of none, and nothing after.
        assert_eq!(out.0.summary.get("burst_first_3"), Some(&0.0));
        assert!(!out.0.summary.contains_key("burst_after_3_1"));
    }

    #[test]
    fn the_longest_burst_has_a_bit_for_each() {
        let mut bursts = Bursts::default();
        bursts.add(64, u64::MAX);
        bursts.add(64, 1);
        assert_eq!((bursts.lost, bursts.places[0].bursts, bursts.places[0].after), (65, 2, [1, 1, 1]));
    }
}
