//! Sets of whole numbers, kept as ranges: packet numbers to acknowledge, bytes to send again, bytes that came.

/// Ranges in rising order that neither overlap nor touch; the end is not part of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet(Vec<(u64, u64)>);

impl RangeSet {
    /// The ranges in rising order.
    #[must_use]
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.0
    }
    /// Whether no number is in the ranges.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Count of the numbers in all ranges.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }
    /// The largest number.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        self.0.last().map(|(_, end)| end - 1)
    }
    /// Whether `n` is in one of the ranges.
    #[must_use]
    pub fn contains(&self, n: u64) -> bool {
        let at = self.0.partition_point(|(_, end)| *end <= n);
        self.0.get(at).is_some_and(|(start, _)| *start <= n)
    }
    /// Whether every number from `start` to before `end` is in the set.
    #[must_use]
    pub fn covers(&self, start: u64, end: u64) -> bool {
        let at = self.0.partition_point(|(_, e)| *e <= start);
        start >= end || self.0.get(at).is_some_and(|(s, e)| *s <= start && end <= *e)
    }
    /// End of the range that begins at zero; 0 if there is none.
    #[must_use]
    pub fn from_zero(&self) -> u64 {
        self.0.first().filter(|(start, _)| *start == 0).map_or(0, |(_, end)| *end)
    }

    /// Adds the numbers from `start` to before `end`; tells how many are new.
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let first = self.0.partition_point(|(_, e)| *e < start);
        let after = first + self.0[first..].partition_point(|(s, _)| *s <= end);
        let known: u64 =
            self.0[first..after].iter().map(|(s, e)| (*e).min(end).saturating_sub((*s).max(start))).sum();
        let whole = self.0[first..after].iter().fold((start, end), |(s, e), r| (s.min(r.0), e.max(r.1)));
        self.0.splice(first..after, [whole]);
        end - start - known
    }

    /// Takes the numbers from `start` to before `end` out; tells how many there were.
    pub fn remove(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let first = self.0.partition_point(|(_, e)| *e <= start);
        let after = first + self.0[first..].partition_point(|(s, _)| *s < end);
        let mut left = [(0, 0); 2];
        let mut removed = 0;
        for (s, e) in &self.0[first..after] {
            removed += (*e).min(end) - (*s).max(start);
            if *s < start {
                left[0] = (*s, start);
            }
            if *e > end {
                left[1] = (end, *e);
            }
        }
        self.0.splice(first..after, left.into_iter().filter(|(s, e)| s < e));
        removed
    }

    /// Takes the lowest range out.
    pub fn pop_first(&mut self) -> Option<(u64, u64)> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_become_one() {
        let mut r = RangeSet::default();
        assert_eq!([r.insert(5, 7), r.insert(9, 10), r.insert(7, 8), r.insert(0, 1)], [2, 1, 1, 1]);
        assert_eq!(r.as_slice(), [(0, 1), (5, 8), (9, 10)]);
        // 8 alone is new.
        assert_eq!(r.insert(4, 10), 2);
        assert_eq!(r.as_slice(), [(0, 1), (4, 10)]);
        assert_eq!((r.from_zero(), r.max(), r.count()), (1, Some(9), 7));
        assert!(r.contains(4) && !r.contains(10) && r.covers(4, 10) && !r.covers(0, 5));
    }

    #[test]
    fn what_is_removed_leaves_two_ends() {
        let mut r = RangeSet::default();
        r.insert(0, 10);
        r.insert(20, 30);
        assert_eq!(r.remove(5, 25), 10);
        assert_eq!(r.as_slice(), [(0, 5), (25, 30)]);
        assert_eq!((r.remove(40, 50), r.remove(0, 2)), (0, 2));
        assert_eq!(r.pop_first(), Some((2, 5)));
    }

    /// Compares the ranges with a plain set of numbers.
    #[test]
    fn as_a_set_of_numbers() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut r, mut set) = (RangeSet::default(), std::collections::BTreeSet::new());
        for _ in 0..5_000 {
            let start = rng.u64(0..100);
            let end = start + rng.u64(0..10);
            let before = set.len();
            if rng.bool() {
                set.extend(start..end);
                assert_eq!(r.insert(start, end), (set.len() - before) as u64);
            } else {
                set.retain(|n| !(start..end).contains(n));
                assert_eq!(r.remove(start, end), (before - set.len()) as u64);
            }
            assert_eq!(r.count(), set.len() as u64);
            assert!((0..120).all(|n| r.contains(n) == set.contains(&n)));
            assert!(r.as_slice().windows(2).all(|w| w[0].1 < w[1].0));
        }
    }
}
