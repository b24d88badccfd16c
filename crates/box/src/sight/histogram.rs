//! Counts by size, between bounds that stay the same, as Prometheus wants them.

/// Histogram of sizes. The last count is of sizes above all bounds.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// Bounds in the parts of a unit that are counted.
    parts: Vec<u64>,
    per_unit: f64,
    counts: Vec<u64>,
    sum: u64,
}

/// Microseconds in a second, for histograms of times.
pub const MICROS: u32 = 1_000_000;
/// Stalls, seconds. Five seconds are when people give up.
pub const STALLS_S: &[f64] = &[0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0];
/// Round trips, seconds.
pub const ROUND_TRIPS_S: &[f64] = &[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];
/// Packets a round trip. Below four, three duplicate ACKs cannot tell of a loss.
pub const PACKETS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0, 64.0];

impl Histogram {
    /// An empty one with these bounds, which ascend. What is counted is given in whole parts of their unit.
    pub fn new(bounds: &'static [f64], per_unit: u32) -> Self {
        let per_unit = f64::from(per_unit);
        let parts = bounds.iter().map(|bound| (bound * per_unit).round() as u64).collect();
        Self { bounds, parts, per_unit, counts: vec![0; bounds.len() + 1], sum: 0 }
    }

    /// Counts one value.
    pub fn add(&mut self, parts: u64) {
        let at = self.parts.iter().position(|bound| parts <= *bound).unwrap_or(self.parts.len());
        self.counts[at] += 1;
        self.sum = self.sum.saturating_add(parts);
    }

    /// Counts, without accumulation, and their sum.
    pub fn counts(&self) -> (&[u64], f64) {
        (&self.counts, self.sum as f64 / self.per_unit)
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
        let mut h = Histogram::new(&[1.0, 2.0], 1000);
        [500, 1000, 1500, 9000].into_iter().for_each(|size| h.add(size));
        assert_eq!(h.counts(), (&[2, 1, 1][..], 12.0));
    }
}
