//! Pictures of simulations: a figure over what was swept, series over time, the network.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use narrows_plot::{Chart, Edge, Graph, Line, Node, Panel, chart_svg, graph_svg, quantile, save};
use narrows_runner::{Axis, Job, Middle, Point, RunPlan, RunReport, VERSION, digest, table};
use narrows_scenario::{number, time_text};
use narrows_sim::Data;

use super::table::main_figures;

/// Figures drawn at most.
const FIGURES: usize = 4;
/// Panels drawn at most.
const PANELS: usize = 12;

/// Lines of a panel over time at most.
const MOST_LINES: usize = 8;
/// Samples of a line over time at most.
const MOST_SAMPLES: usize = 1200;

type Points = Vec<(f64, [f64; 3])>;

/// Draws what came of a plan into its folder, where there is a swept number or a series to draw; gives what to look at.
pub fn write(
    plan: &RunPlan,
    report: &RunReport,
    out: &Path,
    asked: &[String],
    middle: Middle,
) -> anyhow::Result<Option<PathBuf>> {
    let (svg, png) = paths(out, &plan.name);
    let seeds = plan.seeds().len();
    let spread = if middle == Middle::Interval { "95 % intervals" } else { "ranges" };
    let mut shown = format!("{}s and {spread} of {seeds} seeds", middle.word());
    let mut panels = over_sweep(plan, report, asked, middle);
    if panels.is_empty() || seeds == 1 {
        shown = format!("seed {}", plan.seeds().first().unwrap_or(&0));
    }
    if panels.is_empty() {
        panels = over_time(plan, out)?;
    }
    if panels.is_empty() {
        // One of settings before would be taken for these.
        for old in [&svg, &png].into_iter().filter(|p| p.exists()) {
            std::fs::remove_file(old).with_context(|| format!("removing {}", old.display()))?;
        }
        return Ok(None);
    }
    let chart = Chart {
        title: if plan.about.is_empty() {
            plan.name.clone()
        } else {
            format!("{}: {}", plan.name, plan.about)
        },
        subtitle: format!("{shown}; narrows {VERSION}"),
        panels,
    };
    saved(&chart_svg(&chart), &svg, &png).map(Some)
}

/// Draws the network of the plan's first point into `out`.
pub fn network(plan: &RunPlan, out: &Path) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(out).with_context(|| {
        format!("making {}: choose a folder that can be written with --out", out.display())
    })?;
    let (svg, png) = paths(out, "topology");
    saved(&graph_svg(&graph(plan)), &svg, &png)
}

fn paths(out: &Path, name: &str) -> (PathBuf, PathBuf) {
    (out.join(format!("{name}.svg")), out.join(format!("{name}.png")))
}

pub fn saved(text: &str, svg: &Path, png: &Path) -> anyhow::Result<PathBuf> {
    let drawn = save(text, svg, png)?;
    Ok(match drawn.png_missing {
        None => png.to_owned(),
        Some(why) => {
            eprintln!("no PNG: {why}");
            svg.to_owned()
        }
    })
}

/// Panels of the main figures over the swept number with the most values, a line for each discipline.
fn over_sweep(plan: &RunPlan, report: &RunReport, asked: &[String], middle: Middle) -> Vec<Panel> {
    let numbers = |axis: &Axis| axis.values.iter().map(|v| number(v)).collect::<Option<Vec<_>>>();
    let swept = |(at, axis): (usize, &Axis)| {
        (axis.values.len() > 1 && axis.name != "discipline").then(|| Some((at, numbers(axis)?))).flatten()
    };
    let Some((x_axis, xs)) = plan.axes.iter().enumerate().filter_map(swept).max_by_key(|(_, v)| v.len())
    else {
        return Vec::new();
    };
    let points = digest(plan, &report.summaries, middle);
    let discipline = plan.axes.iter().position(|a| a.name == "discipline");
    let mut panels = Vec::new();
    for (figure, title) in main_figures(plan, &points, asked).into_iter().take(FIGURES) {
        let mut of_figure: Vec<(String, Panel)> = Vec::new();
        for point in &points {
            let Some(values) = point.figures.get(&figure) else { continue };
            let x = plan.axes[x_axis].values.iter().position(|v| *v == point.coords[x_axis]);
            let Some(x) = x.and_then(|at| xs.get(at)) else { continue };
            let facet = facet(plan, point, &[Some(x_axis), discipline]);
            let line = discipline.map_or_else(|| plan.name.clone(), |at| point.coords[at].clone());
            let at = of_figure.iter().position(|(known, _)| *known == facet).unwrap_or_else(|| {
                let title = if facet.is_empty() { title.clone() } else { format!("{title}, {facet}") };
                let x_name = plan.axes[x_axis].name.clone();
                of_figure.push((facet, Panel { title, x_name, y_name: figure.clone(), ..Panel::default() }));
                of_figure.len() - 1
            });
            add(&mut of_figure[at].1, &line, (*x, *values));
        }
        panels.extend(of_figure.into_iter().map(|(_, panel)| panel));
    }
    panels.truncate(PANELS);
    panels
}

/// Series of the first seed over time, a line for each point.
fn over_time(plan: &RunPlan, out: &Path) -> anyhow::Result<Vec<Panel>> {
    let Some(first) = plan.jobs.first() else { return Ok(Vec::new()) };
    let mut panels: Vec<Panel> = Vec::new();
    for job in plan.jobs.iter().filter(|j| j.seed == first.seed).take(MOST_LINES) {
        let name = if job.coords.is_empty() { plan.name.clone() } else { job.coords.join(" ") };
        let links = &job.scenario.topology.links;
        let Some(slowest) = links.iter().min_by_key(|l| l.rate) else { continue };
        let seconds = job.scenario.probes.interval.as_secs_f64();
        let queue = (format!("{}_pkts", slowest.name), 1.0);
        let carried = (format!("{}_bytes", slowest.name), 8e-3 / seconds);
        let cwnd = ("cwnd_pkts".to_owned(), 1.0);
        for (table, (column, factor), title) in [
            ("queue", queue, "packets queued"),
            ("throughput", carried, "carried, kbit/s"),
            ("cwnd", cwnd, "congestion window, median of flows, packets"),
        ] {
            let Some(points) = series(out, job, table, &column, factor)? else { continue };
            let title = if table == "cwnd" { title.to_owned() } else { format!("{}: {title}", slowest.name) };
            let at = panels.iter().position(|p| p.title == title).unwrap_or_else(|| {
                panels.push(Panel { title, x_name: "seconds".into(), even: true, ..Panel::default() });
                panels.len() - 1
            });
            panels[at].lines.push(Line { name: name.clone(), points });
        }
    }
    Ok(panels)
}

/// A column of a series over its times; where a time has several values, their median.
fn series(out: &Path, job: &Job, name: &str, column: &str, factor: f64) -> anyhow::Result<Option<Points>> {
    let Some(table) = table(out, job, name)? else { return Ok(None) };
    let of = |name: &str| {
        table.columns.iter().find(|c| c.name == name).and_then(|c| match &c.data {
            Data::F64(v) => Some(v.clone()),
            Data::U64(v) => Some(v.iter().map(|x| *x as f64).collect()),
            Data::Text(_) => None,
        })
    };
    let (Some(times), Some(values)) = (of("time_s"), of(column)) else { return Ok(None) };
    let all: Vec<(f64, f64)> = times.into_iter().zip(values).collect();
    let mut points: Points = all
        .chunk_by(|a, b| a.0 == b.0)
        .map(|at| {
            let mut values: Vec<f64> = at.iter().map(|p| p.1 * factor).collect();
            values.sort_by(f64::total_cmp);
            (at[0].0, [quantile(&values, 0.5).unwrap_or(f64::NAN); 3])
        })
        .collect();
    // More than the page has places for only makes the file large.
    let every = points.len().div_ceil(MOST_SAMPLES).max(1);
    points = points.into_iter().step_by(every).collect();
    Ok(Some(points))
}

/// Coordinates of a point besides the axes drawn: `rate=600kbit`.
fn facet(plan: &RunPlan, point: &Point, drawn: &[Option<usize>]) -> String {
    let others = plan.axes.iter().zip(&point.coords).enumerate();
    let words: Vec<String> = others
        .filter(|(at, _)| !drawn.contains(&Some(*at)))
        .map(|(_, (axis, value))| format!("{}={value}", axis.name))
        .collect();
    words.join(" ")
}

fn add(panel: &mut Panel, name: &str, point: (f64, [f64; 3])) {
    match panel.lines.iter_mut().find(|l| l.name == name) {
        Some(line) => line.points.push(point),
        None => panel.lines.push(Line { name: name.to_owned(), points: vec![point] }),
    }
}

fn graph(plan: &RunPlan) -> Graph {
    let Some(job) = plan.jobs.first() else { return Graph::default() };
    let topology = &job.scenario.topology;
    // Senders first: the picture begins with them.
    let first = job.scenario.traffic.first().map_or(0, |t| t.from);
    let mut groups: Vec<usize> = (0..topology.hosts.len()).collect();
    groups.sort_by_key(|g| (*g != first, *g));
    let mut nodes: Vec<Node> = groups
        .iter()
        .map(|g| &topology.hosts[*g])
        .map(|h| Node {
            name: h.name.clone(),
            about: format!("{} host{}", h.count, if h.count == 1 { "" } else { "s" }),
            host: true,
        })
        .collect();
    let hosts = nodes.len();
    nodes.extend(topology.nodes.iter().map(|n| Node { name: n.clone(), about: String::new(), host: false }));
    let mut edges: Vec<Edge> = Vec::new();
    for (at, group) in groups.iter().map(|g| &topology.hosts[*g]).enumerate() {
        let (low, high) = (group.delay.low, group.delay.high);
        let delay =
            if low == high { time_text(low) } else { format!("{}..{}", time_text(low), time_text(high)) };
        let label = vec![group.rate.to_string(), delay];
        edges.push(Edge { from: at, to: hosts + group.at, label, strong: false });
    }
    for (at, link) in topology.links.iter().enumerate() {
        // The way back is told with the way there.
        if link.back.is_some_and(|back| back < at) {
            continue;
        }
        let mut label = vec![
            format!("{}: {}, {}", link.name, link.rate, time_text(link.delay)),
            format!("queue {}", link.discipline),
        ];
        if let Some(back) = link.back.and_then(|b| topology.links.get(b)) {
            label.push(format!("back: {}, {}", back.rate, back.discipline));
        }
        edges.push(Edge { from: hosts + link.from, to: hosts + link.to, label, strong: true });
    }
    Graph { title: format!("{}: network", plan.name), subtitle: plan.about.clone(), nodes, edges }
}
