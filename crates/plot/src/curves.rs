//! The two distributions: object times, and the longest stall in each.

use super::Picture;
use super::canvas::{AXIS, Align, Canvas, GREY, GRID, INK, Rect};
use super::colour::{Style, styles};
use super::scale::{LogScale, nice_above, nice_below, number, per_cent};

/// Stalls people notice and stalls people give up at, in seconds.
pub(super) const NOTICED: f64 = 5.0;
/// Stalls at which people give up, in seconds.
pub(super) const GIVEN_UP: f64 = 20.0;

/// One discipline's numbers, finite and sorted.
#[derive(Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) style: Style,
    pub(super) times: Vec<f64>,
    pub(super) stalls: Vec<f64>,
    pub(super) parts: Vec<Part>,
}

/// Part of the traffic; `stalls` are finite and in ascending order.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) stalls: Vec<f64>,
}

/// All disciplines of a picture.
#[derive(Debug)]
pub(super) struct Curves(pub(super) Vec<Curve>);

impl Curves {
    pub(super) fn of(picture: &Picture) -> Self {
        let names: Vec<&str> = picture.series.iter().map(|s| s.name.as_str()).collect();
        let clean = |values: &[f64]| {
            let mut kept: Vec<f64> = values.iter().copied().filter(|v| v.is_finite() && *v >= 0.0).collect();
            kept.sort_by(f64::total_cmp);
            kept
        };
        let curves = picture.series.iter().zip(styles(&names)).map(|(series, style)| Curve {
            name: series.name.clone(),
            style,
            times: clean(&series.object_times_s),
            stalls: clean(&series.stalls_s),
            parts: (series.stalls_of_parts.iter())
                .map(|part| Part { name: part.name.clone(), stalls: clean(&part.stalls_s) })
                .collect(),
        });
        Self(curves.collect())
    }
}

/// Share of the sorted `values` above `limit`.
pub(super) fn share_above(values: &[f64], limit: f64) -> Option<f64> {
    let above = values.len() - values.partition_point(|v| *v <= limit);
    (!values.is_empty()).then(|| above as f64 / values.len() as f64)
}

/// A range of round numbers around the values; never empty, never from zero.
fn range<'a>(values: impl Iterator<Item = &'a f64>, least: f64, usual: (f64, f64)) -> (f64, f64) {
    let (low, high) = values
        .map(|v| v.max(least))
        .fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return usual;
    }
    let (low, high) = (nice_below(low), nice_above(high));
    if low < high { (low, high) } else { (low / 2.0, low * 2.0) }
}

/// Share of objects done within x seconds.
pub(super) fn distribution_panel(canvas: &mut Canvas, area: Rect, curves: &Curves) {
    let plot = frame(canvas, area, "Object time", "share of objects done within this time");
    // Without the fastest 0.5 %: a few lucky objects would squeeze the rest into a corner.
    let most = curves.0.iter().flat_map(|c| &c.times[c.times.len() / 200..]);
    let span = range(most, 0.01, (0.1, 100.0));
    let x = LogScale::new(span, (plot.x, plot.right()));
    let y = |share: f64| plot.bottom() - share * plot.h;
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let words = format!("{:.0} %", share * 100.0);
        grid_line(canvas, plot, y(share), &words);
    }
    time_axis(canvas, plot, &x);
    for curve in curves.0.iter().rev().filter(|c| !c.times.is_empty()) {
        let n = curve.times.len() as f64;
        let mut points = vec![(plot.x, y(0.0))];
        let steps = curve.times.iter().enumerate().map(|(i, t)| (x.place(*t), y((i + 1) as f64 / n)));
        staircase(&mut points, steps);
        points.push((plot.right(), y(1.0)));
        canvas.curve(&points, curve.style.colour, curve.style.width, curve.style.dash);
    }
    if curves.0.iter().all(|c| c.times.is_empty()) {
        say_empty(canvas, plot, "no object was finished");
    }
}

/// Share of objects (or of whatever `one` is) with a stall longer than x seconds; `stalls_of` says which stalls of a
/// discipline.
pub(super) fn stall_panel(
    canvas: &mut Canvas,
    area: Rect,
    curves: &Curves,
    (title, one): (&str, &str),
    stalls_of: impl Fn(&Curve) -> &[f64],
) {
    let plot = frame(canvas, area, title, &format!("share of {one}s with a longer stall"));
    // One scale for all parts of the traffic, so that panels beside each other compare.
    let all = curves.0.iter().flat_map(|c| &c.stalls);
    let (low, high) = range(all, 0.05, (0.1, 100.0));
    let x = LogScale::new((low.min(1.0), high.max(2.0 * GIVEN_UP)), (plot.x, plot.right()));
    let most = curves.0.iter().map(|c| c.stalls.len()).max().unwrap_or(0).max(100);
    let floor = 10f64.powf(-(most as f64).log10().ceil()).max(1e-5);
    let y = LogScale::new((floor, 1.0), (plot.bottom(), plot.y));
    for share in y.ticks(0.0) {
        grid_line(canvas, plot, y.place(share), &per_cent(share));
    }
    time_axis(canvas, plot, &x);
    for limit in [NOTICED, GIVEN_UP] {
        let at = x.place(limit);
        canvas.line((at, plot.y - 4.0), (at, plot.bottom()), INK, 1.0, "2 3");
        canvas.text((at, plot.y - 8.0), &format!("{} s", number(limit)), 11.0, INK, Align::Middle);
    }
    for curve in curves.0.iter().rev().filter(|c| !stalls_of(c).is_empty()) {
        let stalls = stalls_of(curve);
        let n = stalls.len();
        let mut points = vec![(plot.x, y.place(1.0))];
        // Just after the last value nobody is left: the line falls to the floor, which stands for none.
        let steps = stalls.iter().enumerate().map(|(i, s)| {
            let left = (n - i - 1) as f64 / n as f64;
            (x.place(*s), y.place(left.max(floor)))
        });
        staircase(&mut points, steps);
        canvas.curve(&points, curve.style.colour, curve.style.width, curve.style.dash);
    }
    if curves.0.iter().all(|c| stalls_of(c).is_empty()) {
        say_empty(canvas, plot, "no object was finished");
    }
}

/// Appends a step function's corners; steps within half a unit of the page are joined.
fn staircase(points: &mut Vec<(f64, f64)>, steps: impl Iterator<Item = (f64, f64)>) {
    let mut waiting: Option<(f64, f64)> = None;
    for (x, y) in steps {
        match waiting {
            Some((at, _)) if x - at < 0.5 => waiting = Some((at, y)),
            _ => {
                corner(points, waiting);
                waiting = Some((x, y));
            }
        }
    }
    corner(points, waiting);
}

fn corner(points: &mut Vec<(f64, f64)>, step: Option<(f64, f64)>) {
    if let Some((x, y)) = step {
        let level = points.last().map_or(y, |p| p.1);
        points.extend([(x, level), (x, y)]);
    }
}

/// Title and axes' names; returns where to plot.
fn frame(canvas: &mut Canvas, area: Rect, title: &str, y_name: &str) -> Rect {
    let plot = Rect { x: area.x + 64.0, y: area.y + 44.0, w: area.w - 72.0, h: area.h - 94.0 };
    canvas.strong((area.x, area.y + 12.0), title, 14.0, INK);
    canvas.text_up((area.x + 10.0, plot.y + plot.h / 2.0), y_name, 11.0, GREY);
    canvas.text(
        (plot.x + plot.w / 2.0, plot.bottom() + 38.0),
        "seconds (log scale)",
        11.0,
        GREY,
        Align::Middle,
    );
    plot
}

fn grid_line(canvas: &mut Canvas, plot: Rect, y: f64, words: &str) {
    canvas.line((plot.x, y), (plot.right(), y), GRID, 1.0, "");
    canvas.text((plot.x - 8.0, y + 4.0), words, 11.0, GREY, Align::End);
}

fn time_axis(canvas: &mut Canvas, plot: Rect, x: &LogScale) {
    for tick in x.ticks(3.4) {
        let at = x.place(tick);
        canvas.line((at, plot.y), (at, plot.bottom()), GRID, 1.0, "");
        canvas.text((at, plot.bottom() + 18.0), &number(tick), 11.0, GREY, Align::Middle);
    }
    canvas.line((plot.x, plot.bottom()), (plot.right(), plot.bottom()), AXIS, 1.0, "");
}

fn say_empty(canvas: &mut Canvas, plot: Rect, words: &str) {
    canvas.text((plot.x + plot.w / 2.0, plot.y + plot.h / 2.0), words, 12.0, GREY, Align::Middle);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_by_hand() {
        let v: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(share_above(&v, 5.0), Some(0.5));
        assert_eq!(share_above(&v, 20.0), Some(0.0));
        assert_eq!(share_above(&[], 5.0), None);
    }

    #[test]
    fn a_range_is_never_empty() {
        assert_eq!(range([0.0, 0.0].iter(), 0.01, (0.1, 1.0)), (0.005, 0.02));
        assert_eq!(range([].iter(), 0.01, (0.1, 1.0)), (0.1, 1.0));
        let (low, high) = range([3.0, 70.0].iter(), 0.01, (0.1, 1.0));
        assert!((low - 2.0).abs() < 1e-9 && (high - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_step_goes_across_and_then_up() {
        let mut points = vec![(0.0, 10.0)];
        staircase(&mut points, [(1.0, 8.0), (1.2, 7.0), (5.0, 0.0)].into_iter());
        assert_eq!(points, [(0.0, 10.0), (1.0, 10.0), (1.0, 7.0), (5.0, 7.0), (5.0, 0.0)]);
    }
}
