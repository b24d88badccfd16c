//! Distribution of round trips: how often each length came, in eight steps to a doubling.

use narrows_units::Duration;

/// Steps to a doubling: neighbours are 6 to 12 % apart.
const STEPS: u64 = 8;
/// Doubling of a microsecond that is the first step: 64 us.
const FIRST: u64 = 6;
/// Steps: up to 19 hours.
const MOST: usize = 240;

/// Step of a length: the doubling of a microsecond and the three bits behind its first.
fn step(trip: Duration) -> usize {
    let micros = (trip.as_nanos() / 1000).max(1 << FIRST);
    let doubling = u64::from(micros.ilog2());
    let within = (micros >> (doubling - 3)) - STEPS;
    (((doubling - FIRST) * STEPS + within) as usize).min(MOST - 1)
}

/// Middle of a step, seconds.
fn middle_s(step: usize) -> f64 {
    let (doubling, within) = (step as u64 / STEPS + FIRST, step as u64 % STEPS);
    let micros = ((STEPS + within) as f64 + 0.5) * (doubling as f64 - 3.0).exp2();
    micros / 1e6
}

/// Distribution of round trips, as a count for each step. Memory is taken with the first sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    counts: Vec<u32>,
    all: u64,
    least: Option<Duration>,
}

impl Spread {
    /// Adds a round trip.
    pub(crate) fn add(&mut self, trip: Duration) {
        let step = step(trip);
        if self.counts.len() <= step {
            self.counts.resize(step + 1, 0);
        }
        self.counts[step] = self.counts[step].saturating_add(1);
        self.all += 1;
        self.least = Some(self.least.map_or(trip, |least| least.min(trip)));
    }

    /// Adds the samples of another.
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(to, n)| *to = to.saturating_add(*n));
        self.all += other.all;
        self.least = self.least.into_iter().chain(other.least).min();
    }

    /// Length that this share of the round trips does not exceed, seconds: the middle of its step, and no less than the
    /// least. `None` without any.
    pub(crate) fn quantile_s(&self, share: f64) -> Option<f64> {
        let least = self.least?.as_secs_f64();
        let rank = (share * self.all as f64).ceil().max(1.0) as u64;
        let mut so_far = 0;
        let step = self.counts.iter().position(|n| {
            so_far += u64::from(*n);
            so_far >= rank
        })?;
        Some(middle_s(step).max(least))
    }

    /// Least round trip, seconds.
    pub(crate) fn least_s(&self) -> Option<f64> {
        self.least.map(Duration::as_secs_f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_step() {
        let (mut s, mut first) = (Spread::default(), Spread::default());
        (1..=50).for_each(|n| first.add(Duration::from_millis(n * 10)));
        (51..=100).for_each(|n| s.add(Duration::from_millis(n * 10)));
        s.merge(&first);
        assert_eq!((s.all, s.least_s()), (100, Some(0.01)));
        for (share, true_s) in [(0.5, 0.5), (0.95, 0.95), (1.0, 1.0)] {
            let found = s.quantile_s(share).unwrap();
            assert!((found / true_s - 1.0).abs() < 0.07, "{share}: {found}");
        }
        assert_eq!(Spread::default().quantile_s(0.5), None);
    }
}
