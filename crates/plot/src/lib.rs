//! Pictures of runs: who waited how long, who stalled, who was served when ([`Picture`]); a figure over what was swept
//! ([`Chart`]); one in given axes, as a paper prints it ([`PaperFigure`]); a plane of two settings by what is to be
//! expected there ([`Bands`]); a network ([`Graph`]); a table in colour ([`Matrix`]); what happened to many connections
//! at the same time ([`Timelines`]), and to one of them ([`Sequence`]).
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
use curves::{Curves, distribution_panel, stall_panel};
pub use figure::{Axes, Curve, PaperFigure, figure_svg};
pub use graph::{Edge, Graph, Node, graph_svg};
use legend::legend_panel;
pub use matrix::{Matrix, matrix_svg};
pub use scale::quantile;
pub use sequence::{Sequence, SequencePanel, StepLine, Strokes, sequence_svg};
pub use swatches::Kind;
pub use timelines::{MOST_TIMELINES, Timeline, Timelines, timelines_svg};

/// What to draw.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// What was run, in one line.
    pub title: String,
    /// Its settings: rate, users, delay, congestion control, seeds.
    pub subtitle: String,
    /// What one row of a map is, in the singular, as `user` or `flow`; `user` if empty.
    pub row_name: String,
    /// One entry a discipline, in the order of the table.
    pub series: Vec<DisciplineSeries>,
}

impl Picture {
    fn row(&self) -> &str {
        if self.row_name.is_empty() { "user" } else { &self.row_name }
    }
}

/// What one discipline did, all seeds together.
#[derive(Clone, Debug, Default)]
pub struct DisciplineSeries {
    /// Its name, as `taq`, `fifo:30` or `kernel:cake`.
    pub name: String,
    /// Time each object took, in seconds.
    pub object_times_s: Vec<f64>,
    /// Longest stall while fetching each object (or of each flow), in seconds.
    pub stalls_s: Vec<f64>,
    /// Goodput of one run in kbit/s: one row a user or flow, one value a second.
    pub goodput_kbps: Vec<Vec<f32>>,
}

/// What came of drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Why there is no PNG, if there is none.
    pub png_missing: Option<String>,
}

/// Width of the page in user units; the PNG has one and a half pixels to each.
const WIDTH: f64 = 1240.0;
const MARGIN: f64 = 36.0;

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
    let curves = Curves::of(picture);
    let mut canvas = Canvas::new(WIDTH);
    let mut y = heading(&mut canvas, &picture.title, &picture.subtitle, WIDTH, MARGIN);
    // Long flows alone have no objects, and their maps name them.
    let curves_needed = picture.series.iter().any(|series| {
        let no_map = series.goodput_kbps.iter().all(Vec::is_empty);
        no_map || !series.object_times_s.is_empty() || !series.stalls_s.is_empty()
    });
    if curves_needed {
        y = distributions(&mut canvas, y, picture, &curves) + 34.0;
    }
    y = heat::maps(&mut canvas, Rect { x: MARGIN, y, w: WIDTH - 2.0 * MARGIN, h: 0.0 }, picture, &curves);
    canvas.finish(y + 14.0)
}

/// The curves side by side and who is who; returns where the page may go on.
fn distributions(canvas: &mut Canvas, y: f64, picture: &Picture, curves: &Curves) -> f64 {
    let height = 330.0;
    let beside = MARGIN + 900.0;
    let panel = |x: f64, w: f64| Rect { x, y, w, h: height };
    let objects = curves.0.iter().any(|c| !c.times.is_empty());
    let stalls = curves.0.iter().any(|c| !c.stalls.is_empty());
    if objects || !stalls {
        distribution_panel(canvas, panel(MARGIN, 420.0), curves);
        stall_panel(canvas, panel(MARGIN + 450.0, 420.0), curves, "object");
    } else {
        stall_panel(canvas, panel(MARGIN, 870.0), curves, picture.row());
    }
    y + legend_panel(canvas, panel(beside, WIDTH - MARGIN - beside), curves).max(height)
}

#[cfg(test)]
mod tests;
