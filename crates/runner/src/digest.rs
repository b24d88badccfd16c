//! Points of a plan: medians, or means, over the seeds of runs.

use std::collections::BTreeMap;

use crate::RunPlan;
use crate::interval::half_95;

/// Rule by which one value stands for several seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Middle {
    /// The median.
    #[default]
    Median,
    /// The arithmetic mean.
    Mean,
    /// The arithmetic mean, between the ends of its 95 % interval in place of the least and the greatest value.
    Interval,
}

impl Middle {
    /// Word for the rule in a table.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Median => "median",
            Self::Mean | Self::Interval => "mean",
        }
    }

    /// Combines values in ascending order.
    fn of(self, v: &[f64]) -> f64 {
        match self {
            Self::Median => {
                let (low, high) = (v[(v.len() - 1) / 2], v[v.len() / 2]);
                low + (high - low) / 2.0
            }
            Self::Mean | Self::Interval => v.iter().sum::<f64>() / v.len() as f64,
        }
    }

    /// Middle of values in ascending order, between the lower and the upper bound.
    fn between(self, v: &[f64]) -> [f64; 3] {
        let middle = self.of(v);
        match self {
            Self::Median | Self::Mean => [v[0], middle, v[v.len() - 1]],
            Self::Interval => {
                // A single seed leaves all open, and has no interval to show.
                let half = half_95(v).unwrap_or(0.0);
                [middle - half, middle, middle + half]
            }
        }
    }
}

/// All runs of a plan that differ in nothing but their seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// One value for each of [`Plan::axes`].
    pub coords: Vec<String>,
    /// Number of seeds.
    pub seeds: usize,
    /// Least, middle and greatest of each figure; of [`Middle::Interval`] the interval's ends around the middle. A
    /// figure that half the runs or more have no number for, as no object came to its end in them, is left out: the
    /// others are not what came of the point.
    pub figures: BTreeMap<String, [f64; 3]>,
}

/// Points in the order of the plan. `summaries` are the figures of each run of the plan.
#[must_use]
pub fn digest(plan: &RunPlan, summaries: &[BTreeMap<String, f64>], middle: Middle) -> Vec<Point> {
    let mut order: Vec<&[String]> = Vec::new();
    let mut runs: BTreeMap<&[String], Vec<&BTreeMap<String, f64>>> = BTreeMap::new();
    for (job, summary) in plan.jobs.iter().zip(summaries) {
        let of_point = runs.entry(&job.coords).or_default();
        if of_point.is_empty() {
            order.push(&job.coords);
        }
        of_point.push(summary);
    }
    order.into_iter().map(|coords| point(coords, &runs[coords], middle)).collect()
}

fn point(coords: &[String], runs: &[&BTreeMap<String, f64>], middle: Middle) -> Point {
    let mut values: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
    for (name, value) in runs.iter().copied().flatten().filter(|(_, v)| !v.is_nan()) {
        values.entry(name).or_default().push(*value);
    }
    let there = values.into_iter().filter(|(_, v)| 2 * v.len() > runs.len());
    let figures = there.map(|(name, mut v)| {
        v.sort_by(f64::total_cmp);
        (name.clone(), middle.between(&v))
    });
    Point { coords: coords.to_vec(), seeds: runs.len(), figures: figures.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_seeds_lack_is_no_figure_of_the_point() {
        let run = |p50: f64| BTreeMap::from([("p50_s".to_owned(), p50), ("loss".to_owned(), 0.1)]);
        let of = |runs: &[f64]| {
            let runs: Vec<_> = runs.iter().map(|x| run(*x)).collect();
            point(&[], &runs.iter().collect::<Vec<_>>(), Middle::Median).figures
        };
        let none = f64::NAN;
        assert_eq!(of(&[1.0, 3.0, none]).get("p50_s"), Some(&[1.0, 2.0, 3.0]));
        assert_eq!(of(&[1.0, none, none]).get("p50_s"), None);
        assert_eq!(of(&[1.0, none]).get("p50_s"), None);
        assert_eq!(of(&[none, none, none])["loss"], [0.1; 3]);
    }

    #[test]
    fn an_interval_lies_around_its_mean() {
        // Student's t is 4.303 with two degrees of freedom: 2 with 4.303 / sqrt(3) on either side.
        let [low, mean, high] = Middle::Interval.between(&[1.0, 2.0, 3.0]);
        assert!(mean == 2.0 && (low + 0.4843).abs() < 1e-3 && (high - 4.4843).abs() < 1e-3, "{low} {high}");
        assert_eq!(Middle::Interval.between(&[7.0]), [7.0; 3]);
    }

    #[test]
    fn middles_by_hand() {
        assert_eq!((Middle::Median.of(&[1.0, 2.0, 6.0]), Middle::Mean.of(&[1.0, 2.0, 6.0])), (2.0, 3.0));
        assert_eq!((Middle::Median.of(&[1.0, 2.0]), Middle::Mean.of(&[1.0, 2.0])), (1.5, 1.5));
    }
}
