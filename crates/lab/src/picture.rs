//! Picture of an outcome.

use std::ops::Range;
use std::path::{Path, PathBuf};

use narrows_plot::{DisciplineSeries, PartStalls, Picture, RowBand, draw};
use narrows_scenario::Transport;

use super::metrics::transport_name;
use super::scenario::{Scenario, Traffic};
use super::suite::{DisciplineOutcome, Outcome};
use super::table::plain_name;

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

/// Content of the drawing, also for a page that draws it in another width.
pub(crate) fn picture(outcome: &Outcome) -> Picture {
    let scenario = &outcome.scenario;
    let flows = scenario.traffic.iter().all(|t| matches!(t, Traffic::Long { .. }));
    let bands = bands(scenario);
    Picture {
        title: title(scenario).to_owned(),
        subtitle: subtitle(outcome),
        row_name: if flows { "flow" } else { "user" }.to_owned(),
        series: outcome
            .disciplines
            .iter()
            .filter(|d| !d.runs.is_empty())
            .map(|d| series(scenario, d, &bands))
            .collect(),
        bands: bands.iter().map(|band| RowBand { name: band.name(), rows: band.users.len() }).collect(),
    }
}

/// Title of an experiment in one line: the scenario's `about`, or else its name.
pub(crate) fn title(scenario: &Scenario) -> &str {
    if scenario.about.is_empty() { &scenario.name } else { &scenario.about }
}

/// Neighbouring users who load by the same transport.
struct Band {
    transport: Transport,
    users: Range<u32>,
}

impl Band {
    fn name(&self) -> String {
        transport_name(self.transport).to_owned()
    }
}

/// The bands of a scenario with several transports; none where all users have the same.
fn bands(scenario: &Scenario) -> Vec<Band> {
    let mut bands: Vec<Band> = Vec::new();
    for traffic in &scenario.traffic {
        let begin = bands.last().map_or(0, |band| band.users.end);
        let end = begin.saturating_add(traffic.users());
        match bands.last_mut().filter(|band| band.transport == traffic.transport()) {
            Some(band) => band.users.end = end,
            None => bands.push(Band { transport: traffic.transport(), users: begin..end }),
        }
    }
    // With one band there is nothing to tell apart.
    if bands.len() > 1 { bands } else { Vec::new() }
}

fn subtitle(outcome: &Outcome) -> String {
    let s = &outcome.scenario;
    let seeds: usize = outcome.disciplines.iter().map(|d| d.runs.len()).max().unwrap_or(0);
    format!(
        "{}: {}, {} ms of propagation, packets up to {} B, {}, {} s, {seeds} seed{}; narrows {} on Linux {}",
        s.name,
        s.before.as_ref().map_or(s.rate, |link| link.down.mean()),
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
fn series(scenario: &Scenario, d: &DisciplineOutcome, bands: &[Band]) -> DisciplineSeries {
    let warmup = scenario.warmup.secs();
    let objects = || d.runs.iter().flat_map(|r| &r.record.client.objects).filter(move |o| o.end > warmup);
    // Beside objects, a flow's longest stall of the whole run would be a number of another kind.
    let long = d.runs.iter().flat_map(|r| &r.record.client.long).filter(|_| objects().next().is_none());
    let kbps = |bytes: &u32| (f64::from(*bytes) * 8.0 / 1e3) as f32;
    let part = |transport: Transport| {
        let its = |user: u32| scenario.group(user).is_some_and(|group| group.transport() == transport);
        PartStalls {
            name: transport_name(transport).to_owned(),
            stalls_s: objects().filter(|o| its(o.user)).map(|o| o.stall).collect(),
        }
    };
    let apart = Transport::IN_LAB.into_iter().filter(|t| bands.iter().any(|band| band.transport == *t));
    DisciplineSeries {
        name: headed(&d.discipline),
        object_times_s: objects().filter_map(|o| Some(o.done? - o.start)).collect(),
        stalls_s: objects().map(|o| o.stall).chain(long.map(|l| l.stall)).collect(),
        stalls_of_parts: apart.map(part).filter(|part| !part.stalls_s.is_empty()).collect(),
        goodput_kbps: d
            .runs
            .first()
            .map(|r| r.record.client.bins.iter().map(|row| row.iter().map(kbps).collect()).collect())
            .unwrap_or_default(),
    }
}

/// A discipline by its name among people, where it has one, and its setting.
fn headed(discipline: &str) -> String {
    plain_name(discipline).map_or_else(|| discipline.to_owned(), |name| format!("{name} ({discipline})"))
}
