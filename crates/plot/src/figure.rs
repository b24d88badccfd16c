//! A figure in given axes, as a paper prints it: one panel or a few beside each other, lines with bands or points, and
//! what was read from the paper dashed with rings. Narrow enough to be read in a column of text.

use super::canvas::{self, AXIS, Align, Canvas, GREY, GRID, INK, Legend, Rect, clip};
use super::colour::{Style, styles};
use super::scale::{LogScale, Scale, number};

/// Figure in given axes, as a paper prints it.
#[derive(Clone, Debug, Default)]
pub struct PaperFigure {
    /// Title of the figure.
    pub title: String,
    /// Explanation under the title; broken into lines.
    pub subtitle: String,
    /// Panels beside each other, two in a row.
    pub panels: Vec<Axes>,
}

/// Pair of axes, with the curves between the axes.
#[derive(Clone, Debug, Default)]
pub struct Axes {
    /// Heading of the panel; may be empty.
    pub title: String,
    /// Name and unit of the horizontal axis.
    pub x_name: String,
    /// Name and unit of the vertical axis.
    pub y_name: String,
    /// Whether the axis across is logarithmic.
    pub log_x: bool,
    /// Whether the one upwards is.
    pub log_y: bool,
    /// Whether points are joined.
    pub joined: bool,
    /// Words at 0, 1, 2 ... across where the axis is no number; else empty.
    pub words: Vec<String>,
    /// Curves of the panel; a name has the same colour in all panels.
    pub curves: Vec<Curve>,
}

/// A line, or a cloud of points.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Name of the curve in the legend.
    pub name: String,
    /// Whether the curve was read from the paper.
    pub reference: bool,
    /// Across, and upwards: least, middle, greatest. What an axis cannot hold is left out.
    pub points: Vec<[f64; 4]>,
}

const WIDTH: f64 = 760.0;
const MARGIN: f64 = 24.0;
const GAP: f64 = 20.0;
/// Most points on a line that are marked one by one.
const MARKED: usize = 40;
/// Style of curves that were read from the paper.
const REFERENCE: Style = Style { colour: INK, dash: "5 4", width: 1.6 };

/// The figure as SVG text.
#[must_use]
pub fn figure_svg(figure: &PaperFigure) -> String {
    let mut names: Vec<(&str, bool)> = Vec::new();
    for curve in figure.panels.iter().flat_map(|p| &p.curves) {
        if !names.iter().any(|(name, _)| *name == curve.name) {
            names.push((&curve.name, curve.reference));
        }
    }
    let ours: Vec<&str> = names.iter().filter(|(_, reference)| !reference).map(|(name, _)| *name).collect();
    let mut free = styles(&ours).into_iter();
    let look = |(name, reference): (_, bool)| {
        let own = if reference { None } else { free.next() };
        (name, own.unwrap_or(REFERENCE))
    };
    let looks: Vec<(&str, Style)> = names.into_iter().map(look).collect();
    let mut canvas = Canvas::new(WIDTH);
    let y = heading(&mut canvas, figure);
    let y = legend(&mut canvas, y, &looks);
    let columns = figure.panels.len().clamp(1, 2);
    let width = (WIDTH - 2.0 * MARGIN - GAP * (columns as f64 - 1.0)) / columns as f64;
    let height = if columns == 1 { 340.0 } else { 270.0 };
    let first = Rect { x: MARGIN, y, w: width, h: height };
    let y = canvas::rows(&figure.panels, columns, first, (GAP, 14.0), |area, axes| {
        panel(&mut canvas, area, axes, &looks);
    });
    canvas.finish(y)
}

fn heading(canvas: &mut Canvas, figure: &PaperFigure) -> f64 {
    let mut y = 32.0;
    for line in canvas::wrap(&figure.title, WIDTH - 2.0 * MARGIN, 16.0) {
        canvas.strong((MARGIN, y), &line, 16.0, INK);
        y += 21.0;
    }
    for line in canvas::wrap(&figure.subtitle, WIDTH - 2.0 * MARGIN, 12.5) {
        canvas.text((MARGIN, y), &line, 12.5, GREY, Align::Start);
        y += 17.0;
    }
    y + 8.0
}

/// Draws the legend; draws nothing where no curve has a name.
fn legend(canvas: &mut Canvas, top: f64, looks: &[(&str, Style)]) -> f64 {
    let mut named = looks.iter().copied().filter(|(name, _)| !name.is_empty()).peekable();
    if named.peek().is_none() {
        return top;
    }
    Legend::FIGURE.draw(canvas, (WIDTH, MARGIN), top, named) + 12.0
}

/// A scale around the values, with some room, from `from` to `to` on the page.
fn around(values: impl Iterator<Item = f64>, log: bool, from: f64, to: f64) -> Scale {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    if low > high {
        return Scale::Even { low: 0.0, high: 1.0, from, to };
    }
    if log {
        let room = if high > low { (high / low).powf(0.04) } else { 2.0 };
        return Scale::Log(LogScale::new((low / room, high * room), (from, to)));
    }
    let room = if high > low { 0.04 * (high - low) } else { 0.5 * low.abs().max(1.0) };
    // A scale that nearly begins at nought begins there.
    let foot = if low >= 0.0 && low < 0.3 * high { 0.0 } else { low - room };
    Scale::Even { low: foot, high: high + room, from, to }
}

fn panel(canvas: &mut Canvas, area: Rect, axes: &Axes, looks: &[(&str, Style)]) {
    let plot = Rect { x: area.x + 62.0, y: area.y + 28.0, w: area.w - 70.0, h: area.h - 78.0 };
    canvas.strong((plot.x, area.y + 16.0), &clip(&axes.title, plot.w, 13.0), 13.0, INK);
    let holds = |p: &&[f64; 4]| {
        p.iter().all(|v| v.is_finite()) && (!axes.log_x || p[0] > 0.0) && (!axes.log_y || p[2] > 0.0)
    };
    let points = || axes.curves.iter().flat_map(|c| &c.points).filter(holds);
    let x = if axes.words.is_empty() {
        around(points().map(|p| p[0]), axes.log_x, plot.x, plot.right())
    } else {
        Scale::Even { low: -0.5, high: axes.words.len() as f64 - 0.5, from: plot.x, to: plot.right() }
    };
    let low = |p: &[f64; 4]| if axes.log_y && p[1] <= 0.0 { p[2] } else { p[1] };
    let up = points().flat_map(|p| [low(p), p[2], p[3]]);
    let y = around(up, axes.log_y, plot.bottom(), plot.y);
    grid(canvas, area, plot, axes, (&x, &y));
    for curve in &axes.curves {
        let Some((_, style)) = looks.iter().find(|(name, _)| *name == curve.name) else { continue };
        let at = |p: &[f64; 4]| (x.place(p[0]), [y.place(low(p)), y.place(p[2]), y.place(p[3])]);
        let places: Vec<(f64, [f64; 3])> = curve.points.iter().filter(holds).map(at).collect();
        draw(canvas, axes.joined, curve.reference, *style, &places);
    }
}

fn grid(canvas: &mut Canvas, area: Rect, plot: Rect, axes: &Axes, (x, y): (&Scale, &Scale)) {
    for tick in y.ticks(6.0, 2.2) {
        let at = y.place(tick);
        canvas.line((plot.x, at), (plot.right(), at), GRID, 1.0, "");
        canvas.text((plot.x - 6.0, at + 4.0), &short(tick), 12.0, GREY, Align::End);
    }
    if axes.words.is_empty() {
        for tick in x.ticks((plot.w / 70.0).max(2.0), 2.2) {
            let at = x.place(tick);
            canvas.line((at, plot.y), (at, plot.bottom()), GRID, 1.0, "");
            canvas.text((at, plot.bottom() + 17.0), &short(tick), 12.0, GREY, Align::Middle);
        }
    }
    let each = plot.w / axes.words.len().max(1) as f64;
    for (i, word) in axes.words.iter().enumerate() {
        let at = x.place(i as f64);
        canvas.text((at, plot.bottom() + 17.0), &clip(word, each, 12.0), 12.0, GREY, Align::Middle);
    }
    canvas.line((plot.x, plot.bottom()), (plot.right(), plot.bottom()), AXIS, 1.0, "");
    let middle = plot.x + plot.w / 2.0;
    canvas.text((middle, plot.bottom() + 36.0), &clip(&axes.x_name, plot.w, 12.0), 12.0, INK, Align::Middle);
    canvas.text_up(
        (area.x + 14.0, plot.y + plot.h / 2.0),
        &clip(&axes.y_name, plot.h + 40.0, 12.0),
        12.0,
        INK,
    );
}

fn draw(canvas: &mut Canvas, joined: bool, reference: bool, style: Style, places: &[(f64, [f64; 3])]) {
    let middle: Vec<(f64, f64)> = places.iter().map(|(x, v)| (*x, v[1])).collect();
    if joined && middle.len() > 1 {
        canvas.curve(&middle, style.colour, style.width, style.dash);
    }
    for (x, [low, mid, high]) in places.iter().filter(|_| !joined || places.len() <= MARKED) {
        if joined && (low - high).abs() > 0.5 {
            canvas.line((*x, *low), (*x, *high), style.colour, 1.0, "");
        }
        if reference {
            canvas.ring((*x, *mid), 3.4, style.colour, 1.4);
        } else {
            let half = if joined { 2.5 } else { 1.2 };
            canvas.fill(Rect { x: x - half, y: mid - half, w: 2.0 * half, h: 2.0 * half }, style.colour);
        }
    }
}

/// A tick's number; thousands in full below ten thousand.
fn short(value: f64) -> String {
    let (size, sign) = (value.abs(), if value < 0.0 { "-" } else { "" });
    match size {
        v if v >= 1e6 => format!("{sign}{} M", number(v / 1e6)),
        v if v >= 1e4 => format!("{sign}{} k", number(v / 1e3)),
        v if v >= 10.0 && v.fract() > 1e-6 => format!("{sign}{v:.1}"),
        v if v > 0.0 && v < 0.001 => format!("{sign}{v:.0e}"),
        v => format!("{sign}{}", number(v)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, reference: bool, points: &[[f64; 4]]) -> Curve {
        Curve { name: name.into(), reference, points: points.to_vec() }
    }

    #[test]
    fn every_curve_is_drawn_and_named_once() {
        let ours = curve("ours", false, &[[1.0, 0.1, 0.2, 0.3], [10.0, 0.4, 0.5, 0.6]]);
        let paper = curve("the paper", true, &[[1.0, 0.2, 0.2, 0.2], [10.0, 0.5, 0.5, 0.5]]);
        let axes = Axes { joined: true, log_x: true, curves: vec![ours, paper], ..Axes::default() };
        let svg = figure_svg(&PaperFigure { panels: vec![axes.clone(), axes], ..PaperFigure::default() });
        assert_eq!(svg.matches("<path").count(), 4, "two curves in each of two panels");
        assert_eq!(svg.matches("<circle").count(), 4, "rings mark the paper's points");
        assert_eq!((svg.matches(">ours<").count(), svg.matches(">the paper<").count()), (1, 1));
    }

    #[test]
    fn whatever_comes_is_drawn() {
        let odd = [[f64::NAN, 1.0, 1.0, 1.0], [-1.0, 0.0, 0.0, 0.0], [0.0, -1.0, 5.0, f64::INFINITY]];
        for points in [&odd[..], &odd[1..2], &[]] {
            for (log, joined) in [(false, true), (true, false), (true, true)] {
                let curves = vec![curve("a < b", false, points)];
                let axes = Axes { log_x: log, log_y: log, joined, curves, ..Axes::default() };
                let words = Axes { words: vec!["x".into()], ..axes.clone() };
                let svg = figure_svg(&PaperFigure { panels: vec![axes, words], ..PaperFigure::default() });
                assert!(svg.starts_with("<svg") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                assert!(!svg.contains("script") && !svg.contains("a < b"), "{svg}");
            }
        }
    }

    #[test]
    fn an_axis_by_hand() {
        // 0.1 to 1: a thirtieth part of room above, and its foot at nought.
        let up = around([0.1, 1.0].into_iter(), false, 100.0, 0.0);
        assert!((up.place(0.0) - 100.0).abs() < 1e-9 && (up.place(1.036) - 0.0).abs() < 1e-9);
        assert_eq!(up.ticks(6.0, 2.2), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0].map(|t: f64| (t * 5.0).round() * 0.2));
        let words = [0.0, 0.25, 12.5, 1500.0, 20_000.0, 1.5e6, -3.0, 0.0001].map(short);
        assert_eq!(words, ["0", "0.25", "12.5", "1500", "20 k", "1.5 M", "-3", "1e-4"]);
    }
}
