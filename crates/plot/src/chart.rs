//! A figure over what was swept: panels of lines, one line a discipline, a bar from the least to the greatest of the
//! seeds.

use super::canvas::{self, AXIS, Align, Canvas, GREY, GRID, INK, Legend, Rect, clip};
use super::colour::{Style, styles};
use super::scale::{LogScale, Scale, number, step};
use super::{MARGIN, WIDTH};

/// Figure of measures over a swept setting, one panel for each measure.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Title: the runs in one line.
    pub title: String,
    /// Settings of the runs.
    pub subtitle: String,
    /// Panels, in reading order.
    pub panels: Vec<Panel>,
}

/// Lines over one axis.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Name of the measure that the panel shows.
    pub title: String,
    /// Name and unit of the horizontal axis.
    pub x_name: String,
    /// Whether the horizontal axis is even whatever its range, as for time; else a wide one is logarithmic.
    pub even: bool,
    /// Name and unit of the vertical axis.
    pub y_name: String,
    /// Whether the vertical axis fits its values, by their logarithm if they are wide; else it has zero on it.
    pub log: bool,
    /// Lines; one name has the same colour in all panels.
    pub lines: Vec<Line>,
}

/// One line.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Name of the line, as `taq`: the discipline that the line shows.
    pub name: String,
    /// x, and the least, the middle and the greatest value there. What is not finite is left out.
    pub points: Vec<(f64, [f64; 3])>,
}

const COLUMNS: usize = 3;
const GAP: f64 = 28.0;
const HEIGHT: f64 = 280.0;
/// Ratio of the ends beyond which an axis of positive numbers is logarithmic.
const LOG_FROM: f64 = 25.0;
/// Least distance between marked points, in units of the page.
const MARKED: f64 = 12.0;

/// The chart as SVG text.
#[must_use]
pub fn chart_svg(chart: &Chart) -> String {
    let mut names: Vec<&str> = Vec::new();
    for line in chart.panels.iter().flat_map(|p| &p.lines) {
        if !names.contains(&line.name.as_str()) {
            names.push(&line.name);
        }
    }
    let looks: Vec<(&str, Style)> = names.iter().copied().zip(styles(&names)).collect();
    let mut canvas = Canvas::new(WIDTH);
    let y = canvas::heading(&mut canvas, &chart.title, &chart.subtitle, WIDTH, MARGIN);
    let y = Legend::CHART.draw(&mut canvas, (WIDTH, MARGIN), y + 4.0, looks.iter().copied()) + 22.0;
    let columns = if chart.panels.len() == 4 { 2 } else { chart.panels.len().clamp(1, COLUMNS) };
    let width = (WIDTH - 2.0 * MARGIN - GAP * (columns as f64 - 1.0)) / columns as f64;
    let first = Rect { x: MARGIN, y, w: width, h: HEIGHT };
    let y = canvas::rows(&chart.panels, columns, first, (GAP, 18.0), |area, one| {
        panel(&mut canvas, area, one, &looks);
    });
    canvas.finish(y)
}

/// Form of an axis: linear or logarithmic, with or without zero.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    /// Linear axis from zero to a tick.
    FromZero,
    /// Linear axis around the values.
    Even,
    /// Linear, or logarithmic if wide.
    Fitting,
}

/// An axis around the values, from `from` to `to` on the page.
fn scale(values: impl Iterator<Item = f64>, kind: Axis, from: f64, to: f64) -> Scale {
    let zero = kind == Axis::FromZero;
    let (low, high) = values
        .filter(|v| v.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return Scale::Even { low: 0.0, high: 1.0, from, to };
    }
    if kind == Axis::Fitting && low > 0.0 && high / low >= LOG_FROM && low > 1e-9 && high < 1e10 {
        return Scale::Log(LogScale::new((low, high), (from, to)));
    }
    let (low, high) = if zero { (low.min(0.0), high.max(0.0)) } else { (low, high) };
    let (low, high) = if high > low { (low, high) } else { (low - 0.5, high + 0.5) };
    if !zero || !(high - low).is_finite() {
        return Scale::Even { low, high: if (high - low).is_finite() { high } else { low + 1.0 }, from, to };
    }
    let step = step(high - low, 5.0);
    Scale::Even { low: (low / step).floor() * step, high: (high / step).ceil() * step, from, to }
}

fn panel(canvas: &mut Canvas, area: Rect, panel: &Panel, looks: &[(&str, Style)]) {
    let plot = Rect { x: area.x + 58.0, y: area.y + 32.0, w: area.w - 66.0, h: area.h - 80.0 };
    canvas.strong((area.x, area.y + 12.0), &clip(&panel.title, area.w, 14.0), 13.0, INK);
    canvas.text_up((area.x + 10.0, plot.y + plot.h / 2.0), &clip(&panel.y_name, plot.h, 11.0), 11.0, GREY);
    canvas.text((plot.x + plot.w / 2.0, plot.bottom() + 36.0), &panel.x_name, 11.0, GREY, Align::Middle);
    let points = || panel.lines.iter().flat_map(|l| &l.points);
    let x = scale(
        points().map(|p| p.0),
        if panel.even { Axis::Even } else { Axis::Fitting },
        plot.x + 6.0,
        plot.right() - 6.0,
    );
    let y = scale(
        points().flat_map(|p| p.1),
        if panel.log { Axis::Fitting } else { Axis::FromZero },
        plot.bottom(),
        plot.y,
    );
    for tick in y.ticks(5.0, 1.6) {
        let at = y.place(tick);
        canvas.line((plot.x, at), (plot.right(), at), GRID, 1.0, "");
        canvas.text((plot.x - 6.0, at + 4.0), &short(tick), 11.0, GREY, Align::End);
    }
    for tick in x.ticks((plot.w / 60.0).max(2.0), 1.6) {
        let at = x.place(tick);
        canvas.line((at, plot.y), (at, plot.bottom()), GRID, 1.0, "");
        canvas.text((at, plot.bottom() + 17.0), &short(tick), 11.0, GREY, Align::Middle);
    }
    canvas.line((plot.x, plot.bottom()), (plot.right(), plot.bottom()), AXIS, 1.0, "");
    let finite = |p: &&(f64, [f64; 3])| p.0.is_finite() && p.1.iter().all(|v| v.is_finite());
    for line in &panel.lines {
        let Some((_, style)) = looks.iter().find(|(name, _)| *name == line.name) else { continue };
        let mut places: Vec<(f64, [f64; 3])> =
            line.points.iter().filter(finite).map(|(at, v)| (x.place(*at), v.map(|v| y.place(v)))).collect();
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        let middle: Vec<(f64, f64)> = places.iter().map(|(x, v)| (*x, v[1])).collect();
        if middle.len() > 1 {
            canvas.curve(&middle, style.colour, style.width, style.dash);
        }
        let sparse = middle.windows(2).all(|w| w[1].0 - w[0].0 >= MARKED);
        for (x, [low, mid, high]) in places.iter().filter(|_| sparse) {
            if (low - high).abs() > 0.5 {
                canvas.line((*x, *low), (*x, *high), style.colour, 1.0, "");
            }
            canvas.fill(Rect { x: x - 2.5, y: mid - 2.5, w: 5.0, h: 5.0 }, style.colour);
        }
    }
}

/// A tick's number, with k, M or G for thousands.
pub(super) fn short(value: f64) -> String {
    let (size, sign) = (value.abs(), if value < 0.0 { "-" } else { "" });
    let (scaled, unit) = match size {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e4 => (v / 1e3, "k"),
        v => (v, ""),
    };
    // Ticks of a fine axis above ten must not fall together.
    let words = if (10.0..1e4).contains(&scaled) && scaled.fract() > 1e-6 {
        format!("{scaled:.1}")
    } else {
        number(scaled)
    };
    format!("{sign}{words}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Points = Vec<(f64, [f64; 3])>;

    fn chart(lines: Vec<(&str, Points)>) -> Chart {
        let lines = lines.into_iter().map(|(name, points)| Line { name: name.into(), points }).collect();
        let panel = Panel {
            title: "t".into(),
            x_name: "share".into(),
            y_name: "jain".into(),
            lines,
            ..Panel::default()
        };
        Chart { title: "name <&>".into(), subtitle: String::new(), panels: vec![panel; 4] }
    }

    #[test]
    fn whatever_comes_is_drawn() {
        let nan = f64::NAN;
        let ordinary = vec![(2.0, [0.1, 0.2, 0.3]), (20.0, [0.5, 0.6, 0.9]), (200.0, [0.9, 0.95, 1.0])];
        for chart in [
            Chart::default(),
            chart(vec![]),
            chart(vec![("taq", vec![])]),
            chart(vec![("taq", vec![(1.0, [1.0; 3])])]),
            chart(vec![("taq", vec![(nan, [1.0; 3]), (1.0, [nan; 3]), (f64::INFINITY, [0.0; 3])])]),
            chart(vec![("taq", vec![(-1e300, [-1e300; 3]), (1e300, [1e300; 3])])]),
            chart(vec![("fifo:30", ordinary.clone()), ("taq", ordinary)]),
        ] {
            let panels = chart.panels.iter().cloned().map(|panel| Panel { log: true, ..panel }).collect();
            for svg in [chart_svg(&Chart { panels, ..chart.clone() }), chart_svg(&chart)] {
                assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn axes_by_hand() {
        // 2 to 200 is two decades: the middle lies half way; 2 to 30 is proportional.
        let log = scale([2.0, 200.0].into_iter(), Axis::Fitting, 0.0, 100.0);
        assert!((log.place(20.0) - 50.0).abs() < 1e-9);
        assert!(matches!(scale([2.0, 200.0].into_iter(), Axis::Even, 0.0, 1.0), Scale::Even { .. }));
        let even = scale([2.0, 30.0].into_iter(), Axis::Fitting, 0.0, 140.0);
        assert!((even.place(16.0) - 70.0).abs() < 1e-9);
        assert_eq!(even.ticks(6.0, 1.6), [5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        // A vertical axis begins at zero and ends at a tick.
        let up = scale([0.3, 0.95].into_iter(), Axis::FromZero, 100.0, 0.0);
        assert!((up.place(0.0) - 100.0).abs() < 1e-9 && up.place(1.0).abs() < 1e-9);
    }

    #[test]
    fn ticks_are_short() {
        let words: Vec<String> =
            [0.0, 0.25, 600_000.0, 1_200_000.0, 12.5, -3.0].into_iter().map(short).collect();
        assert_eq!(words, ["0", "0.25", "600k", "1.2M", "12.5", "-3"]);
    }
}
