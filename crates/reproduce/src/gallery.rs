//! A few figures as pictures for a page of text: SVG without script or outside font, and the page that shows them.

use std::path::Path;

use anyhow::{Context as _, bail};
use narrows_plot::{Axes, Curve, figure_svg};
use narrows_scenario::Reading;

use crate::cache::Cache;
use crate::catalogue::{Figure, Paper};
use crate::chart::Chart;
use crate::pages::{Score, less, made, rows_judged, rows_of};
use crate::section::{Section, Size};

/// Charts of a figure that are drawn, where it does not say which.
const CHARTS: usize = 2;
/// Points of a line at most: a picture is looked at, not zoomed into.
const POINTS: usize = 240;

/// Draws those of `chosen` that belong into the gallery into `folder`, from what there is of them, and writes a page of
/// the same name that shows them: `docs/gallery.md` beside `docs/gallery/`.
///
/// # Errors
/// A figure that was not run; a file that cannot be written.
pub fn write(chosen: &[(&Paper, Vec<&Figure>)], cache: &Cache<'_>, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| {
        format!("making {}: choose a folder that can be written with --gallery", folder.display())
    })?;
    let name = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let (mut scores, mut body) = (String::new(), String::new());
    for (paper, figures) in chosen {
        let sections = made(paper, cache)?;
        let rows = rows_judged(&rows_of(paper, &sections));
        let [mut words, variants, ours] = Reading::ALL.map(|r| Score::of_paper(&sections, r).words());
        if let Some(less) = less(&sections) {
            words += &format!(" ({less})");
        }
        scores += &format!("| {} | {words} | {variants} | {ours} | {rows} |\n", paper.short);
        body +=
            &format!("\n## {}\n\n{}, \"{}\", {}.\n", paper.short, paper.authors, paper.title, paper.venue);
        for figure in figures.iter().filter(|f| !f.gallery.is_empty()) {
            let Some((_, section)) = sections.iter().find(|(f, _)| f.id == figure.id) else {
                bail!("{}/{}: not run yet", paper.id, figure.id);
            };
            let file = format!("{}-{}.svg", paper.id, figure.id);
            let path = folder.join(&file);
            std::fs::write(&path, picture(paper, figure, section))
                .with_context(|| format!("writing {}", path.display()))?;
            body += &format!("\n{}\n\n![{}]({name}/{file})\n", figure.gallery, figure.item);
        }
    }
    let page = folder.with_extension("md");
    let text = format!("{HEAD}{scores}{body}");
    std::fs::write(&page, text).with_context(|| format!("writing {}", page.display()))
}

const HEAD: &str = "# Gallery

The papers' key figures, run again and drawn on the papers' own axes. `make gallery` remakes them and this page.
Marks lie between the least and the greatest of the seeds; dashed lines with rings were read from the paper or computed
from its formulas. [`narrows reproduce`](how-to/reproduce.md) has every figure with its data, claims and reasons.

| paper | its sentences | other readings | our own bounds | rows judged |
|---|---|---|---|---|
";

fn picture(paper: &Paper, figure: &Figure, section: &Section) -> String {
    let wanted = |i: usize| {
        if figure.gallery_charts.is_empty() { i < CHARTS } else { figure.gallery_charts.contains(&i) }
    };
    let charts = section.charts.iter().enumerate().filter(|(i, _)| wanted(*i));
    let score = Score::of_reading(&section.claims, Reading::Paper);
    let runs: usize = section.files.iter().map(|f| f.runs).sum();
    let cut = if section.size == Size::Full { "" } else { ", cut down" };
    let subtitle = format!("Its claims: {}. {runs} runs{cut}.", score.words());
    figure_svg(&narrows_plot::Figure {
        title: format!("{}, {}: {}", paper.short, lower(&figure.item), figure.title),
        subtitle,
        panels: charts.map(|(_, chart)| axes(chart)).collect(),
    })
}

/// `Figure 8` within a sentence.
fn lower(item: &str) -> String {
    let mut letters = item.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn axes(chart: &Chart) -> Axes {
    let curve = |line: &crate::Series| {
        let every = line.points.len().div_ceil(POINTS).max(1);
        Curve {
            name: line.name.clone(),
            reference: line.paper,
            points: line.points.iter().copied().step_by(every).collect(),
        }
    };
    Axes {
        title: chart.title.clone(),
        x_name: chart.x_name.clone(),
        y_name: chart.y_name.clone(),
        log_x: chart.log_x,
        log_y: chart.log_y,
        joined: chart.joined,
        words: chart.words.clone(),
        curves: chart.lines.iter().map(curve).collect(),
    }
}
