//! A few figures as pictures for a page of text: SVG without script or outside font, and the page that shows them.

use std::path::Path;

use anyhow::{Context as _, bail};
use narrows_plot::{Axes, Curve, figure_svg};
use narrows_scenario::Reading;

use crate::cache::Cache;
use crate::catalogue::{Figure, Paper};
use crate::chart::{ChartData, of_what};
use crate::pages::{Made, Score, less, made, rows_judged, rows_of};
use crate::section::{Effort, Section};

/// Number of charts drawn of a figure that does not name its charts.
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
    let (mut scores, mut missed, mut body) = (String::new(), String::new(), String::new());
    let mut total = Score::default();
    for (paper, figures) in chosen {
        let sections = made(paper, cache)?;
        let rows = rows_judged(&rows_of(paper, &sections));
        let [score, variants, ours] = Reading::ALL.map(|r| Score::of_paper(&sections, r));
        let mut words = score.words();
        if let Some(less) = less(&sections) {
            words += &format!(" ({less})");
        }
        let (variants, ours) = (variants.words(), ours.words());
        scores +=
            &format!("| {} | {} | {words} | {variants} | {ours} | {rows} |\n", paper.short, share(score));
        total = total + score;
        missed += &not_reproduced(paper, &sections);
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
    let all = format!("| together | {} | {} | | | |\n", share(total), total.words());
    let text = format!("{HEAD}{SCORES}{scores}{all}{MISSED}{missed}{body}");
    std::fs::write(&page, text).with_context(|| format!("writing {}", page.display()))
}

const HEAD: &str = "# Gallery

The papers' key figures, run again and drawn on the papers' own axes. `make gallery` remakes them and this page.
Marks lie between the least and the greatest of the seeds; dashed lines with rings were read from the paper or computed
from its formulas. [`narrows reproduce`](how-to/reproduce.md) has every figure with its data, claims and reasons.
";

const SCORES: &str = "
| paper | reproduced | its sentences | other readings | our own bounds | rows judged |
|---|---|---|---|---|---|
";

const MISSED: &str = "
*Reproduced*: holds, or holds in direction.

## What is not reproduced

Sentences of the papers that do not hold, and those of which only the direction does. In brackets where it is judged.

";

/// Writes the share of judged claims that hold, at least in direction, as a whole percentage; `-` if none was judged.
fn share(score: Score) -> String {
    let judged = score.holds + score.direction + score.fails;
    if judged == 0 {
        return "-".to_owned();
    }
    // To the nearest whole.
    format!("{} %", (200 * (score.holds + score.direction) + judged) / (2 * judged))
}

/// A paper's sentences that do not hold, and behind them those that do in direction only.
fn not_reproduced(paper: &Paper, sections: &[Made<'_>]) -> String {
    let of = |outcome: &str| -> Vec<String> {
        let claims = sections.iter().flat_map(|(f, s)| s.claims.iter().map(move |c| (f, c)));
        let missed = claims.filter(|(_, c)| c.reading == Reading::Paper.word() && c.outcome == outcome);
        missed.map(|(figure, c)| format!("{} ({})", sentence(&c.sentence, &c.text), figure.id)).collect()
    };
    let part = |what: &str, sentences: &[String]| {
        if sentences.is_empty() { String::new() } else { format!("  - {what}: {}.\n", sentences.join("; ")) }
    };
    let parts = part("not", &of("fails")) + &part("in direction only", &of("direction"));
    if parts.is_empty() { parts } else { format!("- **{}**\n{parts}", paper.short) }
}

/// The sentence that a claim judges; the claim itself if the claim names no sentence.
fn sentence<'a>(sentence: &'a str, claim: &'a str) -> &'a str {
    if sentence.is_empty() { claim } else { sentence }
}

fn picture(paper: &Paper, figure: &Figure, section: &Section) -> String {
    let wanted = |i: usize| {
        if figure.gallery_charts.is_empty() { i < CHARTS } else { figure.gallery_charts.contains(&i) }
    };
    let charts = section.charts.iter().enumerate().filter(|(i, _)| wanted(*i));
    let score = Score::of_reading(&section.claims, Reading::Paper);
    let runs: usize = section.files.iter().map(|f| f.runs).sum();
    let cut = if section.size == Effort::Full { "" } else { ", cut down" };
    let subtitle = format!("Its claims: {}. {runs} runs{cut}.", score.words());
    figure_svg(&narrows_plot::PaperFigure {
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

fn axes(chart: &ChartData) -> Axes {
    let curve = |line: &crate::ChartLine| {
        let every = line.points.len().div_ceil(POINTS).max(1);
        Curve {
            name: line.name.clone(),
            reference: line.paper,
            points: line.points.iter().copied().step_by(every).collect(),
        }
    };
    // The axes of a small picture stand close enough to its title.
    let bare =
        [&chart.x_name, &chart.y_name].into_iter().find_map(|axis| chart.title.strip_prefix(&of_what(axis)));
    Axes {
        title: bare.unwrap_or(&chart.title).to_owned(),
        x_name: chart.x_name.clone(),
        y_name: chart.y_name.clone(),
        log_x: chart.log_x,
        log_y: chart.log_y,
        joined: chart.joined,
        words: chart.words.clone(),
        curves: chart.lines.iter().map(curve).collect(),
    }
}
