//! A claim and what came of it: over all seeds, and seed by seed for an interval of confidence.

use narrows_runner::{Plan, Report, verdicts};
use narrows_scenario::{Claim, Labels, Outcome, Sample, Verdict};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::catalogue::Figure;
use crate::section::Size;

/// What a report says of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Rows of the list of experiments that it belongs to, as `B8`.
    pub rows: Vec<String>,
    /// Whether it must hold to the last digit the paper prints.
    pub exact: bool,
    /// Whether it is ours and not the paper's.
    pub own: bool,
    /// The sentence.
    pub text: String,
    /// Where it is from.
    pub source: String,
    /// What the paper has there; empty if it gives no number.
    pub paper: String,
    /// What is computed.
    pub expr: String,
    /// What it must be.
    pub bound: String,
    /// Why it may be off by so much.
    pub why: String,
    /// What came out: `holds`, `direction`, `fails`, or `open` where it could not be judged.
    pub outcome: String,
    /// What the file expects.
    pub expected: String,
    /// The value farthest from the bound, or nearest to breaking it.
    pub worst: Option<f64>,
    /// Where that is.
    pub at: String,
    /// 95 % interval of its mean over the seeds (Student's t), where there are two or more.
    pub interval: Option<[f64; 2]>,
    /// How many values there are.
    pub values: usize,
    /// Why it fails, or why it could not be judged.
    pub reason: String,
}

/// The claims of a plan that is a part of a figure.
#[must_use]
pub fn judged(figure: &Figure, size: Size, plan: &Plan, report: &Report) -> Vec<Judged> {
    let runs = Runs { figure, size, plan, samples: verdicts::samples(plan, &report.summaries) };
    plan.claims
        .iter()
        .zip(&report.verdicts)
        .map(|(claim, verdict)| runs.one(claim, verdict.as_ref()))
        .collect()
}

/// What claims are judged by.
struct Runs<'a> {
    figure: &'a Figure,
    size: Size,
    plan: &'a Plan,
    samples: Vec<Sample>,
}

impl Runs<'_> {
    fn one(&self, claim: &Claim, verdict: Result<&Verdict, &String>) -> Judged {
        let (rows, text) = self.figure.rows_of(&claim.text);
        let mut judged = Judged {
            exact: rows.iter().any(|r| self.figure.exact.contains(r)),
            rows,
            own: claim.source.is_empty() || claim.source.split([' ', ';']).next() == Some("own"),
            text,
            source: claim.source.clone(),
            paper: claim.paper.clone(),
            expr: claim.formula.text().to_owned(),
            bound: claim.bound.to_string(),
            why: claim.why.clone(),
            outcome: "open".to_owned(),
            expected: verdicts::word(claim.expect).to_owned(),
            worst: None,
            at: String::new(),
            interval: None,
            values: 0,
            reason: claim.reason.clone(),
        };
        match verdict {
            Err(why) => judged.reason = unjudged(why, self.size),
            Ok(verdict) => {
                verdicts::word(verdict.outcome).clone_into(&mut judged.outcome);
                judged.worst = Some(verdict.worst.1).filter(|x| x.is_finite());
                judged.at = verdicts::place(&self.varied(&verdict.worst.0));
                judged.values = verdict.elements.len();
                judged.interval = interval(claim, verdict, &self.samples, &self.plan.seeds());
                judged.reason = reason(claim, verdict.outcome, self.size);
            }
        }
        judged
    }

    /// Those labels that have more than one value in the plan: the others tell nothing.
    fn varied(&self, labels: &Labels) -> Labels {
        let varied = |name: &str| {
            let axis = self.plan.axes.iter().find(|a| a.name == name);
            axis.is_none_or(|a| a.values.iter().any(|v| *v != a.values[0]))
        };
        labels.iter().filter(|(name, _)| varied(name)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }
}

fn unjudged(why: &str, size: Size) -> String {
    if size == Size::Full { why.to_owned() } else { "what it compares is not run when cut down".to_owned() }
}

/// Why it is as it is, where it does not simply hold.
fn reason(claim: &Claim, outcome: Outcome, size: Size) -> String {
    let cut = if size == Size::Full { "" } else { "cut down; " };
    match (outcome, claim.expect) {
        (Outcome::Holds, Outcome::Holds) => String::new(),
        (Outcome::Holds, other) => {
            format!("{cut}expected is \"{}\": {}", words_of(verdicts::word(other)), claim.reason)
        }
        (_, Outcome::Holds) if size == Size::Full => {
            "not expected: the file says that it holds, and gives no reason why it should not".to_owned()
        }
        (_, Outcome::Holds) => "cut down: with the seeds and settings of the file it holds".to_owned(),
        _ => claim.reason.clone(),
    }
}

/// A verdict as people read it.
pub(crate) fn words_of(outcome: &str) -> &str {
    match outcome {
        "direction" => "direction only",
        "fails" => "does not hold",
        "open" => "not judged",
        other => other,
    }
}

/// Of the worst value's mean, from what it is with each seed alone.
fn interval(claim: &Claim, verdict: &Verdict, samples: &[Sample], seeds: &[u64]) -> Option<[f64; 2]> {
    let each: Vec<f64> = seeds
        .iter()
        .filter_map(|seed| {
            let of_seed: Vec<Sample> = samples.iter().filter(|s| s.seed == *seed).cloned().collect();
            let values = claim.formula.values(&of_seed).ok()?;
            values.into_iter().find(|(labels, _)| *labels == verdict.worst.0).map(|(_, x)| x)
        })
        .filter(|x| x.is_finite())
        .collect();
    mean_interval(&each)
}

/// The 95 % interval of the mean of normal values; `None` of fewer than two.
fn mean_interval(x: &[f64]) -> Option<[f64; 2]> {
    if x.len() < 2 {
        return None;
    }
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(0.975);
    let half = t * (variance / n).sqrt();
    Some([mean - half, mean + half])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_by_hand() {
        // Mean 2, standard deviation 1, n = 3: t with two degrees of freedom is 4.3027 (any table), over sqrt(3).
        let [low, high] = mean_interval(&[1.0, 2.0, 3.0]).unwrap();
        assert!((low - (2.0 - 2.4841)).abs() < 1e-3 && (high - (2.0 + 2.4841)).abs() < 1e-3, "{low} {high}");
        assert_eq!(mean_interval(&[5.0]), None);
        assert_eq!(mean_interval(&[5.0, 5.0]), Some([5.0, 5.0]));
    }
}
