//! A claim and what came of it: over all seeds, and seed by seed for an interval of confidence.

use std::collections::BTreeMap;

use narrows_runner::{RunPlan, RunReport, verdicts};
use narrows_scenario::{Claim, ClaimOutcome, Judgment, Labels, Sample};
use serde::{Deserialize, Serialize};

use crate::catalogue::Figure;
use crate::interval::interval;
use crate::section::Effort;
use crate::together::Together;

/// Verdict on a claim, in the form of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Rows of the list of experiments that the claim belongs to, as `B8`.
    pub rows: Vec<String>,
    /// Whether the claim must hold to the last digit the paper prints.
    pub exact: bool,
    /// Reading of the claim: `paper` for the verdict on a sentence of the paper, `variant` where that sentence is read
    /// otherwise, or `ours`.
    pub reading: String,
    /// Sentence of the paper that the claim judges, as `4.2: light load`; empty if none.
    pub sentence: String,
    /// Claim, in words.
    pub text: String,
    /// Source of the claim, as `TAQ, Fig. 8`, or `own`.
    pub source: String,
    /// Value in the paper; empty if the paper gives no number.
    pub paper: String,
    /// Formula that the claim computes.
    pub expr: String,
    /// Bound that the formula must meet.
    pub bound: String,
    /// Reason why the value may differ by as much as the bound allows.
    pub why: String,
    /// Verdict: `holds`, `direction`, `fails`, or `open` where the claim could not be judged.
    pub outcome: String,
    /// Verdict that the scenario file expects.
    pub expected: String,
    /// The value farthest from the bound, or nearest to breaking it.
    pub worst: Option<f64>,
    /// Settings of the worst value, as `rate=600kbit`, without those that others tell.
    pub at: Vec<String>,
    /// The 95 % interval of the worst value over the seeds, where there are two or more and all have a value.
    pub interval: Option<[f64; 2]>,
    /// Part of chance in the value.
    pub chance: Chance,
    /// Number of values.
    pub values: usize,
    /// Reason why the claim fails, or could not be judged.
    pub reason: String,
}

/// Amount of chance in a value, and the knowledge of that amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Chance {
    /// Seeds differ: the interval says by how much.
    Seeds,
    /// Two or more seeds were run, and every figure of every run is the same to the last bit: nothing in them is drawn.
    None,
    /// One seed was run: nobody knows.
    #[default]
    OneSeed,
    /// Some seeds by themselves give no number.
    Gaps,
}

/// The claims of a plan that is a part of a figure.
#[must_use]
pub fn judged(figure: &Figure, size: Effort, plan: &RunPlan, report: &RunReport) -> Vec<Judged> {
    let samples = verdicts::samples(plan, &report.summaries);
    let drawn = !alike(&samples);
    let runs = Runs { figure, size, plan, together: Together::of(plan), samples, drawn };
    plan.claims
        .iter()
        .zip(&report.verdicts)
        .map(|(claim, verdict)| runs.one(claim, verdict.as_ref()))
        .collect()
}

/// Runs of a figure, by which the figure's claims are judged.
struct Runs<'a> {
    figure: &'a Figure,
    size: Effort,
    plan: &'a RunPlan,
    together: Together<'a>,
    samples: Vec<Sample>,
    /// Whether the seed makes a difference anywhere, as far as is known.
    drawn: bool,
}

impl Runs<'_> {
    fn one(&self, claim: &Claim, verdict: Result<&Judgment, &String>) -> Judged {
        let (rows, text) = self.figure.rows_of(&claim.text);
        let mut judged = Judged {
            exact: rows.iter().any(|r| self.figure.exact.contains(r)),
            rows,
            reading: claim.reading.word().to_owned(),
            sentence: claim.sentence.clone(),
            text,
            source: claim.source.clone(),
            paper: claim.paper.clone(),
            expr: claim.formula.text().to_owned(),
            bound: claim.bound.to_string(),
            why: claim.why.clone(),
            outcome: "open".to_owned(),
            expected: verdicts::word(claim.expect).to_owned(),
            worst: None,
            at: Vec::new(),
            interval: None,
            chance: Chance::OneSeed,
            values: 0,
            reason: claim.reason.clone(),
        };
        match verdict {
            Err(why) => judged.reason = self.unjudged(claim, why),
            Ok(verdict) => {
                verdicts::word(verdict.outcome).clone_into(&mut judged.outcome);
                judged.worst = Some(verdict.worst.1).filter(|x| x.is_finite());
                let place = self.varied(&verdict.worst.0);
                judged.at = place.iter().map(|(name, value)| format!("{name}={value}")).collect();
                judged.values = verdict.elements.len();
                let (at, value) = &verdict.worst;
                judged.interval = interval(&claim.formula, at, *value, &self.samples, &self.plan.seeds());
                judged.chance = match judged.interval {
                    _ if !self.drawn => Chance::None,
                    Some(_) => Chance::Seeds,
                    None if self.plan.seeds().len() < 2 => Chance::OneSeed,
                    None => Chance::Gaps,
                };
                judged.reason = reason(claim, verdict.outcome, self.size);
            }
        }
        judged
    }

    /// Names the reason why a claim could not be judged: a run cut down lacks points, but each has all figures.
    fn unjudged(&self, claim: &Claim, why: &str) -> String {
        let has = |name: &str| {
            self.samples.iter().any(|s| s.metrics.contains_key(name) || s.coords.contains_key(name))
        };
        if self.size != Effort::Full && claim.formula.metrics().into_iter().all(has) {
            return "what it compares is not run when cut down".to_owned();
        }
        why.to_owned()
    }

    /// Keeps the labels that have more than one value in the plan and that no other label tells; the rest tells
    /// nothing.
    fn varied(&self, labels: &Labels) -> Labels {
        let varied = |name: &str| {
            let axis = self.plan.axes.iter().find(|a| a.name == name);
            axis.is_none_or(|a| a.values.iter().any(|v| *v != a.values[0])) && !self.together.is_told(name)
        };
        labels.iter().filter(|(name, _)| varied(name)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }
}

/// Names the reason for the verdict, where the claim does not simply hold. A verdict that the file does not expect has
/// no explanation yet.
fn reason(claim: &Claim, outcome: ClaimOutcome, size: Effort) -> String {
    let cut = if size == Effort::Full { "" } else { "cut down; " };
    let expected = words_of(verdicts::word(claim.expect));
    if outcome == claim.expect {
        return claim.reason.clone();
    }
    let told = format!("{cut}the file expects \"{expected}\"");
    match claim.reason.as_str() {
        "" => format!("{told}; that it came out otherwise is not explained"),
        reason => format!("{told}: {reason}"),
    }
}

/// A verdict in words for people.
pub(crate) fn words_of(outcome: &str) -> &str {
    match outcome {
        "direction" => "direction only",
        "fails" => "does not hold",
        "open" => "not judged",
        other => other,
    }
}

/// Whether each point was run with two seeds or more, which gave the same figures to the last bit.
fn alike(samples: &[Sample]) -> bool {
    let mut points: BTreeMap<&Labels, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        points.entry(&sample.coords).or_default().push(sample);
    }
    let bits = |sample: &Sample| -> Vec<(String, u64)> {
        sample.metrics.iter().map(|(name, value)| (name.clone(), value.to_bits())).collect()
    };
    let same = |of_point: &Vec<&Sample>| {
        of_point.len() > 1 && of_point.iter().all(|sample| bits(sample) == bits(of_point[0]))
    };
    !points.is_empty() && points.values().all(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_drawn_where_all_seeds_are_alike_at_every_point() {
        let run = |n: &str, seed, loss: f64| Sample {
            coords: [("n".to_owned(), n.to_owned())].into(),
            seed,
            metrics: [("loss".to_owned(), loss), ("rtt".to_owned(), f64::NAN)].into(),
        };
        assert!(alike(&[run("1", 1, 0.1), run("1", 2, 0.1), run("9", 1, 0.2), run("9", 2, 0.2)]));
        // One bit of one figure at one point is a draw.
        let next = f64::from_bits(0.2_f64.to_bits() + 1);
        assert!(!alike(&[run("1", 1, 0.1), run("1", 2, 0.1), run("9", 1, 0.2), run("9", 2, next)]));
        // A single seed tells nothing.
        assert!(!alike(&[run("1", 1, 0.1), run("9", 1, 0.2)]));
        assert!(!alike(&[]));
    }
}
