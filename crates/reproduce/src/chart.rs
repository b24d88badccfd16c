//! Turns runs into the points of a chart: plain data, which the page draws and the CSV files hold.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail};
use narrows_runner::{Job, RunPlan, RunReport, table, verdicts};
use narrows_scenario::{Formula, Labels, Sample, number};
use narrows_sim::{Data, Table};
use serde::{Deserialize, Serialize};

use crate::catalogue::{ChartForm, ChartSpec};

/// Points of a line at most: more than a page has places for only makes it large.
const MOST_POINTS: usize = 1500;

/// A chart, ready to be drawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChartData {
    /// Heading of the chart.
    pub title: String,
    /// Name of the axis across.
    pub x_name: String,
    /// Name of the axis up.
    pub y_name: String,
    /// Whether the axis across is logarithmic.
    pub log_x: bool,
    /// Whether the axis up is.
    pub log_y: bool,
    /// Whether points are joined.
    pub joined: bool,
    /// Words at 0, 1, 2 ... across where the axis is no number; else empty.
    pub words: Vec<String>,
    /// Lines.
    pub lines: Vec<ChartLine>,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChartLine {
    /// Name of the line in the legend.
    pub name: String,
    /// Whether the line was read from the paper.
    pub paper: bool,
    /// Across, and up: least of the seeds, what all of them come to, greatest.
    pub points: Vec<[f64; 4]>,
}

/// The charts that `spec` makes of what a plan gave: one for each value of its facets.
///
/// # Errors
/// If the formula, a table or a column does not fit the results.
pub fn charts(
    spec: &ChartSpec,
    plan: &RunPlan,
    report: &RunReport,
    out: &Path,
) -> anyhow::Result<Vec<ChartData>> {
    let points = match spec.form {
        ChartForm::Sweep | ChartForm::Least => sweep(spec, plan, report)?,
        ChartForm::Cdf | ChartForm::Scatter | ChartForm::Series => rows(spec, plan, out)?,
    };
    let words = words(spec, plan, &points);
    let x_scale = if spec.x_scale == 0.0 { 1.0 } else { spec.x_scale };
    let y_scale = if spec.y_scale == 0.0 { 1.0 } else { spec.y_scale };
    let mut charts: Vec<(String, ChartData)> = Vec::new();
    for p in points {
        let across = match &p.x {
            Across::Setting(text) if !words.is_empty() => {
                words.iter().position(|w| w == text).map(|at| at as f64)
            }
            x => x.number().map(|x| x * x_scale),
        };
        let across = across.unwrap_or(f64::NAN);
        let point = [across, p.y[0] * y_scale, p.y[1] * y_scale, p.y[2] * y_scale];
        if point.iter().any(|v| !v.is_finite()) || (spec.x_to > 0.0 && across > spec.x_to) {
            continue;
        }
        let at = charts.iter().position(|(f, _)| *f == p.facet).unwrap_or_else(|| {
            charts.push((p.facet.clone(), empty(spec, &p.facet, &words)));
            charts.len() - 1
        });
        let lines = &mut charts[at].1.lines;
        let at = lines.iter().position(|l| l.name == p.line).unwrap_or_else(|| {
            lines.push(ChartLine { name: p.line.clone(), ..ChartLine::default() });
            lines.len() - 1
        });
        if swept(spec) && lines[at].points.iter().any(|p| p[0] == across) {
            bail!(
                "chart '{}': line '{}' has two values at {}: expected more settings in lines, facets or the formula's \
                 filter",
                spec.title,
                p.line,
                across
            );
        }
        lines[at].points.push(point);
    }
    if charts.is_empty() {
        bail!("chart '{}': no point to draw of '{}' over '{}'", spec.title, spec.y, spec.x);
    }
    Ok(charts.into_iter().map(|(facet, chart)| finished(spec, &facet, chart)).collect())
}

/// The swept settings across, in the order of the file, where not all are numbers or words stand for them.
fn words(spec: &ChartSpec, plan: &RunPlan, points: &[Point]) -> Vec<String> {
    if spec.x_words.is_empty() && points.iter().all(|p| p.x.number().is_some()) {
        return Vec::new();
    }
    let values = plan.axes.iter().find(|a| a.name == spec.x).map(|a| a.values.as_slice());
    let there = |v: &&String| points.iter().any(|p| matches!(&p.x, Across::Setting(x) if x == *v));
    values.unwrap_or_default().iter().filter(there).cloned().collect()
}

/// Tells whether a chart shows the figures of runs, not the tables of runs.
fn swept(spec: &ChartSpec) -> bool {
    matches!(spec.form, ChartForm::Sweep | ChartForm::Least)
}

/// A value of a chart before the value is placed.
struct Point {
    facet: String,
    line: String,
    x: Across,
    y: [f64; 3],
}

/// Where a point stands across.
enum Across {
    /// Value of a table's column.
    At(f64),
    /// Value of a swept setting, which need not be a number.
    Setting(String),
}

impl Across {
    fn number(&self) -> Option<f64> {
        match self {
            Self::At(x) => Some(*x),
            Self::Setting(text) => number(text),
        }
    }
}

fn empty(spec: &ChartSpec, facet: &str, words: &[String]) -> ChartData {
    let or = |name: &str, other: &str| if name.is_empty() { other.to_owned() } else { name.to_owned() };
    let share = if spec.form == ChartForm::Cdf { "share at or below" } else { &spec.y };
    let x_name = or(&spec.x_name, if spec.form == ChartForm::Cdf { &spec.y } else { &spec.x });
    let y_name = or(&spec.y_name, share);
    let title = match (spec.title.as_str(), facet) {
        (title, "") => title.to_owned(),
        // By itself a facet does not say of what it is.
        ("", facet) => of_what(if spec.form == ChartForm::Cdf { &x_name } else { &y_name }) + facet,
        (title, facet) => format!("{title}: {facet}"),
    };
    ChartData {
        title,
        x_name,
        y_name,
        log_x: spec.log.contains('x') && words.is_empty(),
        log_y: spec.log.contains('y'),
        // Between words there is nothing: a line would say that one leads to the next.
        joined: spec.form != ChartForm::Scatter && words.is_empty(),
        words: words.iter().map(|w| spec.x_words.get(w).unwrap_or(w).clone()).collect(),
        lines: Vec::new(),
    }
}

/// How a title begins that names an axis before a facet: with a capital.
pub(crate) fn of_what(axis: &str) -> String {
    let mut letters = axis.chars();
    let capital = letters.next().map_or_else(String::new, |first| first.to_uppercase().collect());
    format!("{capital}{}: ", letters.as_str())
}

fn finished(spec: &ChartSpec, facet: &str, mut chart: ChartData) -> ChartData {
    for line in &mut chart.lines {
        if swept(spec) {
            line.points.sort_by(|a, b| a[0].total_cmp(&b[0]));
        }
        let every = line.points.len().div_ceil(MOST_POINTS).max(1);
        let last = line.points.last().copied();
        line.points = line.points.iter().copied().step_by(every).collect();
        // A distribution ends at its greatest value.
        line.points.extend(last.filter(|l| every > 1 && line.points.last() != Some(l)));
    }
    let here = spec.paper.iter().filter(|p| p.facet.is_empty() || p.facet == facet);
    chart.lines.extend(here.map(|p| ChartLine {
        name: p.name.clone(),
        paper: true,
        points: p.points.iter().map(|[x, y]| [*x, *y, *y, *y]).collect(),
    }));
    chart
}

/// The formula's values: over all seeds as it says, and seed by seed for the range.
fn sweep(spec: &ChartSpec, plan: &RunPlan, report: &RunReport) -> anyhow::Result<Vec<Point>> {
    let samples = verdicts::samples(plan, &report.summaries);
    let (formula, all) = values(spec, &spec.y, &samples)?;
    let told =
        |values: Vec<(Labels, f64)>| if spec.form == ChartForm::Least { least(spec, values) } else { values };
    let all = told(all);
    let across = if spec.x_of.is_empty() { Vec::new() } else { values(spec, &spec.x_of, &samples)?.1 };
    let across: BTreeMap<Labels, f64> = across.into_iter().collect();
    let mut ranges: BTreeMap<Labels, [f64; 2]> = BTreeMap::new();
    for seed in plan.seeds() {
        let of_seed: Vec<Sample> = samples.iter().filter(|s| s.seed == seed).cloned().collect();
        // A seed may lack what another has, as a loss: it then has no part in the range.
        let values = formula.values(&of_seed).unwrap_or_default();
        for (labels, y) in told(values).into_iter().filter(|(_, y)| y.is_finite()) {
            let range = ranges.entry(labels).or_insert([y, y]);
            *range = [range[0].min(y), range[1].max(y)];
        }
    }
    let points = in_order(spec, plan, all).into_iter().map(|(labels, y)| {
        let range = ranges.get(&labels).copied().unwrap_or([y, y]);
        let x = labels.get(&spec.x).cloned().unwrap_or_default();
        if x.is_empty() {
            bail!(
                "chart '{}': nothing is left of '{}' to draw '{}' over: expected a swept setting",
                spec.title,
                spec.x,
                spec.y
            );
        }
        let x = match across.get(&labels) {
            _ if spec.x_of.is_empty() => Across::Setting(x),
            Some(x) => Across::At(*x),
            None => {
                bail!("chart '{}': '{}' has no value at some point of '{}'", spec.title, spec.x_of, spec.y)
            }
        };
        let y = [range[0].min(y), y, range[1].max(y)];
        Ok(Point { facet: facet(spec, &labels), line: line(spec, &labels), x, y })
    });
    points.collect()
}

/// The least of the setting `over` from which on the value comes to `reach`, wherever there is one: a lesser one by
/// which it happens to come there, while a greater one falls short, is not enough.
fn least(spec: &ChartSpec, values: Vec<(Labels, f64)>) -> Vec<(Labels, f64)> {
    let mut lines: BTreeMap<Labels, Vec<(f64, bool)>> = BTreeMap::new();
    for (mut labels, y) in values {
        let Some(at) = labels.remove(&spec.over).and_then(|v| number(&v)) else { continue };
        lines.entry(labels).or_default().push((at, y >= spec.reach));
    }
    let enough = |mut tried: Vec<(f64, bool)>| {
        tried.sort_by(|a, b| b.0.total_cmp(&a.0));
        tried.into_iter().take_while(|(_, enough)| *enough).last().map(|(at, _)| at)
    };
    lines.into_iter().filter_map(|(labels, tried)| Some((labels, enough(tried)?))).collect()
}

/// Labels are sorted by their text; lines stand as the file sweeps their settings.
fn in_order(spec: &ChartSpec, plan: &RunPlan, mut all: Vec<(Labels, f64)>) -> Vec<(Labels, f64)> {
    all.sort_by_key(|(labels, _)| {
        let keys = line_keys(spec, labels);
        let place = |key: &String| {
            let axis = plan.axes.iter().find(|a| a.name == *key)?;
            axis.values.iter().position(|v| labels.get(key) == Some(v))
        };
        spec.facets.iter().chain(&keys).map(place).collect::<Vec<_>>()
    });
    all
}

/// A formula and the formula's values at all points.
fn values(spec: &ChartSpec, text: &str, samples: &[Sample]) -> anyhow::Result<(Formula, Vec<(Labels, f64)>)> {
    let of_chart = || format!("chart '{}'", spec.title);
    let formula = Formula::parse(text).map_err(anyhow::Error::msg).with_context(of_chart)?;
    let values = formula.values(samples).map_err(anyhow::Error::msg).with_context(of_chart)?;
    Ok((formula, values))
}

/// Columns of tables.
fn rows(spec: &ChartSpec, plan: &RunPlan, out: &Path) -> anyhow::Result<Vec<Point>> {
    let mut points = Vec::new();
    let mut distributions: Vec<(String, String, Vec<f64>)> = Vec::new();
    let first = plan.seeds().first().copied();
    for job in &plan.jobs {
        let labels: Labels =
            plan.axes.iter().map(|a| a.name.clone()).zip(job.coords.iter().cloned()).collect();
        let wanted =
            |(k, v): (&String, &String)| labels.get(k).is_some_and(|has| v.split('|').any(|v| has == v));
        // Distributions take all seeds; single points would hide each other.
        if !spec.only.iter().all(wanted) || (spec.form != ChartForm::Cdf && Some(job.seed) != first) {
            continue;
        }
        let (facet, line) = (facet(spec, &labels), line(spec, &labels));
        let table = of_job(spec, job, out)?;
        let mut up = column(&table, &spec.y)?;
        if !spec.y_of.is_empty() {
            up = up.into_iter().zip(column(&table, &spec.y_of)?).map(|(y, of)| y / of).collect();
        }
        if spec.form == ChartForm::Cdf {
            match distributions.iter_mut().find(|(f, l, _)| *f == facet && *l == line) {
                Some((_, _, values)) => values.extend(up),
                None => distributions.push((facet, line, up)),
            }
            continue;
        }
        let by = if spec.by.is_empty() { Vec::new() } else { column(&table, &spec.by)? };
        let pairs = column(&table, &spec.x)?.into_iter().zip(up).enumerate();
        points.extend(pairs.map(|(row, (x, y))| Point {
            facet: facet.clone(),
            line: by.get(row).map_or_else(|| line.clone(), |who| shown(spec, &who.to_string())),
            x: Across::At(x),
            y: [y; 3],
        }));
    }
    for (facet, line, mut values) in distributions {
        values.retain(|v| v.is_finite());
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        points.extend(values.iter().enumerate().map(|(i, v)| Point {
            facet: facet.clone(),
            line: line.clone(),
            x: Across::At(*v),
            y: [(i + 1) as f64 / n; 3],
        }));
    }
    Ok(points)
}

fn of_job(spec: &ChartSpec, job: &Job, out: &Path) -> anyhow::Result<Table> {
    table(out, job, &spec.table)?.with_context(|| {
        format!(
            "chart '{}': no run has a table '{}': see probes in docs/reference/scenarios.md",
            spec.title, spec.table
        )
    })
}

fn column(table: &Table, name: &str) -> anyhow::Result<Vec<f64>> {
    let found = table.columns.iter().find(|c| c.name == name);
    match found.map(|c| &c.data) {
        Some(Data::F64(v)) => Ok(v.clone()),
        Some(Data::U64(v)) => Ok(v.iter().map(|x| *x as f64).collect()),
        Some(Data::Text(_)) => bail!("table '{}': column '{name}' holds no numbers", table.name),
        None => {
            let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
            bail!("table '{}' has no column '{name}': expected one of {}", table.name, names.join(", "))
        }
    }
}

/// Names the settings that tell a line from others: the settings asked for, or all that are left.
fn line_keys(spec: &ChartSpec, labels: &Labels) -> Vec<String> {
    if !spec.lines.is_empty() {
        return spec.lines.clone();
    }
    let left = |k: &&String| **k != spec.x && !spec.facets.contains(k) && !spec.only.contains_key(*k);
    labels.keys().filter(left).cloned().collect()
}

fn line(spec: &ChartSpec, labels: &Labels) -> String {
    worded(spec, &line_keys(spec, labels), labels)
}

/// Writes the settings that tell a chart from others: `rate = 600kbit`, or the words chosen for it.
fn facet(spec: &ChartSpec, labels: &Labels) -> String {
    let words: Vec<String> = spec
        .facets
        .iter()
        .filter_map(|k| Some((k, labels.get(k)?)))
        .map(|(k, v)| spec.names.get(v).cloned().unwrap_or_else(|| format!("{k} = {v}")))
        .collect();
    words.join(", ")
}

/// `taq`, or `taq, 600kbit`.
fn worded(spec: &ChartSpec, keys: &[String], labels: &Labels) -> String {
    let words: Vec<String> = keys.iter().filter_map(|k| labels.get(k)).map(|v| shown(spec, v)).collect();
    words.join(", ")
}

fn shown(spec: &ChartSpec, value: &str) -> String {
    spec.names.get(value).cloned().unwrap_or_else(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn the_least_that_is_enough_by_hand() {
        let spec = ChartSpec { over: "queue".into(), reach: 0.9, ..ChartSpec::default() };
        let at = |n, queue, y| (labels(&[("n", n), ("queue", queue)]), y);
        // Nine is more than ten by its text: they are compared as numbers. With 5 flows nothing is enough.
        let values = vec![at("1", "9", 0.8), at("1", "10", 0.9), at("1", "100", 1.0), at("5", "100", 0.89)];
        assert_eq!(least(&spec, values), [(labels(&[("n", "1")]), 10.0)]);
        // Twenty happens to be enough while forty is not: eighty is the answer.
        let values = vec![at("7", "20", 0.95), at("7", "40", 0.85), at("7", "80", 0.92)];
        assert_eq!(least(&spec, values), [(labels(&[("n", "7")]), 80.0)]);
    }
}
