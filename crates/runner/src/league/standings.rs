//! Standings of a league: which discipline is best by each measure, and by how much.
//!
//! At each point (a scenario and all that is swept but the discipline) and for each figure of a measure, a discipline's
//! *factor* is how many times worse it is than the best there: 1 for the best. Both sides have the measure's *grain*
//! added, below which a difference is none to anybody, so that 0.2 ms against 0.1 ms is no factor of two and zero has
//! one. Over several points factors are combined by their geometric mean, which gives each point the same weight and
//! does not depend on who is taken as the unit.

use std::collections::BTreeMap;

use crate::{Point, RunPlan};

/// Measure by which disciplines are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// Name of the measure, a word or two.
    pub name: &'static str,
    /// Figures that show the measure; figures that a run lacks do not count.
    pub figures: &'static [&'static str],
    /// Whether more is better.
    pub more: bool,
    /// Grain: the amount added to both sides of a factor, in the figure's unit.
    pub grain: f64,
    /// Description of the measure, one line.
    pub about: &'static str,
}

const fn less(
    name: &'static str,
    grain: f64,
    figures: &'static [&'static str],
    about: &'static str,
) -> Measure {
    Measure { name, figures, more: false, grain, about }
}

/// Measures by which disciplines are compared, in order.
pub const MEASURES: &[Measure] = &[
    less(
        "stall",
        0.1,
        &["stall_p99_s", "flow_stall_p99_s"],
        "longest time without a byte, connecting included: 99th percentile of objects and of flows without end",
    ),
    less(
        "small",
        0.1,
        &["small_p50_s", "small_p90_s"],
        "time of an object up to 6 kB: median and 90th percentile",
    ),
    less(
        "large",
        0.5,
        &["large_p50_s", "large_p90_s"],
        "time of an object from 20 kB: median and 90th percentile",
    ),
    Measure {
        name: "Jain 20 s",
        figures: &["jain_20s"],
        more: true,
        grain: 0.01,
        about: "Jain's index of flows without end over 20 s",
    },
    Measure {
        name: "goodput",
        figures: &["goodput_share"],
        more: true,
        grain: 0.01,
        about: "payload delivered over what the link could carry",
    },
    less("wasted", 0.01, &["wasted"], "payload that came to who had it already, over all that came"),
    less(
        "sparse p50",
        0.002,
        &["datagram_delay_p50_s", "write_p50_s"],
        "delay of a sparse flow's packets and of keystrokes: median",
    ),
    less("sparse p99", 0.005, &["datagram_delay_p99_s", "write_p99_s"], "the same: 99th percentile"),
    less("sparse lost", 0.005, &["datagram_loss"], "share of the sparse flow's packets that were lost"),
];

/// Greatest factor that counts as good as the best.
const TIE: f64 = 1.02;

/// One figure of all disciplines at one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Place in [`MEASURES`].
    pub measure: usize,
    /// Name of the figure.
    pub figure: &'static str,
    /// Name of the scenario.
    pub scenario: String,
    /// The other coordinates, as `rate=600kbit users=30`.
    pub point: String,
    /// Medians over seeds, by discipline; `None` for a discipline without value.
    pub values: Vec<Option<f64>>,
    /// Factors by which disciplines are worse than the best. A discipline without value, because no object came to its
    /// end, is twice as bad as the worst of those with one.
    pub factors: Vec<f64>,
}

/// Standing of one discipline over some entries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Geometric mean of the factors.
    pub factor: f64,
    /// Entries in which the discipline was best, or as good as the best.
    pub firsts: usize,
    /// Number of entries.
    pub of: usize,
    /// The greatest factor.
    pub worst: f64,
    /// Entry of the greatest factor, as a place in [`Standings::entries`].
    pub worst_at: usize,
}

/// All comparisons of a league.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standings {
    /// Names of the disciplines.
    pub disciplines: Vec<String>,
    /// Comparisons in the order of scenarios, points, measures.
    pub entries: Vec<Entry>,
}

impl Standings {
    /// Creates empty standings of disciplines, which are named as in plans.
    #[must_use]
    pub fn new(disciplines: Vec<String>) -> Self {
        Self { disciplines, entries: Vec::new() }
    }

    /// Adds the results of a scenario, all figures but those of `without`.
    pub fn add(&mut self, scenario: &str, plan: &RunPlan, points: &[Point], without: &[String]) {
        let Some(axis) = plan.axes.iter().position(|a| a.name == "discipline") else { return };
        let mut groups: Vec<(String, BTreeMap<&str, &Point>)> = Vec::new();
        for point in points {
            let others = plan.axes.iter().zip(&point.coords).enumerate().filter(|(at, _)| *at != axis);
            let name: Vec<String> = others.map(|(_, (a, v))| format!("{}={v}", a.name)).collect();
            let name = name.join(" ");
            let at = groups.iter().position(|(n, _)| *n == name).unwrap_or_else(|| {
                groups.push((name, BTreeMap::new()));
                groups.len() - 1
            });
            groups[at].1.insert(&point.coords[axis], point);
        }
        for (name, by_discipline) in groups {
            for (measure, m) in MEASURES.iter().enumerate() {
                for figure in m.figures.iter().filter(|f| !without.iter().any(|w| w == *f)) {
                    let value = |d: &String| Some(by_discipline.get(d.as_str())?.figures.get(*figure)?[1]);
                    let values: Vec<Option<f64>> = self.disciplines.iter().map(value).collect();
                    if let Some(factors) = factors(m, &values) {
                        let (scenario, point) = (scenario.to_owned(), name.clone());
                        self.entries.push(Entry { measure, figure, scenario, point, values, factors });
                    }
                }
            }
        }
    }

    /// Standing of a discipline in the entries that `which` chooses; `None` if there are none.
    #[must_use]
    pub fn place(&self, discipline: usize, which: impl Fn(&Entry) -> bool) -> Option<Standing> {
        let chosen: Vec<(usize, f64)> = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, e)| which(e))
            .map(|(at, e)| (at, e.factors[discipline]))
            .collect();
        let (worst_at, worst) = chosen.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let sum: f64 = chosen.iter().map(|(_, f)| f.ln()).sum();
        Some(Standing {
            factor: (sum / chosen.len() as f64).exp(),
            firsts: chosen.iter().filter(|(_, f)| *f <= TIE).count(),
            of: chosen.len(),
            worst,
            worst_at,
        })
    }

    /// Disciplines from best to worst by the geometric mean over the measures of their factors in each.
    #[must_use]
    pub fn ranking(&self) -> Vec<usize> {
        let overall = |d: usize| -> f64 {
            let of = |m| self.place(d, |e| e.measure == m).map_or(0.0, |p| p.factor.ln());
            (0..MEASURES.len()).map(of).sum()
        };
        let mut order: Vec<usize> = (0..self.disciplines.len()).collect();
        order.sort_by(|a, b| overall(*a).total_cmp(&overall(*b)));
        order
    }

    /// Names of the scenarios, in the order in which the scenarios were added.
    #[must_use]
    pub fn scenarios(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.entries.iter().map(|e| e.scenario.as_str()).collect();
        all.dedup();
        all
    }
}

/// Factors by which each value is worse than the best; `None` if none is known.
fn factors(measure: &Measure, values: &[Option<f64>]) -> Option<Vec<f64>> {
    let with_grain: Vec<Option<f64>> =
        values.iter().map(|v| v.filter(|v| v.is_finite()).map(|v| v.max(0.0) + measure.grain)).collect();
    let there: Vec<f64> = with_grain.iter().flatten().copied().collect();
    if there.is_empty() {
        return None;
    }
    let best = there.iter().copied().fold(if measure.more { 0.0 } else { f64::INFINITY }, |a, b| {
        if measure.more { a.max(b) } else { a.min(b) }
    });
    let factor = |v: f64| if measure.more { best / v } else { v / best };
    let worst = there.iter().map(|v| factor(*v)).fold(1.0, f64::max);
    Some(with_grain.iter().map(|v| v.map_or(2.0 * worst, factor)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(measure: usize, values: &[f64]) -> Entry {
        let values: Vec<Option<f64>> = values.iter().map(|v| Some(*v).filter(|v| !v.is_nan())).collect();
        let factors = factors(&MEASURES[measure], &values).unwrap();
        Entry {
            measure,
            figure: MEASURES[measure].figures[0],
            scenario: "s".into(),
            point: String::new(),
            values,
            factors,
        }
    }

    /// Stalls of 0.9, 1.9 and 0 s with a grain of 0.1 s: 10, 20 and 1 times the best.
    #[test]
    fn factors_by_hand() {
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near(&entry(0, &[0.9, 1.9, 0.0]).factors, &[10.0, 20.0, 1.0]));
        // More is better: (0.99 + 0.01) / (0.49 + 0.01).
        assert!(near(&entry(3, &[0.49, 0.99]).factors, &[2.0, 1.0]));
        // A run without value is twice as bad as the worst, and never as good as the best.
        assert!(near(&entry(0, &[0.9, f64::NAN, 0.4]).factors, &[2.0, 4.0, 1.0]));
        assert!(near(&entry(0, &[0.4, f64::NAN]).factors, &[1.0, 2.0]));
        assert_eq!(factors(&MEASURES[0], &[None, None]), None);
    }

    /// Factors 10 and 1 against 1 and 40: means sqrt(10) and sqrt(40).
    #[test]
    fn places_by_hand() {
        let mut s = Standings::new(vec!["a".into(), "b".into()]);
        s.entries = vec![entry(0, &[0.9, 0.0]), entry(0, &[0.0, 3.9])];
        let (a, b) = (s.place(0, |_| true).unwrap(), s.place(1, |_| true).unwrap());
        assert!((a.factor - 10.0_f64.sqrt()).abs() < 1e-9 && (b.factor - 40.0_f64.sqrt()).abs() < 1e-9);
        assert_eq!((a.firsts, a.of, a.worst_at), (1, 2, 0));
        assert_eq!((b.firsts, b.worst_at), (1, 1));
        assert_eq!(s.ranking(), [0, 1]);
        assert_eq!(s.place(0, |e| e.measure == 5), None);
        assert_eq!(s.scenarios(), ["s"]);
    }
}
