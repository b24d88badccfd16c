//! Pictures of simulations: a figure over what was swept, series over time, the network.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use narrows_plot::{Chart, Edge, Graph, Line, Node, Panel, chart_svg, graph_svg, save};
use narrows_runner::{Axis, Plan, Point, Report, VERSION, digest};
use narrows_scenario::time_text;

use super::sim_table::main_figures;

/// Figures drawn at most.
const FIGURES: usize = 4;
/// Panels drawn at most.
const PANELS: usize = 12;

/// Draws what came of a plan into its folder, where there is a swept number or a series to draw; gives what to look at.
pub fn write(plan: &Plan, report: &Report, out: &Path, asked: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let (svg, png) = paths(out, &plan.name);
    let panels = over_sweep(plan, report, asked);
    if panels.is_empty() {
        // One of settings before would be taken for these.
        for old in [&svg, &png].into_iter().filter(|p| p.exists()) {
            std::fs::remove_file(old).with_context(|| format!("removing {}", old.display()))?;
        }
        return Ok(Vec::new());
    }
    let seeds = plan.seeds().len();
    let chart = Chart {
        title: if plan.about.is_empty() {
            plan.name.clone()
        } else {
            format!("{}: {}", plan.name, plan.about)
        },
        subtitle: format!(
            "medians and ranges of {seeds} seed{}; narrows {VERSION}",
            if seeds == 1 { "" } else { "s" }
        ),
        panels,
    };
    saved(&chart_svg(&chart), &svg, &png).map(|path| vec![path])
}

/// Draws the network of the plan's first point into `out`.
pub fn network(plan: &Plan, out: &Path) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(out).with_context(|| {
        format!("making {}: choose a folder that can be written with --out", out.display())
    })?;
    let (svg, png) = paths(out, "topology");
    saved(&graph_svg(&graph(plan)), &svg, &png)
}

fn paths(out: &Path, name: &str) -> (PathBuf, PathBuf) {
    (out.join(format!("{name}.svg")), out.join(format!("{name}.png")))
}

fn saved(text: &str, svg: &Path, png: &Path) -> anyhow::Result<PathBuf> {
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
fn over_sweep(plan: &Plan, report: &Report, asked: &[String]) -> Vec<Panel> {
    let numbers = |axis: &Axis| axis.values.iter().map(|v| number(v)).collect::<Option<Vec<_>>>();
    let swept = |(at, axis): (usize, &Axis)| {
        (axis.values.len() > 1 && axis.name != "discipline").then(|| Some((at, numbers(axis)?))).flatten()
    };
    let Some((x_axis, xs)) = plan.axes.iter().enumerate().filter_map(swept).max_by_key(|(_, v)| v.len())
    else {
        return Vec::new();
    };
    let points = digest(plan, &report.summaries);
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
                of_figure.push((facet, Panel { title, x_name, y_name: figure.clone(), lines: Vec::new() }));
                of_figure.len() - 1
            });
            add(&mut of_figure[at].1, &line, (*x, *values));
        }
        panels.extend(of_figure.into_iter().map(|(_, panel)| panel));
    }
    panels.truncate(PANELS);
    panels
}

/// Where a point lies besides the axes drawn: `rate=600kbit`.
fn facet(plan: &Plan, point: &Point, drawn: &[Option<usize>]) -> String {
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

/// The number of a swept value: `5000`, `200kbit`, `1.5ms`; in base units.
fn number(text: &str) -> Option<f64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let value: f64 = text[..split].trim().parse().ok()?;
    let factor = match &text[split..] {
        "" | "bit" | "B" | "s" => 1.0,
        "kbit" | "kB" => 1e3,
        "mbit" | "MB" => 1e6,
        "gbit" | "GB" => 1e9,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    };
    Some(value * factor)
}

fn graph(plan: &Plan) -> Graph {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swept_values_are_numbers() {
        let all: Vec<Option<f64>> =
            ["5000", "200kbit", "1.5ms", "0.2mbit", "taq", "fifo:30"].into_iter().map(number).collect();
        assert_eq!(all, [Some(5000.0), Some(200_000.0), Some(0.0015), Some(200_000.0), None, None]);
    }
}
