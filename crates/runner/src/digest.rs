//! From runs to points: medians over seeds.

use std::collections::BTreeMap;

use crate::Plan;

/// All runs of a plan that differ in nothing but their seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// One value for each of [`Plan::axes`].
    pub coords: Vec<String>,
    /// How many seeds.
    pub seeds: usize,
    /// Least, median and greatest of each figure; figures that no run has a number for are left out.
    pub figures: BTreeMap<String, [f64; 3]>,
}

/// Points in the order of the plan. `summaries` are the figures of each run of the plan.
#[must_use]
pub fn digest(plan: &Plan, summaries: &[BTreeMap<String, f64>]) -> Vec<Point> {
    let mut order: Vec<&[String]> = Vec::new();
    let mut runs: BTreeMap<&[String], Vec<&BTreeMap<String, f64>>> = BTreeMap::new();
    for (job, summary) in plan.jobs.iter().zip(summaries) {
        let of_point = runs.entry(&job.coords).or_default();
        if of_point.is_empty() {
            order.push(&job.coords);
        }
        of_point.push(summary);
    }
    order.into_iter().map(|coords| point(coords, &runs[coords])).collect()
}

fn point(coords: &[String], runs: &[&BTreeMap<String, f64>]) -> Point {
    let mut values: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
    for (name, value) in runs.iter().copied().flatten().filter(|(_, v)| !v.is_nan()) {
        values.entry(name).or_default().push(*value);
    }
    let figures = values.into_iter().map(|(name, mut v)| {
        v.sort_by(f64::total_cmp);
        let (low, high) = (v[(v.len() - 1) / 2], v[v.len() / 2]);
        (name.clone(), [v[0], low + (high - low) / 2.0, v[v.len() - 1]])
    });
    Point { coords: coords.to_vec(), seeds: runs.len(), figures: figures.collect() }
}
