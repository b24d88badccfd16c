//! Time-sequence picture of one connection: bytes upwards, time across, as tcptrace draws it (Ostermann). Segments are
//! strokes from their first byte to their last; acknowledged bytes and the edge of the receiver's window are lines in
//! steps.

use super::canvas::{self, Align, Canvas, GREY, GRID, INK, Rect};
use super::scale::{Scale, number};
use super::swatches::{Kind, swatches};
use super::{MARGIN, WIDTH};

/// Picture of the directions of one connection, one below the other over the same time.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// Subject of the page, in one line.
    pub title: String,
    /// Explanation under the title.
    pub subtitle: String,
    /// Key to the colours.
    pub kinds: Vec<Kind>,
    /// Name of the time axis, which says where its zero is; `time, s` if empty.
    pub time: String,
    /// Panels, one below the other, over the same time.
    pub panels: Vec<SequencePanel>,
}

/// One direction of data. Times are in seconds, upwards are bytes.
#[derive(Clone, Debug, Default)]
pub struct SequencePanel {
    /// Name of the direction: the end that sends the data.
    pub title: String,
    /// Times that are shaded: from, to, colour.
    pub shades: Vec<(f64, f64, &'static str)>,
    /// Segments, in the order of drawing.
    pub strokes: Vec<Strokes>,
    /// Drawn behind the strokes.
    pub steps: Vec<StepLine>,
}

/// Segments of one kind.
#[derive(Clone, Debug, Default)]
pub struct Strokes {
    /// Colour of the segments, in the notation of SVG.
    pub colour: &'static str,
    /// Width in units of the page.
    pub width: f64,
    /// Segments: time, first byte, last byte.
    pub at: Vec<(f64, f64, f64)>,
}

/// A line in steps.
#[derive(Clone, Debug, Default)]
pub struct StepLine {
    /// Colour of the line, in the notation of SVG.
    pub colour: &'static str,
    /// Corners of the line: time, and the height from that time on.
    pub at: Vec<(f64, f64)>,
    /// Whether the picture's height must include the whole line.
    pub whole: bool,
}

/// Least distance between two strokes, in units of the page; nearer ones are drawn as one.
const CELL: f64 = 0.5;
const LEFT: f64 = 58.0;

/// The picture as SVG text.
#[must_use]
pub fn sequence_svg(page: &Sequence) -> String {
    let mut canvas = Canvas::new(WIDTH);
    let top = canvas::heading(&mut canvas, &page.title, &page.subtitle, WIDTH, MARGIN) + 4.0;
    let top = swatches(&mut canvas, top, &page.kinds) + 6.0;
    let times = page.panels.iter().flat_map(SequencePanel::times);
    let x = axis(times, (MARGIN + LEFT, WIDTH - MARGIN), 0.0);
    let height = if page.panels.len() > 1 { 330.0 } else { 620.0 };
    let first = Rect { x: MARGIN + LEFT, y: top + 22.0, w: WIDTH - 2.0 * MARGIN - LEFT, h: height };
    let y = canvas::rows(&page.panels, 1, first, (0.0, 78.0), |area, panel| {
        draw(&mut canvas, area, panel, &x);
        let time = if page.time.is_empty() { "time, s" } else { &page.time };
        canvas.text((area.x + area.w / 2.0, area.bottom() + 38.0), time, 12.0, GREY, Align::Middle);
    });
    canvas.finish(y)
}

impl SequencePanel {
    fn times(&self) -> impl Iterator<Item = f64> + '_ {
        let strokes = self.strokes.iter().flat_map(|s| s.at.iter().map(|p| p.0));
        let steps = self.steps.iter().flat_map(|s| s.at.iter().map(|p| p.0));
        strokes.chain(steps).chain(self.shades.iter().flat_map(|s| [s.0, s.1]))
    }

    fn heights(&self) -> impl Iterator<Item = f64> + '_ {
        let strokes = self.strokes.iter().flat_map(|s| s.at.iter().flat_map(|p| [p.1, p.2]));
        strokes.chain(self.steps.iter().filter(|s| s.whole).flat_map(|s| s.at.iter().map(|p| p.1)))
    }
}

pub(super) fn axis(values: impl Iterator<Item = f64>, (from, to): (f64, f64), room: f64) -> Scale {
    let finite = values.filter(|v| v.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    let (low, high) = if low < high { (low, high) } else { (0.0, 1.0) };
    Scale::Even { low, high: high + (high - low) * room, from, to }
}

/// The unit in which bytes up to `most` are read best.
fn unit(most: f64) -> (f64, &'static str) {
    match most {
        m if m >= 5e6 => (1e6, "MB"),
        m if m >= 5e3 => (1e3, "kB"),
        _ => (1.0, "B"),
    }
}

fn draw(canvas: &mut Canvas, area: Rect, panel: &SequencePanel, x: &Scale) {
    let y = axis(panel.heights(), (area.bottom(), area.y), 0.04);
    let Scale::Even { high, .. } = y else { return };
    let (one, name) = unit(high);
    canvas.strong((area.x, area.y - 8.0), &panel.title, 13.0, INK);
    for (from, to, colour) in &panel.shades {
        if from.is_finite() && to.is_finite() && from <= to {
            let from = x.place(*from);
            canvas.fill(Rect { x: from, w: (x.place(*to) - from).max(0.7), ..area }, colour);
        }
    }
    for tick in y.ticks(8.0, 3.0) {
        let at = y.place(tick);
        canvas.line((area.x, at), (area.right(), at), GRID, 1.0, "");
        canvas.text((area.x - 8.0, at + 4.0), &number(tick / one), 11.0, GREY, Align::End);
    }
    for tick in x.ticks(10.0, 3.0) {
        let at = x.place(tick);
        canvas.line((at, area.y), (at, area.bottom() + 5.0), GRID, 1.0, "");
        canvas.text((at, area.bottom() + 19.0), &number(tick), 11.0, GREY, Align::Middle);
    }
    canvas.text_up((area.x - 46.0, area.y + area.h / 2.0), &format!("data, {name}"), 12.0, GREY);
    for steps in &panel.steps {
        for run in line(steps, x, &y, area) {
            canvas.curve(&run, steps.colour, 1.3, "");
        }
    }
    for strokes in &panel.strokes {
        let merged = merged(strokes, x, &y);
        if !merged.is_empty() {
            canvas.strokes(&merged, strokes.colour, strokes.width);
        }
    }
    canvas.frame(area);
}

/// The corners of a line in steps, in pieces that lie within the area.
pub(super) fn line(steps: &StepLine, x: &Scale, y: &Scale, area: Rect) -> Vec<Vec<(f64, f64)>> {
    let (mut runs, mut run) = (Vec::new(), Vec::<(f64, f64)>::new());
    for (at, high) in steps.at.iter().filter(|p| p.0.is_finite() && p.1.is_finite()) {
        let (at, high) = (x.place(*at), y.place(*high));
        if high < area.y {
            if let Some((_, before)) = run.last().copied() {
                run.push((at, before));
            }
            runs.extend((run.len() > 1).then(|| core::mem::take(&mut run)));
            run.clear();
            continue;
        }
        match run.last().copied() {
            // Several in one column: the last is as good.
            Some((latest, _)) if at - latest < CELL && run.len() > 1 => {
                if let Some(last) = run.last_mut() {
                    last.1 = high;
                }
            }
            Some((_, before)) => run.extend([(at, before), (at, high)]),
            None => run.push((at, high)),
        }
    }
    runs.extend((run.len() > 1).then_some(run));
    runs
}

/// Strokes on the page; strokes that touch in one column become one.
fn merged(strokes: &Strokes, x: &Scale, y: &Scale) -> Vec<(f64, f64, f64)> {
    let finite = strokes.at.iter().filter(|p| p.0.is_finite() && p.1.is_finite() && p.2.is_finite());
    let mut places: Vec<(i64, f64, f64)> = finite
        .map(|(at, from, to)| {
            let (low, high) = (y.place(*from), y.place(*to).min(y.place(*from) - 1.0));
            ((x.place(*at) / CELL).round() as i64, high, low)
        })
        .collect();
    places.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut merged: Vec<(i64, f64, f64)> = Vec::new();
    for (column, top, bottom) in places {
        match merged.last_mut() {
            Some(last) if last.0 == column && top <= last.2 + CELL => last.2 = last.2.max(bottom),
            _ => merged.push((column, top, bottom)),
        }
    }
    merged.into_iter().map(|(column, top, bottom)| (column as f64 * CELL, top, bottom)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(at: Vec<(f64, f64, f64)>) -> Sequence {
        let strokes = vec![Strokes { colour: "#111111", width: 2.0, at }];
        let ack =
            StepLine { colour: "#00aa00", at: vec![(0.0, 0.0), (5.0, 1000.0), (10.0, 4000.0)], whole: true };
        let window = StepLine {
            colour: "#0000aa",
            at: vec![(0.0, 2000.0), (5.0, 90_000.0), (8.0, 3000.0)],
            whole: false,
        };
        let panel = SequencePanel {
            strokes,
            steps: vec![ack, window],
            shades: vec![(2.0, 4.0, "#ffeeee")],
            ..SequencePanel::default()
        };
        Sequence { panels: vec![panel], ..Sequence::default() }
    }

    #[test]
    fn segments_lie_where_they_were_and_a_window_beyond_the_page_is_left_out() {
        let svg =
            sequence_svg(&page(vec![(5.0, 0.0, 1000.0), (5.0, 1000.0, 2000.0), (10.0, 3000.0, 4000.0)]));
        // The panel goes from 94 to 1204 and is 620 high from 46 + 10 + 4 + 6 + 22 = 88 on; 4000 bytes and 4 in a
        // hundred take all of it. Half of ten seconds is at 649, 2000 bytes at 708 - 620 * 2000 / 4160 = 409.9.
        assert!(svg.contains("M649.0 409.9V708.0M1204.0 111.8V260.9"), "{svg}");
        // The line of ACKs in steps; the window's line ends where it leaves the page, and begins again.
        assert!(svg.contains("M94.0 708.0L649.0 708.0L649.0 559.0L1204.0 559.0L1204.0 111.8"), "{svg}");
        assert_eq!(svg.matches("#0000aa").count(), 1, "{svg}");
        assert!(svg.contains("width=\"222.0\" height=\"620.0\" fill=\"#ffeeee\""), "{svg}");
    }

    #[test]
    fn many_segments_are_few_strokes_and_whatever_comes_is_drawn() {
        let crowd: Vec<(f64, f64, f64)> =
            (0..100_000).map(f64::from).map(|i| (i / 1e4, i * 40.0, i * 40.0 + 40.0)).collect();
        assert!(sequence_svg(&page(crowd)).len() < 100_000);
        let odd = vec![(f64::NAN, 0.0, 1.0), (1.0, f64::INFINITY, 2.0), (1.0, 5.0, 5.0)];
        for page in [
            Sequence::default(),
            page(odd),
            page(Vec::new()),
            Sequence { panels: vec![SequencePanel::default()], ..Sequence::default() },
        ] {
            let svg = sequence_svg(&page);
            assert!(
                svg.trim_end().ends_with("</svg>") && !svg.contains("NaN") && !svg.contains("inf"),
                "{svg}"
            );
        }
    }
}
