//! What was SACKed, as a short sorted list. It finds what is new in a SACK block without a walk over the segments.

/// Ranges [left, right) of stream offsets in ascending order, which neither touch nor overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct SackRanges(Vec<(u64, u64)>);

impl SackRanges {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Removes everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
    pub(crate) fn as_slice(&self) -> &[(u64, u64)] {
        &self.0
    }
    /// Whether all of [left, right) is in one of the ranges.
    pub(crate) fn contains(&self, left: u64, right: u64) -> bool {
        let after = self.0.partition_point(|range| range.0 <= left);
        self.0[..after].last().is_some_and(|range| right <= range.1)
    }
    /// Adds [left, right) and calls `fresh` for each part of it that is new.
    pub(crate) fn insert(&mut self, left: u64, right: u64, mut fresh: impl FnMut(u64, u64)) {
        if left >= right {
            return;
        }
        let first = self.0.partition_point(|range| range.1 < left);
        let (mut low, mut high, mut at, mut end) = (left, right, left, first);
        while let Some(&(a, b)) = self.0.get(end)
            && a <= right
        {
            if at < a {
                fresh(at, a);
            }
            at = at.max(b);
            low = low.min(a);
            high = high.max(b);
            end += 1;
        }
        if at < right {
            fresh(at, right);
        }
        match self.0.get_mut(first) {
            Some(range) if end > first => {
                *range = (low, high);
                self.0.drain(first + 1..end);
            }
            _ => self.0.insert(first, (low, high)),
        }
    }

    /// Removes everything below `una`.
    pub(crate) fn trim(&mut self, una: u64) {
        let gone = self.0.partition_point(|range| range.1 <= una);
        self.0.drain(..gone);
        if let Some(range) = self.0.first_mut() {
            range.0 = range.0.max(una);
        }
    }

    /// The offset below which data counts as lost (`IsLost`, RFC 6675, section 4): at least `dupthresh` separate
    /// ranges, or more than (`dupthresh` - 1) * `mss` bytes, were SACKed above it.
    pub(crate) fn lost_below(&self, dupthresh: u32, mss: u32) -> u64 {
        let enough = u64::from(dupthresh.saturating_sub(1)) * u64::from(mss);
        let mut bytes = 0;
        for (above, range) in self.0.iter().rev().enumerate() {
            bytes += range.1 - range.0;
            if bytes > enough || above + 1 >= dupthresh as usize {
                return range.0;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(ranges: &mut SackRanges, left: u64, right: u64) -> Vec<(u64, u64)> {
        let mut fresh = vec![];
        ranges.insert(left, right, |a, b| fresh.push((a, b)));
        fresh
    }

    #[test]
    fn only_what_is_new_is_told() {
        let mut ranges = SackRanges::default();
        assert_eq!(insert(&mut ranges, 10, 20), [(10, 20)]);
        assert_eq!(insert(&mut ranges, 10, 20), []);
        assert_eq!(insert(&mut ranges, 30, 40), [(30, 40)]);
        assert_eq!(insert(&mut ranges, 50, 60), [(50, 60)]);
        assert_eq!(insert(&mut ranges, 35, 55), [(40, 50)]);
        assert_eq!(ranges.as_slice(), [(10, 20), (30, 60)]);
        assert_eq!(insert(&mut ranges, 20, 30), [(20, 30)], "touching ranges join");
        assert_eq!(ranges.as_slice(), [(10, 60)]);
        assert_eq!(insert(&mut ranges, 0, 100), [(0, 10), (60, 100)]);
        assert_eq!(insert(&mut ranges, 5, 5), []);
        ranges.trim(42);
        assert_eq!(ranges.as_slice(), [(42, 100)]);
        ranges.trim(100);
        assert!(ranges.is_empty());
    }

    #[test]
    fn any_story_agrees_with_a_set_of_bytes() {
        let mut seed = 7_u64;
        let mut random = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..300 {
            let (mut ranges, mut set) = (SackRanges::default(), [false; 64]);
            for _ in 0..20 {
                let left = random(64);
                let right = (left + random(12)).min(64);
                let known = set[left as usize..right as usize].iter().all(|there| *there);
                assert!(left == right || ranges.contains(left, right) == known);
                let mut fresh = [false; 64];
                ranges.insert(left, right, |a, b| (a..b).for_each(|i| fresh[i as usize] = true));
                for i in left as usize..right as usize {
                    assert_eq!(fresh[i], !set[i]);
                    set[i] = true;
                }
                let collected: Vec<usize> =
                    ranges.as_slice().iter().flat_map(|r| r.0 as usize..r.1 as usize).collect();
                assert_eq!(collected, (0..64).filter(|&i| set[i]).collect::<Vec<_>>());
                assert!(ranges.as_slice().windows(2).all(|w| w[0].1 < w[1].0));
            }
        }
    }

    #[test]
    fn is_lost_by_hand() {
        let mss = 100;
        let lost = |list: &[(u64, u64)]| {
            let mut ranges = SackRanges::default();
            for r in list {
                ranges.insert(r.0, r.1, |_, _| ());
            }
            ranges.lost_below(3, mss)
        };
        assert_eq!(lost(&[]), 0);
        assert_eq!(lost(&[(300, 500)]), 0, "two segments above a hole are not more than (3 - 1) * SMSS");
        assert_eq!(lost(&[(300, 501)]), 300, "a byte more is");
        assert_eq!(lost(&[(300, 600)]), 300);
        assert_eq!(lost(&[(300, 310), (400, 410), (500, 510)]), 300, "three separate ranges");
        assert_eq!(lost(&[(100, 110), (300, 310), (400, 410), (500, 510)]), 300);
        assert_eq!(lost(&[(300, 400), (500, 700)]), 300, "100 + 200 bytes, none of them alone");
    }
}
