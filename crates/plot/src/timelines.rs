//! Timelines of many connections over the same time: a bar for each, with stretches coloured by their kind.

use super::canvas::{self, AXIS, Align, Canvas, GREY, GRID, INK, Rect, clip, width_of};
use super::scale::{Scale, number};
use super::swatches::{Kind, swatches};
use super::{MARGIN, WIDTH};

/// Bars to draw, one for each connection, over the same time.
#[derive(Clone, Debug, Default)]
pub struct Timelines {
    /// Subject of the page, in one line.
    pub title: String,
    /// Explanation under the title.
    pub subtitle: String,
    /// Key to the colours.
    pub kinds: Vec<Kind>,
    /// Meaning of a bar where no stretch lies; empty leaves it out of the key.
    pub plain: String,
    /// Name of the time axis, which tells where zero is.
    pub time: String,
    /// Bars from the top down. [`MOST_TIMELINES`] fit on a page.
    pub rows: Vec<Timeline>,
    /// Note below the bars about the rows that are not drawn.
    pub rest: String,
}

/// One bar.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Name of the bar.
    pub name: String,
    /// Beginning and end of the bar, in seconds.
    pub span: (f64, f64),
    /// Stretches of the bar: begin, end, and index of the kind.
    pub stretches: Vec<(f64, f64, usize)>,
}

/// Height of all bars together, if they are not too few or too many for it.
const HEIGHT: f64 = 720.0;
/// Heights of a row: the least in which its name can be read, and the most.
const PITCH: (f64, f64) = (13.0, 18.0);
/// Number of rows, names included, that fit on a page.
pub const MOST_TIMELINES: usize = (HEIGHT / PITCH.0) as usize;
/// Greatest width of the names, and the gap behind the names, in units of the page.
const NAMES: f64 = 330.0;
const GAP: f64 = 10.0;
/// A bar where nothing is to be said.
const BAR: &str = "#d3dae0";
/// Least length of a stretch, in units of the page; shorter ones are drawn together with their neighbours.
const CELL: f64 = 1.0;

/// The bars as SVG text.
#[must_use]
pub fn timelines_svg(page: &Timelines) -> String {
    let mut canvas = Canvas::new(WIDTH);
    let top = canvas::heading(&mut canvas, &page.title, &page.subtitle, WIDTH, MARGIN) + 4.0;
    let plain = Kind { name: page.plain.clone(), note: String::new(), colour: BAR };
    let plain = (!page.plain.is_empty()).then_some(plain);
    let kinds: Vec<Kind> = page.kinds.iter().cloned().chain(plain).collect();
    let top = swatches(&mut canvas, top, &kinds) + 6.0;
    let pitch = (HEIGHT / page.rows.len().max(1) as f64).clamp(PITCH.0, PITCH.1);
    let size = (pitch - 4.0).min(11.0);
    let longest = page.rows.iter().map(|r| width_of(&r.name, size)).fold(0.0, f64::max);
    let names = (longest + GAP).min(NAMES);
    let plot = Rect {
        x: MARGIN + names,
        y: top,
        w: WIDTH - 2.0 * MARGIN - names,
        h: pitch * page.rows.len() as f64,
    };
    let finite = page.rows.iter().filter(|r| r.span.0.is_finite() && r.span.1.is_finite());
    let (low, high) =
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), r| (a.min(r.span.0), b.max(r.span.1)));
    let (low, high) = if low < high { (low, high) } else { (0.0, 1.0) };
    let x = Scale::Even { low, high, from: plot.x, to: plot.right() };
    for tick in x.ticks(10.0, 3.0) {
        let at = x.place(tick);
        canvas.line((at, plot.y), (at, plot.bottom() + 5.0), GRID, 1.0, "");
        canvas.text((at, plot.bottom() + 19.0), &number(tick), 11.0, GREY, Align::Middle);
    }
    canvas.line((plot.x, plot.bottom()), (plot.right(), plot.bottom()), AXIS, 1.0, "");
    let time = if page.time.is_empty() { "time, s" } else { &page.time };
    canvas.text((plot.x + plot.w / 2.0, plot.bottom() + 38.0), time, 12.0, GREY, Align::Middle);
    for (row, at) in page.rows.iter().zip(0_u32..) {
        let area = Rect { y: plot.y + f64::from(at) * pitch, h: pitch, ..plot };
        let base = area.y + pitch / 2.0 + size * 0.36;
        canvas.text((plot.x - 8.0, base), &clip(&row.name, NAMES - GAP, size), size, INK, Align::End);
        bar(&mut canvas, area, row, &page.kinds, &x);
    }
    if page.rest.is_empty() {
        return canvas.finish(plot.bottom() + 58.0);
    }
    canvas.text((MARGIN, plot.bottom() + 64.0), &page.rest, 12.0, INK, Align::Start);
    canvas.finish(plot.bottom() + 84.0)
}

fn bar(canvas: &mut Canvas, area: Rect, row: &Timeline, kinds: &[Kind], x: &Scale) {
    if !(row.span.0.is_finite() && row.span.1.is_finite()) {
        return;
    }
    let (y, h) = (area.y + area.h * 0.1, area.h * 0.8);
    let place = |t: f64| x.place(t).clamp(area.x, area.right());
    let from = place(row.span.0);
    canvas.fill(Rect { x: from, y: y + h * 0.3, w: (place(row.span.1) - from).max(0.7), h: h * 0.4 }, BAR);
    // Short stretches share a column, filled as high as their share of its time and coloured by the kind with most of
    // it.
    let columns = (area.w / CELL).ceil() as usize + 1;
    let mut short = vec![Vec::<(usize, f64)>::new(); columns];
    let mut long = Vec::new();
    for &(a, b, kind) in &row.stretches {
        let (a, b) = (place(a), place(b));
        if a.is_nan() || b.is_nan() || a > b || kind >= kinds.len() {
            continue;
        }
        if b - a >= CELL {
            long.push((a, b, kind));
            continue;
        }
        let shares = &mut short[((a - area.x) / CELL) as usize];
        match shares.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, share)) => *share += (b - a) / CELL,
            None => shares.push((kind, (b - a) / CELL)),
        }
    }
    for (shares, at) in short.iter().zip(0_u32..) {
        let most = shares.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((kind, _)) = most {
            let share: f64 = shares.iter().map(|(_, share)| share).sum();
            let high = h * share.clamp(0.3, 1.0);
            let left = area.x + f64::from(at) * CELL;
            canvas.fill(Rect { x: left, y: y + (h - high) / 2.0, w: CELL, h: high }, kinds[*kind].colour);
        }
    }
    for (a, b, kind) in long {
        canvas.fill(Rect { x: a, y, w: b - a, h }, kinds[kind].colour);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Timelines {
        let kind = |name: &str, colour| Kind { name: name.into(), note: "3 s".into(), colour };
        Timelines {
            title: "t <&>".into(),
            kinds: vec![kind("lost", "#aa0000"), kind("idle", "#00aa00")],
            rows: vec![Timeline {
                name: "first".into(),
                span: (0.0, 100.0),
                stretches: vec![(25.0, 75.0, 0), (80.0, 80.001, 1)],
            }],
            ..Timelines::default()
        }
    }

    #[test]
    fn a_stretch_lies_where_it_was() {
        let svg = timelines_svg(&page());
        // Five letters of 11 are 33 wide, with the gap 43: bars begin at 36 + 43 and are 1240 - 72 - 43 = 1125 wide.
        // A quarter is 281.25, a half 562.5. One row is 18 high, its bar 14.4.
        assert!(
            svg.contains("x=\"360.2\"") && svg.contains("width=\"562.5\" height=\"14.4\" fill=\"#aa0000\""),
            "{svg}"
        );
        // A stretch of a thousandth of a second still shows, a third as high.
        assert!(svg.contains("width=\"1.0\" height=\"4.3\" fill=\"#00aa00\""), "{svg}");
        assert!(svg.contains("first") && svg.contains("lost") && svg.contains("3 s"));
    }

    #[test]
    fn every_row_of_a_full_page_has_its_name_and_the_key_names_every_colour() {
        let row = |n: usize| Timeline { name: format!("row {n}."), span: (0.0, 9.0), stretches: Vec::new() };
        let page = Timelines {
            rows: (0..MOST_TIMELINES).map(row).collect(),
            plain: "open".into(),
            time: "since noon".into(),
            rest: "and 3 more".into(),
            ..page()
        };
        let svg = timelines_svg(&page);
        for n in 0..MOST_TIMELINES {
            assert!(svg.contains(&format!("row {n}.")), "{n}");
        }
        for words in [">lost: 3 s<", ">idle: 3 s<", ">open<", ">since noon<", ">and 3 more<"] {
            assert!(svg.contains(words), "{words}");
        }
    }

    #[test]
    fn whatever_comes_is_drawn() {
        let odd = |span, stretches| Timeline { name: "x".repeat(500), span, stretches };
        let rows = vec![
            odd((f64::NAN, 1.0), vec![(0.0, 1.0, 0)]),
            odd((5.0, 5.0), vec![(f64::NAN, 1.0, 0), (4.0, 3.0, 1), (0.0, f64::INFINITY, 0), (1.0, 2.0, 99)]),
        ];
        let crowd = Timelines { rows: vec![odd((0.0, 9.0), vec![(1.0, 2.0, 1)]); 2000], ..page() };
        for page in [Timelines::default(), Timelines { rows, ..page() }, crowd] {
            let svg = timelines_svg(&page);
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
