//! A few ranges of sequence numbers in a fixed place: the holes in what arrived, and what was dropped and not repaired.
//!
//! When there are more ranges than places, two neighbours become one that covers what lies between them: the list may
//! say too much, never too little, and it never grows.

use narrows_units::SeqNum;

/// One range `[start, start + len)`; `len == 0` is an empty place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range<T> {
    /// First number of the range.
    pub start: SeqNum,
    /// Number of numbers in the range.
    pub len: u32,
    /// Note that the user of the list keeps with the range.
    pub tag: T,
}

impl<T> Range<T> {
    /// The number after the range's last.
    #[must_use]
    pub fn end(&self) -> SeqNum {
        self.start + self.len
    }
    fn overlaps(&self, start: SeqNum, end: SeqNum) -> bool {
        self.len > 0 && start.before(self.end()) && self.start.before(end)
    }
}

/// At most `N` ranges in the order of their sequence numbers, each with a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges<T, const N: usize>([Range<T>; N]);

impl<T: Copy + Default + PartialEq, const N: usize> Default for Ranges<T, N> {
    fn default() -> Self {
        Self([Range::default(); N])
    }
}

impl<T: Copy + Default + PartialEq, const N: usize> Ranges<T, N> {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0[0].len == 0
    }
    /// Takes all ranges out.
    pub fn clear(&mut self) {
        self.0[0].len = 0;
    }
    /// The ranges, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = &Range<T>> {
        self.0.iter().take_while(|r| r.len > 0)
    }
    /// Number of ranges.
    #[must_use]
    pub fn count(&self) -> usize {
        self.iter().count()
    }
    /// The first range with a byte of `[start, end)`.
    pub fn hit(&mut self, start: SeqNum, end: SeqNum) -> Option<&mut Range<T>> {
        self.0.iter_mut().take_while(|r| r.len > 0).find(|r| r.overlaps(start, end))
    }

    /// Adds `[start, end)`, joining what it touches with an equal tag; of two that must be joined for want of a place
    /// the later one's tag stays.
    pub fn add(&mut self, start: SeqNum, end: SeqNum, tag: T) {
        let mut new = Range { start, len: end - start, tag };
        if new.len == 0 || new.len > MAX_SPAN {
            return;
        }
        // Collects the ranges that exist and the new one in order; then at most N of them stay.
        let mut all = [Range::default(); 9];
        let mut n = 0;
        let mut placed = false;
        for r in self.0.iter().take_while(|r| r.len > 0) {
            let touches = new.start.at_or_before(r.end()) && r.start.at_or_before(new.end());
            if touches && (r.tag == tag || r.overlaps(new.start, new.end())) {
                let (s, e) =
                    (if r.start.before(new.start) { r.start } else { new.start }, r.end().max(new.end()));
                new = Range { start: s, len: e - s, tag };
                continue;
            }
            if !placed && new.end().at_or_before(r.start) {
                all[n] = new;
                n += 1;
                placed = true;
            }
            all[n] = *r;
            n += 1;
        }
        if !placed {
            all[n] = new;
            n += 1;
        }
        if n > N {
            join_nearest(&mut all, n);
            n -= 1;
        }
        self.0 = core::array::from_fn(|i| if i < n { all[i] } else { Range::default() });
    }

    /// Takes `[start, end)` out. Returns whether any of these bytes were in a range.
    pub fn remove(&mut self, start: SeqNum, end: SeqNum) -> bool {
        if self.hit(start, end).is_none() {
            return false;
        }
        let old = *self;
        self.clear();
        let mut n = 0;
        let mut keep = |place: &mut [Range<T>; N], r: Range<T>| {
            if r.len == 0 {
                return;
            }
            if n < N {
                place[n] = r;
                n += 1;
            } else {
                // A split with no place for its second half: the first half grows back over it.
                let last = &mut place[N - 1];
                last.len = r.end() - last.start;
            }
        };
        let mut place = [Range::default(); N];
        for r in old.iter() {
            if !r.overlaps(start, end) {
                keep(&mut place, *r);
                continue;
            }
            if r.start.before(start) {
                keep(&mut place, Range { start: r.start, len: start - r.start, tag: r.tag });
            }
            if end.before(r.end()) {
                keep(&mut place, Range { start: end, len: r.end() - end, tag: r.tag });
            }
        }
        self.0 = place;
        true
    }

    /// Takes out everything below `edge`. Returns whether any byte below was in a range.
    pub fn remove_below(&mut self, edge: SeqNum) -> bool {
        let first = self.0[0];
        first.len > 0 && first.start.before(edge) && self.remove(first.start, edge)
    }
}

#[cfg(feature = "serde")]
impl<T: Copy + Default + PartialEq + serde::Serialize, const N: usize> serde::Serialize for Ranges<T, N> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let all: Vec<_> = self.iter().map(|r| (r.start, r.end(), r.tag)).collect();
        all.serialize(to)
    }
}

#[cfg(feature = "serde")]
impl<'de, T, const N: usize> serde::Deserialize<'de> for Ranges<T, N>
where
    T: Copy + Default + PartialEq + serde::Deserialize<'de>,
{
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut ranges = Self::default();
        for (start, end, tag) in Vec::deserialize(from)? {
            ranges.add(start, end, tag);
        }
        Ok(ranges)
    }
}

/// Most numbers in a range: no window is larger (RFC 7323: 2^30), so no range of one flow can be.
pub(crate) const MAX_SPAN: u32 = 1 << 30;

/// Joins the two neighbours among the first `n` with the least between them.
fn join_nearest<T: Copy>(all: &mut [Range<T>; 9], n: usize) {
    let gap = |all: &[Range<T>; 9], i: usize| all[i + 1].start - all[i].end();
    let at = (0..n - 1).min_by_key(|&i| gap(all, i)).unwrap_or(0);
    let (a, b) = (all[at], all[at + 1]);
    all[at] = Range { start: a.start, len: b.end() - a.start, tag: b.tag };
    all.copy_within(at + 2..n, at + 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans<const N: usize>(r: &Ranges<u32, N>) -> Vec<(u32, u32)> {
        r.iter().map(|r| (r.start.0, r.end().0)).collect()
    }
    fn s(n: u32) -> SeqNum {
        SeqNum(n)
    }

    #[test]
    fn neighbours_join_and_a_middle_splits() {
        let mut r = Ranges::<u32, 3>::default();
        assert!(r.is_empty());
        r.add(s(100), s(200), 0);
        r.add(s(200), s(300), 0);
        assert_eq!(spans(&r), [(100, 300)]);
        assert!(r.remove(s(150), s(160)));
        assert_eq!(spans(&r), [(100, 150), (160, 300)]);
        assert!(!r.remove(s(150), s(160)));
        assert!(r.remove_below(s(170)));
        assert_eq!(spans(&r), [(170, 300)]);
        r.add(s(10), s(20), 7);
        assert_eq!(spans(&r), [(10, 20), (170, 300)]);
        assert_eq!(r.hit(s(15), s(16)).unwrap().tag, 7);
        assert!(r.remove(s(0), s(1000)));
        assert!(r.is_empty());
    }

    #[test]
    fn a_full_list_joins_the_nearest_and_never_forgets() {
        let mut r = Ranges::<u32, 2>::default();
        r.add(s(0), s(10), 0);
        r.add(s(100), s(110), 0);
        r.add(s(130), s(140), 0);
        assert_eq!(spans(&r), [(0, 10), (100, 140)]);
        // 20 of 0..140 taken out of the middle of the second: no place for a third, so it grows back.
        r.remove(s(105), s(125));
        assert_eq!(spans(&r), [(0, 10), (100, 140)]);
    }

    #[test]
    fn the_wrap_is_an_ordinary_place() {
        let mut r = Ranges::<u32, 2>::default();
        r.add(s(u32::MAX - 9), s(10), 0);
        assert!(r.hit(s(0), s(1)).is_some() && r.hit(s(10), s(20)).is_none());
        assert!(r.remove_below(s(5)));
        assert_eq!(spans(&r), [(5, 10)]);
    }

    #[test]
    fn never_less_than_a_plain_set_says() {
        // Against a bitmap over 0..256: every byte the bitmap holds is covered.
        for seed in 1..200u64 {
            let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut next = |n: u64| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                x % n
            };
            let (mut r, mut set) = (Ranges::<u32, 3>::default(), [false; 256]);
            for _ in 0..40 {
                let start = next(240) as u32;
                let end = start + 1 + next(15) as u32;
                let add = next(2) == 0;
                if add {
                    r.add(s(start), s(end), 0);
                } else {
                    r.remove(s(start), s(end));
                }
                set[start as usize..end as usize].fill(add);
                for (i, &held) in set.iter().enumerate() {
                    let covered = r.hit(s(i as u32), s(i as u32 + 1)).is_some();
                    assert!(covered || !held, "seed {seed}: byte {i} forgotten");
                }
                let listed = spans(&r);
                assert!(listed.is_sorted() && listed.len() <= 3, "seed {seed}: {listed:?}");
            }
        }
    }
}
