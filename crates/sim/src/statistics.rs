//! The few statistics that results are made of. These statistics are computed as the lab does, so that a figure of a
//! simulation and one of a kernel's run mean the same.

/// The value below which a share `q` of a sorted list lies, between two by interpolation; `None` of nothing.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (at - at.floor()))
}

/// Sorts values in rising order.
pub(crate) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut v: Vec<f64> = values.collect();
    v.sort_by(f64::total_cmp);
    v
}

/// The mean; `None` of nothing.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Adds `more` to `sums` number by number; a shorter list counts as continued with zeros.
pub(crate) fn add_each(sums: &mut Vec<u64>, more: &[u64]) {
    sums.resize(sums.len().max(more.len()), 0);
    for (sum, n) in sums.iter_mut().zip(more) {
        *sum += n;
    }
}

/// Jain's fairness index, (sum x)^2 / (n sum x^2): 1 if all are equal, 1/n if one has all. All zero is fair only in
/// name: 0.
pub(crate) fn jain(shares: &[u64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(s, q), x| {
        let x = *x as f64;
        (s + x, q + x * x)
    });
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// Share of the total that the largest 40 % (rounded up) hold; `None` if the total is zero. Leaves `shares` in falling
/// order.
pub(crate) fn top_share(shares: &mut [u64]) -> Option<f64> {
    shares.sort_unstable_by(|a, b| b.cmp(a));
    let all: u64 = shares.iter().sum();
    let top: u64 = shares[..(2 * shares.len()).div_ceil(5)].iter().sum();
    (all > 0).then(|| top as f64 / all as f64)
}

/// Parts of an octave as a power of two: a value is known to within 1/256 of itself.
const PARTS: u32 = 7;
const PART_COUNT: u64 = 1 << PARTS;

/// How often which value came, in buckets whose width is a 128th of the next lower power of two: values below 128 are
/// kept as they are. The histogram is as long as the largest value needs, some 30 kB for hours in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max: u64,
}

impl Histogram {
    #[inline(always)]
    pub(crate) fn add(&mut self, value: u64) {
        let at = bucket(value);
        if at >= self.counts.len() {
            self.reach(at);
        }
        self.counts[at] += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    #[cold]
    fn reach(&mut self, at: usize) {
        self.counts.resize(at + 1, 0);
    }

    /// Counts what another has counted too.
    pub(crate) fn absorb(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, n)| *sum += n);
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// Forgets all values, and keeps the memory allocated.
    pub(crate) fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.max) = (0, 0);
    }

    /// The middle of the bucket in which a share `q` of all values is reached; the largest value for `q` of 1.
    pub(crate) fn quantile(&self, q: f64) -> Option<u64> {
        let last = self.count.checked_sub(1)?;
        if q >= 1.0 {
            return Some(self.max);
        }
        let mut left = (q * last as f64) as u64;
        for (at, n) in self.counts.iter().enumerate() {
            if left < *n {
                return Some(middle(at).min(self.max));
            }
            left -= n;
        }
        Some(self.max)
    }
}

/// Bucket in which a value is counted.
#[inline]
fn bucket(value: u64) -> usize {
    if value < PART_COUNT {
        return value as usize;
    }
    let shift = value.ilog2() - PARTS;
    // The leading bit is one; what follows it are the parts.
    (u64::from(shift) * PART_COUNT + (value >> shift)) as usize
}

/// The middle of a bucket.
fn middle(at: usize) -> u64 {
    let at = at as u64;
    if at < PART_COUNT {
        return at;
    }
    let (shift, part) = (at / PART_COUNT - 1, at % PART_COUNT);
    let low = (PART_COUNT + part) << shift;
    low + ((1 << shift) - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_by_hand() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), Some(3.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn fairness_by_hand() {
        assert_eq!(jain(&[3, 3]), 1.0);
        assert_eq!(jain(&[1, 0, 0, 0]), 0.25);
        assert_eq!(jain(&[0, 0]), 0.0);
        // 40 % of 5 are 2, of 6 they are 3 (rounded up from 2.4).
        assert_eq!(top_share(&mut [1, 4, 1, 3, 1]), Some(0.7));
        assert_eq!(top_share(&mut [1, 4, 1, 3, 1, 0]), Some(0.8));
        assert_eq!(top_share(&mut [0, 0]), None);
    }

    #[test]
    fn buckets_meet_without_a_gap() {
        let mut last = 0;
        for value in 0..1_u64 << 16 {
            let at = bucket(value);
            assert!(at == last || at == last + 1, "{value}");
            last = at;
            assert!(middle(at).abs_diff(value) <= value / 256, "{value} {}", middle(at));
        }
        assert!(bucket(u64::MAX) < 58 * 128);
        assert!(middle(bucket(u64::MAX)) > u64::MAX - (u64::MAX >> 7));
    }

    #[test]
    fn quantiles_of_a_histogram() {
        let mut h = Histogram::default();
        assert_eq!(h.quantile(0.5), None);
        (1..=100).for_each(|v| h.add(v));
        // Rank floor(0.5 * 99) = 49 counted from 0 is the value 50.
        assert_eq!((h.quantile(0.5), h.quantile(0.99), h.quantile(1.0)), (Some(50), Some(99), Some(100)));
        h.add(3_000_000_000);
        assert_eq!(h.quantile(1.0), Some(3_000_000_000));
        h.clear();
        assert_eq!(h.quantile(1.0), None);
    }
}
