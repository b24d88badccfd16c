//! Claims judged by the results: `claims.csv`.

use std::collections::BTreeMap;
use std::path::Path;

use narrows_scenario::{Claim, ClaimOutcome, Judgment, Sample};

use crate::manifest::File;
use crate::{Error, RunPlan, csv, folder};

const COLUMNS: [&str; 13] = [
    "claim", "source", "expr", "bound", "outcome", "expected", "worst", "worst_at", "elements", "why",
    "reason", "sentence", "reading",
];

/// Judges the claims of a plan by the figures of its runs. A claim that cannot be judged, as it names what no run has,
/// has a sentence for a verdict.
#[must_use]
pub fn judge(plan: &RunPlan, summaries: &[BTreeMap<String, f64>]) -> Vec<Result<Judgment, String>> {
    if plan.claims.is_empty() {
        return Vec::new();
    }
    let samples = samples(plan, summaries);
    plan.claims.iter().map(|claim| claim.judge(&samples).map_err(|e| e.to_string())).collect()
}

/// Figures of each run of a plan, in the form for claims and charts.
#[must_use]
pub fn samples(plan: &RunPlan, summaries: &[BTreeMap<String, f64>]) -> Vec<Sample> {
    let sample = |(job, summary): (&crate::Job, &BTreeMap<String, f64>)| Sample {
        coords: plan.axes.iter().map(|a| a.name.clone()).zip(job.coords.iter().cloned()).collect(),
        seed: job.seed,
        metrics: summary.clone(),
    };
    plan.jobs.iter().zip(summaries).map(sample).collect()
}

/// Writes `claims.csv`.
pub(crate) fn write(
    out: &Path,
    plan: &RunPlan,
    verdicts: &[Result<Judgment, String>],
    files: &mut BTreeMap<String, File>,
) -> Result<(), Error> {
    if plan.claims.is_empty() {
        return Ok(());
    }
    let path = out.join("claims.csv");
    let written = csv::Writer::create(&folder::half(&path), COLUMNS).and_then(|mut csv| {
        for (claim, verdict) in plan.claims.iter().zip(verdicts) {
            csv.row(row(claim, verdict).iter().map(String::as_str))?;
        }
        csv.close()
    });
    written.map_err(Error::io("writing", &path))?;
    folder::settle(&path)?;
    let columns = COLUMNS.map(str::to_owned).to_vec();
    files.insert("claims.csv".to_owned(), File { rows: plan.claims.len() as u64, columns });
    Ok(())
}

fn row(claim: &Claim, verdict: &Result<Judgment, String>) -> [String; 13] {
    let (outcome, worst, at, elements) = match verdict {
        Ok(v) => (word(v.outcome), csv::number(v.worst.1), place(&v.worst.0), v.elements.len().to_string()),
        Err(_) => ("cannot be judged", String::new(), String::new(), "0".to_owned()),
    };
    let reason = verdict.as_ref().err().unwrap_or(&claim.reason);
    [
        claim.text.clone(),
        claim.source.clone(),
        claim.formula.text().to_owned(),
        claim.bound.to_string(),
        outcome.to_owned(),
        word(claim.expect).to_owned(),
        worst,
        at,
        elements,
        claim.why.clone(),
        reason.clone(),
        claim.sentence.clone(),
        claim.reading.word().to_owned(),
    ]
}

/// Name of an outcome in the files.
#[must_use]
pub const fn word(outcome: ClaimOutcome) -> &'static str {
    match outcome {
        ClaimOutcome::Holds => "holds",
        ClaimOutcome::Direction => "direction",
        ClaimOutcome::Fails => "fails",
    }
}

/// Labels in words: `discipline=taq share=5000`.
#[must_use]
pub fn place(labels: &narrows_scenario::Labels) -> String {
    let words: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    words.join(" ")
}
