//! From an outcome to its picture.

use std::path::{Path, PathBuf};

use narrows_plot::{DisciplineSeries, Picture, draw};

use super::scenario::{Scenario, Traffic};
use super::suite::{DisciplineOutcome, Outcome};

/// Draws `OUT/NAME.svg` and, where the machine has fonts, `OUT/NAME.png`; gives the path to look at, and why there is
/// no PNG if so.
///
/// # Errors
/// If a file cannot be written.
pub fn write(outcome: &Outcome, out: &Path) -> anyhow::Result<(PathBuf, Option<String>)> {
    let scenario = &outcome.scenario;
    let path = |extension: &str| out.join(format!("{}.{extension}", scenario.name));
    let (svg, png) = (path("svg"), path("png"));
    let drawn = draw(&picture(outcome), &svg, &png)?;
    Ok(match drawn.png_missing {
        None => (png, None),
        some => (svg, some),
    })
}

fn picture(outcome: &Outcome) -> Picture {
    let scenario = &outcome.scenario;
    let title = if scenario.about.is_empty() {
        scenario.name.clone()
    } else {
        format!("{}: {}", scenario.name, scenario.about)
    };
    let flows = scenario.traffic.iter().all(|t| matches!(t, Traffic::Long { .. }));
    Picture {
        title,
        subtitle: subtitle(outcome),
        row_name: if flows { "flow" } else { "user" }.to_owned(),
        series: outcome
            .disciplines
            .iter()
            .filter(|d| !d.runs.is_empty())
            .map(|d| series(scenario, d))
            .collect(),
    }
}

fn subtitle(outcome: &Outcome) -> String {
    let s = &outcome.scenario;
    let seeds: usize = outcome.disciplines.iter().map(|d| d.runs.len()).max().unwrap_or(0);
    format!(
        "{}, {} ms of propagation, packets up to {} B, {}, {} s, {seeds} seed{}; narrows {} on Linux {}",
        s.rate,
        s.rtt.secs() * 1e3,
        s.mtu,
        s.congestion_control,
        s.duration.secs(),
        if seeds == 1 { "" } else { "s" },
        outcome.version,
        outcome.kernel,
    )
}

/// Distributions over all seeds, the map of the first.
fn series(scenario: &Scenario, d: &DisciplineOutcome) -> DisciplineSeries {
    let warmup = scenario.warmup.secs();
    let objects = || d.runs.iter().flat_map(|r| &r.record.client.objects).filter(move |o| o.end > warmup);
    // Beside objects, a flow's longest stall of the whole run would be a number of another kind.
    let long = d.runs.iter().flat_map(|r| &r.record.client.long).filter(|_| objects().next().is_none());
    let kbps = |bytes: &u32| (f64::from(*bytes) * 8.0 / 1e3) as f32;
    DisciplineSeries {
        name: d.discipline.clone(),
        object_times_s: objects().filter_map(|o| Some(o.done? - o.start)).collect(),
        stalls_s: objects().map(|o| o.stall).chain(long.map(|l| l.stall)).collect(),
        goodput_kbps: d
            .runs
            .first()
            .map(|r| r.record.client.bins.iter().map(|row| row.iter().map(kbps).collect()).collect())
            .unwrap_or_default(),
    }
}
