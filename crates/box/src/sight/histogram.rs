//! Counts by size, between bounds that stay the same, as Prometheus wants them.

/// See the head of the file. The last count is of what is above all bounds.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
}

/// Stalls, seconds. Five seconds are when people give up.
pub const STALLS_S: &[f64] = &[0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0];
/// Round trips, seconds.
pub const ROUND_TRIPS_S: &[f64] = &[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];
/// Packets a round trip. Below four, three duplicate ACKs cannot tell of a loss.
pub const PACKETS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0, 64.0];

impl Histogram {
    /// An empty one with these bounds, which ascend.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Counts one.
    pub fn add(&mut self, size: f64) {
        let at = self.bounds.iter().position(|bound| size <= *bound).unwrap_or(self.bounds.len());
        self.counts[at] += 1;
        self.sum += size;
    }

    /// Counts, without accumulation, and their sum.
    pub fn counts(&self) -> (&[u64], f64) {
        (&self.counts, self.sum)
    }

    /// The upper bounds of all counts but the last.
    pub const fn bounds(&self) -> &'static [f64] {
        self.bounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_what_is_below() {
        let mut h = Histogram::new(&[1.0, 2.0]);
        [0.5, 1.0, 1.5, 9.0].into_iter().for_each(|size| h.add(size));
        assert_eq!(h.counts(), (&[2, 1, 1][..], 12.0));
    }
}
