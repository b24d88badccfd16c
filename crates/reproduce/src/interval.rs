//! How sure a value is: what it would have been with other seeds (Efron's bootstrap).
//!
//! Seeds are drawn anew with replacement, as many as there are, and the claim's whole formula is worked out of their
//! runs: its medians over seeds, its least over points and all. With `n` seeds the values so found have a variance `v`,
//! and the interval is the claim's value with `t(n-1) sqrt(v n/(n-1))` on either side: for a mean over seeds that is
//! Student's.

use narrows_runner::students_95;
use narrows_scenario::{Formula, Labels, Sample};

/// Most seeds for which all ways of drawing them are gone through: 4^4 = 256.
const ALL_WAYS: usize = 4;
/// Ways drawn where there are more seeds than that; the interval's length is then known to 7 %.
const DRAWN: usize = 100;

/// The 95 % interval of `value`, which is the formula's `at` these labels. `None` with fewer than two seeds, and where
/// some seeds by themselves give no number.
pub(crate) fn interval(
    formula: &Formula,
    at: &Labels,
    value: f64,
    samples: &[Sample],
    seeds: &[u64],
) -> Option<[f64; 2]> {
    if seeds.len() < 2 {
        return None;
    }
    let of_seeds: Vec<Vec<Sample>> = seeds.iter().map(|seed| of_seed(formula, samples, *seed)).collect();
    let mut values = Vec::new();
    for way in ways(seeds.len()) {
        let drawn: Vec<Sample> = way.iter().flat_map(|seed| of_seeds[*seed].iter().cloned()).collect();
        let found = formula.values(&drawn).ok()?;
        let (_, x) = found.into_iter().find(|(labels, _)| labels == at)?;
        values.push(x);
    }
    around(value, &values, seeds.len())
}

/// A seed's runs with those figures that the formula names: others would only be carried about.
fn of_seed(formula: &Formula, samples: &[Sample], seed: u64) -> Vec<Sample> {
    let named = formula.metrics();
    let of = |s: &Sample| Sample {
        coords: s.coords.clone(),
        seed,
        metrics: named.iter().filter_map(|m| Some(((*m).to_owned(), *s.metrics.get(*m)?))).collect(),
    };
    samples.iter().filter(|s| s.seed == seed).map(of).collect()
}

/// Ways of drawing `n` of `n` with replacement.
fn ways(n: usize) -> Vec<Vec<usize>> {
    if n > ALL_WAYS {
        let mut dice = fastrand::Rng::with_seed(1);
        return (0..DRAWN).map(|_| (0..n).map(|_| dice.usize(0..n)).collect()).collect();
    }
    let all = n.pow(n as u32);
    (0..all).map(|way| (0..n).map(|place| way / n.pow(place as u32) % n).collect()).collect()
}

/// The interval around `value` that bootstrap values of `seeds` seeds leave open.
fn around(value: f64, values: &[f64], seeds: usize) -> Option<[f64; 2]> {
    let (count, n) = (values.len() as f64, seeds as f64);
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
    let t = students_95(seeds - 1)?;
    let half = t * (variance * n / (n - 1.0)).sqrt();
    (value.is_finite() && half.is_finite()).then_some([value - half, value + half])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(n: &str, seed: u64, loss: f64) -> Sample {
        Sample {
            coords: [("n".to_owned(), n.to_owned())].into(),
            seed,
            metrics: [("loss".to_owned(), loss), ("other".to_owned(), 1.0)].into(),
        }
    }

    fn of(expr: &str, samples: &[Sample], seeds: &[u64]) -> Option<(f64, [f64; 2])> {
        let formula = Formula::parse(expr).unwrap();
        let first = formula.values(samples).unwrap().remove(0);
        Some((first.1, interval(&formula, &first.0, first.1, samples, seeds)?))
    }

    /// Mean 2, standard deviation 1, n = 3: t with two degrees of freedom is 4.3027 (any table), over sqrt(3).
    #[test]
    fn of_a_mean_it_is_students() {
        let runs = [run("1", 1, 1.0), run("1", 2, 2.0), run("1", 3, 3.0)];
        let (value, [low, high]) = of("mean(loss@mean)", &runs, &[1, 2, 3]).unwrap();
        assert!((value - 2.0).abs() < 1e-12);
        assert!((low - (2.0 - 2.4841)).abs() < 1e-3 && (high - (2.0 + 2.4841)).abs() < 1e-3, "{low} {high}");
        assert_eq!(of("mean(loss@mean)", &runs[..1], &[1]), None);
        let alike = [run("1", 1, 5.0), run("1", 2, 5.0)];
        assert_eq!(of("min(loss)", &alike, &[1, 2]), Some((5.0, [5.0, 5.0])));
    }

    /// The least of the points' means is 1.5; seed by seed the least is 1 and 1, which is another thing.
    #[test]
    fn the_value_lies_within_its_own_interval() {
        let runs = [run("1", 1, 1.0), run("1", 2, 2.0), run("2", 1, 2.0), run("2", 2, 1.0)];
        let (value, [low, high]) = of("min(loss@mean)", &runs, &[1, 2]).unwrap();
        // Ways: both of the first seed 1, each once 1.5 (twice), both of the second 1: variance 1/16, doubled; t(1) =
        // 12.706.
        let half = 12.706 * (1.0_f64 / 8.0).sqrt();
        assert!((value - 1.5).abs() < 1e-12);
        assert!((low - (1.5 - half)).abs() < 1e-2 && (high - (1.5 + half)).abs() < 1e-2, "{low} {high}");
    }

    #[test]
    fn a_seed_without_a_number_leaves_it_open() {
        let runs = [run("1", 1, 1.0), run("1", 2, f64::NAN), run("1", 3, 3.0)];
        assert_eq!(of("loss{n=1} - 1", &runs, &[1, 2, 3]), None);
    }

    #[test]
    fn of_many_seeds_ways_are_drawn_and_always_the_same() {
        let runs: Vec<Sample> = (1..=20).map(|seed| run("1", seed, seed as f64)).collect();
        let seeds: Vec<u64> = (1..=20).collect();
        let (value, [low, high]) = of("mean(loss@mean)", &runs, &seeds).unwrap();
        // Standard deviation of 1 to 20 is sqrt(35), t(19) = 2.0930: 10.5 with 2.7688 on either side.
        assert!((value - 10.5).abs() < 1e-12 && (high - 10.5 - 2.7688).abs() < 0.6, "{low} {high}");
        assert_eq!(of("mean(loss@mean)", &runs, &seeds), Some((value, [low, high])));
    }
}
