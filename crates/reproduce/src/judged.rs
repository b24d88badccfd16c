//! A claim and what came of it: over all seeds, and seed by seed for an interval of confidence.

use narrows_runner::{Plan, Report, verdicts};
use narrows_scenario::{Claim, Labels, Outcome, Sample, Verdict};
use serde::{Deserialize, Serialize};

use crate::catalogue::Figure;
use crate::interval::interval;
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
    /// Its 95 % interval over the seeds, where there are two or more and all have a value.
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
            Err(why) => judged.reason = self.unjudged(claim, why),
            Ok(verdict) => {
                verdicts::word(verdict.outcome).clone_into(&mut judged.outcome);
                judged.worst = Some(verdict.worst.1).filter(|x| x.is_finite());
                judged.at = verdicts::place(&self.varied(&verdict.worst.0));
                judged.values = verdict.elements.len();
                judged.interval = interval(&claim.formula, &verdict.worst, &self.samples, &self.plan.seeds());
                judged.reason = reason(claim, verdict.outcome, self.size);
            }
        }
        judged
    }

    /// Why it could not be judged: a run cut down lacks points, but each has all figures.
    fn unjudged(&self, claim: &Claim, why: &str) -> String {
        let has = |name: &str| {
            self.samples.iter().any(|s| s.metrics.contains_key(name) || s.coords.contains_key(name))
        };
        if self.size != Size::Full && claim.formula.metrics().into_iter().all(has) {
            return "what it compares is not run when cut down".to_owned();
        }
        why.to_owned()
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

/// Why it is as it is, where it does not simply hold. What the file does not expect nobody has explained yet.
fn reason(claim: &Claim, outcome: Outcome, size: Size) -> String {
    let cut = if size == Size::Full { "" } else { "cut down; " };
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

/// A verdict as people read it.
pub(crate) fn words_of(outcome: &str) -> &str {
    match outcome {
        "direction" => "direction only",
        "fails" => "does not hold",
        "open" => "not judged",
        other => other,
    }
}
