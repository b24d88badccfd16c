//! Pictures of runs: who waited how long, who stalled, who was served when ([`Picture`]); a figure over what was swept
//! ([`Chart`]); one in given axes, as a paper prints it ([`PaperFigure`]); a plane of two settings by what is to be
//! expected there ([`Bands`]); a network ([`Graph`]); a table in colour ([`Matrix`]); what happened to many connections
//! at the same time ([`Timelines`]), and to one of them ([`Sequence`]); what one process did over time ([`Course`]).
//!
//! A run has three views, because a median hides the disease: the distribution of object times, the share of objects
//! with a stall longer than x (log-log, so that one in a thousand can be read), and for each discipline a map of every
//! user's goodput in every second, in which a stall is a black bar.
//!
//! The drawing is SVG written here (a chart library would spend one element on each of 50 000 map cells and knows no
//! embedded image); the PNG is the same drawing through `resvg` with the machine's fonts.

mod bands;
mod canvas;
mod chart;
mod colour;
mod course;
mod curves;
mod figure;
mod graph;
mod heat;
mod legend;
mod matrix;
mod raster;
mod scale;
mod sequence;
mod swatches;
mod timelines;

use std::path::Path;

use anyhow::Context;

pub use bands::{Band, Bands, bands_svg};
use canvas::{Canvas, Rect, heading};
pub use chart::{Chart, Line, Panel, chart_svg};
pub use colour::dark_rules;
pub use course::{Course, CoursePart, course_svg};
use curves::{Curves, distribution_panel, stall_panel};
pub use figure::{Axes, Curve, PaperFigure, figure_svg};
pub use graph::{Edge, Graph, Node, graph_svg};
use legend::legend_panel;
pub use matrix::{Matrix, matrix_svg};
pub use scale::quantile;
pub use sequence::{Sequence, SequencePanel, StepLine, Strokes, sequence_svg};
pub use swatches::Kind;
pub use timelines::{MOST_TIMELINES, Timeline, Timelines, timelines_svg};

/// Results of runs to draw: curves of waits and stalls, and a map of goodput for each discipline.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Title: the runs in one line.
    pub title: String,
    /// Settings of the runs: rate, users, delay, congestion control, seeds.
    pub subtitle: String,
    /// Name of one row of a map, in the singular, as `user` or `flow`; `user` if empty.
    pub row_name: String,
    /// Results of each discipline, in the order of the table.
    pub series: Vec<DisciplineSeries>,
    /// Rows of a map that belong together, from the top down; none where all are alike.
    pub bands: Vec<RowBand>,
}

/// Rows of a map beside each other.
#[derive(Clone, Debug, Default)]
pub struct RowBand {
    /// Common property of the rows, as `QUIC`.
    pub name: String,
    /// Number of rows.
    pub rows: usize,
}

impl Picture {
    fn row(&self) -> &str {
        if self.row_name.is_empty() { "user" } else { &self.row_name }
    }
}

/// Results of one discipline, of all seeds together.
#[derive(Clone, Debug, Default)]
pub struct DisciplineSeries {
    /// Name of the discipline, as `taq`, `fifo:30` or `kernel:cake`.
    pub name: String,
    /// Time each object took, in seconds.
    pub object_times_s: Vec<f64>,
    /// Longest stall while fetching each object (or of each flow), in seconds.
    pub stalls_s: Vec<f64>,
    /// Stalls of each part of the traffic, as of each transport; empty where there is one part.
    pub stalls_of_parts: Vec<PartStalls>,
    /// Goodput of one run in kbit/s: one row a user or flow, one value a second.
    pub goodput_kbps: Vec<Vec<f32>>,
}

/// Stalls of a part of the traffic.
#[derive(Clone, Debug, Default)]
pub struct PartStalls {
    /// Name of the part, as `QUIC`.
    pub name: String,
    /// Longest stall while fetching each object, in seconds.
    pub stalls_s: Vec<f64>,
}

/// Outcome of drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Reason why there is no PNG, if there is none.
    pub png_missing: Option<String>,
}

/// Width of a page in user units; the PNG has one and a half pixels to each.
const WIDTH: f64 = 1240.0;
const MARGIN: f64 = 36.0;

/// Layout of a picture of runs, in user units.
#[derive(Clone, Copy, Debug)]
struct Layout {
    width: f64,
    margin: f64,
    /// Height of a panel of curves.
    panel: f64,
    /// Whether panels and maps stand below each other.
    one_column: bool,
    /// Whether title and subtitle are drawn.
    headed: bool,
}

impl Layout {
    /// Layout of a file that stands alone, or of a wide page.
    const WIDE: Self = Self { width: WIDTH, margin: MARGIN, panel: 330.0, one_column: false, headed: true };
    /// Layout for a telephone; the page around the picture shows the title.
    const NARROW: Self = Self { width: 400.0, margin: 6.0, panel: 270.0, one_column: true, headed: false };

    fn inner(self) -> f64 {
        self.width - 2.0 * self.margin
    }
}

/// Writes the picture as SVG and, where fonts are found, as PNG. Numbers that are not finite are left out.
///
/// # Errors
/// A file that cannot be written.
pub fn draw(picture: &Picture, svg: &Path, png: &Path) -> anyhow::Result<Drawn> {
    save(&to_svg(picture), svg, png)
}

/// Writes a drawing as SVG and, where fonts are found, as PNG.
///
/// # Errors
/// A file that cannot be written.
pub fn save(text: &str, svg: &Path, png: &Path) -> anyhow::Result<Drawn> {
    std::fs::write(svg, text).with_context(|| format!("writing {}", svg.display()))?;
    let png_missing = match raster::to_png(text) {
        Ok(bytes) => {
            std::fs::write(png, bytes).with_context(|| format!("writing {}", png.display()))?;
            None
        }
        Err(why) => Some(why),
    };
    Ok(Drawn { png_missing })
}

/// Writes a drawing into one file, as SVG or PNG by its ending.
///
/// # Errors
/// An ending that is neither, a file that cannot be written, no fonts for a PNG.
pub fn save_as(text: &str, file: &Path) -> anyhow::Result<()> {
    let ending = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let bytes = match ending {
        "svg" => text.as_bytes().to_vec(),
        "png" => raster::to_png(text).map_err(anyhow::Error::msg)?,
        _ => anyhow::bail!("pictures end in .svg or .png"),
    };
    std::fs::write(file, bytes).with_context(|| format!("writing {}", file.display()))
}

/// The picture as SVG text.
#[must_use]
pub fn to_svg(picture: &Picture) -> String {
    laid_out(picture, Layout::WIDE)
}

/// The picture as SVG text without its title, for a page on a desk that shows the title itself.
#[must_use]
pub fn to_svg_untitled(picture: &Picture) -> String {
    laid_out(picture, Layout { headed: false, ..Layout::WIDE })
}

/// The picture as SVG text in one column without its title, for a page on a telephone that shows the title itself.
#[must_use]
pub fn to_svg_narrow(picture: &Picture) -> String {
    laid_out(picture, Layout::NARROW)
}

fn laid_out(picture: &Picture, layout: Layout) -> String {
    let curves = Curves::of(picture);
    let mut canvas = Canvas::new(layout.width);
    let mut y = 12.0;
    if layout.headed {
        y = heading(&mut canvas, &picture.title, &picture.subtitle, layout.width, layout.margin);
    }
    // Long flows alone have no objects, and their maps name them.
    let curves_needed = picture.series.iter().any(|series| {
        let no_map = series.goodput_kbps.iter().all(Vec::is_empty);
        no_map || !series.object_times_s.is_empty() || !series.stalls_s.is_empty()
    });
    if curves_needed {
        y = distributions(&mut canvas, y, picture, &curves, layout) + 34.0;
    }
    let area = Rect { x: layout.margin, y, w: layout.inner(), h: 0.0 };
    y = heat::maps(&mut canvas, area, layout.one_column, picture, &curves);
    canvas.finish(y + 14.0)
}

/// The curves and who is who; returns where the page may go on.
fn distributions(canvas: &mut Canvas, y: f64, picture: &Picture, curves: &Curves, layout: Layout) -> f64 {
    let panels = panels(picture, curves);
    if layout.one_column {
        let mut y = y;
        for panel in &panels {
            let area = Rect { x: layout.margin, y, w: layout.inner(), h: layout.panel };
            panel.draw(canvas, area, curves);
            y += layout.panel + 12.0;
        }
        let area = Rect { x: layout.margin, y, w: layout.inner(), h: layout.panel };
        return y + legend_panel(canvas, area, curves);
    }
    const CURVES: f64 = 870.0;
    const GAP: f64 = 30.0;
    let each = (CURVES - GAP * (panels.len() - 1) as f64) / panels.len() as f64;
    for (at, panel) in panels.iter().enumerate() {
        let x = layout.margin + at as f64 * (each + GAP);
        panel.draw(canvas, Rect { x, y, w: each, h: layout.panel }, curves);
    }
    let beside = layout.margin + CURVES + GAP;
    let area = Rect { x: beside, y, w: layout.width - layout.margin - beside, h: layout.panel };
    y + legend_panel(canvas, area, curves).max(layout.panel)
}

/// Kind of curves that stand in axes of their own.
enum CurvesOf {
    ObjectTimes,
    /// Longest stall in each one of a kind, named as `object` or `user`.
    Stalls(String),
    /// Longest stall in each object of the part of the traffic at index `place`.
    StallsOfPart {
        place: usize,
        name: String,
    },
}

impl CurvesOf {
    fn draw(&self, canvas: &mut Canvas, area: Rect, curves: &Curves) {
        match self {
            Self::ObjectTimes => distribution_panel(canvas, area, curves),
            Self::Stalls(one) => {
                stall_panel(canvas, area, curves, (&format!("Longest stall in each {one}"), one), |curve| {
                    &curve.stalls
                });
            }
            Self::StallsOfPart { place, name } => {
                let title = format!("Longest stall in each object over {name}");
                stall_panel(canvas, area, curves, (&title, "object"), |curve| {
                    curve.parts.get(*place).map_or(&[], |part| &part.stalls)
                });
            }
        }
    }
}

/// Chooses the curves of a picture. Where the traffic has parts, the stalls of each part tell most.
fn panels(picture: &Picture, curves: &Curves) -> Vec<CurvesOf> {
    let parts = curves.0.iter().map(|c| &c.parts).max_by_key(|parts| parts.len());
    if let Some(parts) = parts.filter(|parts| parts.len() > 1) {
        let panel =
            |(place, part): (usize, &curves::Part)| CurvesOf::StallsOfPart { place, name: part.name.clone() };
        return parts.iter().enumerate().map(panel).collect();
    }
    let objects = curves.0.iter().any(|c| !c.times.is_empty());
    let stalls = curves.0.iter().any(|c| !c.stalls.is_empty());
    if objects || !stalls {
        vec![CurvesOf::ObjectTimes, CurvesOf::Stalls("object".to_owned())]
    } else {
        vec![CurvesOf::Stalls(picture.row().to_owned())]
    }
}

#[cfg(test)]
mod tests;
