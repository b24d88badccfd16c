//! Course of a process over time: lines in steps, a band of the states it was in, and marks where something happened.

use super::canvas::{self, Align, Canvas, GREY, GRID, INK, Rect, clip};
use super::scale::{Scale, number};
use super::sequence::{StepLine, axis, line};
use super::swatches::{Kind, swatches};
use super::{MARGIN, WIDTH};

/// Page with parts below each other over the same time.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Subject of the page, in one line.
    pub title: String,
    /// Explanation under the title.
    pub subtitle: String,
    /// Key to the colours of lines and bands.
    pub kinds: Vec<Kind>,
    /// Name of the time axis, which says where its zero is.
    pub time: String,
    /// Parts from the top down. Times are in seconds.
    pub parts: Vec<CoursePart>,
    /// Notes below all parts, a line each.
    pub notes: Vec<String>,
}

/// Part of a page.
#[derive(Clone, Debug)]
pub enum CoursePart {
    /// Lines in axes of their own, whose vertical axis has zero on it.
    Lines {
        /// Name of the part.
        title: String,
        /// Name and unit of the vertical axis.
        y_name: String,
        /// Lines, each with its colour. A value that is not finite breaks a line.
        lines: Vec<(&'static str, Vec<(f64, f64)>)>,
    },
    /// States, each from a time to another, with its colour.
    Band {
        /// Name of the part.
        name: String,
        /// Stretches: begin, end and colour.
        stretches: Vec<(f64, f64, &'static str)>,
    },
    /// Times at which something of one kind happened.
    Marks {
        /// Name of what happened.
        name: String,
        /// Times at which the marked event happened.
        at: Vec<f64>,
    },
}

/// Heights of the parts, and the room below axes, in units of the page.
const LINES: f64 = 210.0;
const BAND: f64 = 18.0;
const MARKS: f64 = 17.0;
const BELOW: f64 = 34.0;
/// Room for names beside the parts.
const LEFT: f64 = 124.0;
/// Length of a mark.
const MARK: f64 = 11.0;
/// Least distance of two marks; nearer ones are drawn as one.
const CELL: f64 = 0.5;

/// The page as SVG text.
#[must_use]
pub fn course_svg(page: &Course) -> String {
    let mut canvas = Canvas::new(WIDTH);
    let top = canvas::heading(&mut canvas, &page.title, &page.subtitle, WIDTH, MARGIN) + 4.0;
    let mut y = swatches(&mut canvas, top, &page.kinds) + 6.0;
    let times = page.parts.iter().flat_map(CoursePart::times);
    let x = axis(times, (MARGIN + LEFT, WIDTH - MARGIN), 0.0);
    for part in &page.parts {
        let area = Rect { x: MARGIN + LEFT, y, w: WIDTH - 2.0 * MARGIN - LEFT, h: 0.0 };
        y = part.draw(&mut canvas, area, &x);
    }
    canvas.text((MARGIN + LEFT, y + 14.0), &page.time, 12.0, GREY, Align::Start);
    y += 22.0;
    for note in &page.notes {
        y += 18.0;
        canvas.text((MARGIN, y), &clip(note, WIDTH - 2.0 * MARGIN, 12.0), 12.0, INK, Align::Start);
    }
    canvas.finish(y + 24.0)
}

impl CoursePart {
    fn times(&self) -> Box<dyn Iterator<Item = f64> + '_> {
        match self {
            Self::Lines { lines, .. } => Box::new(lines.iter().flat_map(|line| line.1.iter().map(|p| p.0))),
            Self::Band { stretches, .. } => Box::new(stretches.iter().flat_map(|s| [s.0, s.1])),
            Self::Marks { at, .. } => Box::new(at.iter().copied()),
        }
    }

    /// Draws the part from the top of `area` on; returns where the page goes on.
    fn draw(&self, canvas: &mut Canvas, area: Rect, x: &Scale) -> f64 {
        match self {
            Self::Lines { title, y_name, lines } => {
                let area = Rect { y: area.y + 22.0, h: LINES, ..area };
                canvas.strong((area.x, area.y - 8.0), title, 13.0, INK);
                draw_lines(canvas, area, y_name, lines, x);
                area.bottom() + BELOW
            }
            Self::Band { name, stretches } => {
                let area = Rect { h: BAND, ..area };
                label(canvas, area, name);
                for (from, to, colour) in stretches {
                    if from.is_finite() && to.is_finite() && from <= to {
                        let left = x.place(*from);
                        let w = (x.place(*to) - left).max(0.7);
                        canvas.fill(Rect { x: left, y: area.y + 3.0, w, h: BAND - 6.0 }, colour);
                    }
                }
                area.bottom()
            }
            Self::Marks { name, at } => {
                let area = Rect { h: MARKS, ..area };
                label(canvas, area, name);
                let middle = area.y + MARKS / 2.0;
                canvas.line((area.x, middle), (area.right(), middle), GRID, 1.0, "");
                let mut columns: Vec<i64> = at
                    .iter()
                    .filter(|t| t.is_finite())
                    .map(|t| (x.place(*t) / CELL).round() as i64)
                    .collect();
                columns.sort_unstable();
                columns.dedup();
                let ends = (middle + MARK / 2.0, middle - MARK / 2.0);
                let marks: Vec<_> =
                    columns.into_iter().map(|column| (column as f64 * CELL, ends.0, ends.1)).collect();
                if !marks.is_empty() {
                    canvas.strokes(&marks, INK, 1.4);
                }
                area.bottom()
            }
        }
    }
}

fn label(canvas: &mut Canvas, area: Rect, name: &str) {
    let base = area.y + area.h / 2.0 + 4.0;
    canvas.text((area.x - 8.0, base), &clip(name, LEFT - 8.0, 11.0), 11.0, INK, Align::End);
}

fn draw_lines(
    canvas: &mut Canvas,
    area: Rect,
    y_name: &str,
    lines: &[(&'static str, Vec<(f64, f64)>)],
    x: &Scale,
) {
    let values = lines.iter().flat_map(|line| line.1.iter().map(|p| p.1)).chain([0.0]);
    let y = axis(values, (area.bottom(), area.y), 0.04);
    for tick in y.ticks(6.0, 3.0) {
        let at = y.place(tick);
        canvas.line((area.x, at), (area.right(), at), GRID, 1.0, "");
        canvas.text((area.x - 8.0, at + 4.0), &number(tick), 11.0, GREY, Align::End);
    }
    for tick in x.ticks(10.0, 3.0) {
        let at = x.place(tick);
        canvas.line((at, area.y), (at, area.bottom() + 5.0), GRID, 1.0, "");
        canvas.text((at, area.bottom() + 19.0), &number(tick), 11.0, GREY, Align::Middle);
    }
    canvas.text_up((area.x - 58.0, area.y + area.h / 2.0), y_name, 12.0, GREY);
    for (colour, points) in lines {
        for run in points.split(|p| !(p.0.is_finite() && p.1.is_finite())) {
            let steps = StepLine { colour, at: run.to_vec(), whole: true };
            for run in line(&steps, x, &y, area) {
                canvas.curve(&run, colour, 1.3, "");
            }
        }
    }
    canvas.frame(area);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Course {
        Course {
            title: "t <&>".into(),
            time: "since noon".into(),
            kinds: vec![Kind { name: "known".into(), note: String::new(), colour: "#0000aa" }],
            parts: vec![
                CoursePart::Lines {
                    title: "rate".into(),
                    y_name: "kbit/s".into(),
                    lines: vec![(
                        "#0000aa",
                        vec![(0.0, 100.0), (50.0, 50.0), (60.0, f64::NAN), (80.0, 25.0), (100.0, 25.0)],
                    )],
                },
                CoursePart::Band { name: "side".into(), stretches: vec![(25.0, 75.0, "#aa0000")] },
                CoursePart::Marks { name: "outage".into(), at: vec![50.0, 50.01, 100.0] },
            ],
            notes: vec!["outage: nothing came".into()],
            ..Course::default()
        }
    }

    #[test]
    fn lines_bands_and_marks_lie_where_they_were() {
        let svg = course_svg(&page());
        // Parts go from 36 + 124 = 160 to 1204, 1044 wide: a half of a hundred seconds is at 682. The key begins at
        // 46 + 26 + 10 + 4 and takes 16 and 6, the lines' title 22, so that they go from 130 to 340; 100 of them
        // and 4 in a hundred take all of it: 100 is at 138.1, 50 at 239.0.
        assert!(svg.contains("M160.0 138.1L682.0 138.1L682.0 239.0"), "{svg}");
        // A value that is not known breaks the line.
        assert_eq!(svg.matches("stroke=\"#0000aa\"").count(), 2, "{svg}");
        assert!(
            svg.contains("x=\"421.0\"") && svg.contains("width=\"522.0\" height=\"12.0\" fill=\"#aa0000\""),
            "{svg}"
        );
        // Two marks beside each other are one.
        assert!(svg.contains("\"M682.0 406.0V395.0M1204.0 406.0V395.0\""), "{svg}");
        for words in
            [">rate<", ">side<", ">outage<", ">since noon<", ">outage: nothing came<", "t &lt;&amp;&gt;"]
        {
            assert!(svg.contains(words), "{words}: {svg}");
        }
    }

    #[test]
    fn whatever_comes_is_drawn_and_a_long_course_is_a_small_file() {
        let odd = |n: usize| match n % 5 {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => 1e300,
            _ => n as f64,
        };
        let lines = (0..100).map(|n| (odd(n), odd(n + 1))).collect();
        let parts = vec![
            CoursePart::Lines {
                title: String::new(),
                y_name: String::new(),
                lines: vec![("#0000aa", lines)],
            },
            CoursePart::Band {
                name: "x".repeat(500),
                stretches: vec![(f64::NAN, 1.0, "#aa0000"), (3.0, 1.0, "#aa0000")],
            },
            CoursePart::Marks { name: String::new(), at: vec![f64::NAN, 1.0] },
        ];
        for page in [Course::default(), Course { parts, ..Course::default() }] {
            let svg = course_svg(&page);
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        let many: Vec<(f64, f64)> = (0..200_000).map(|n| (f64::from(n), f64::from(n % 97))).collect();
        let at = many.iter().map(|p| p.0).collect();
        let lines = vec![("#0000aa", many)];
        let parts = vec![
            CoursePart::Lines { title: String::new(), y_name: String::new(), lines },
            CoursePart::Marks { name: String::new(), at },
        ];
        assert!(course_svg(&Course { parts, ..Course::default() }).len() < 300_000);
    }
}
