//! The scores as a table and as a picture.

use std::fmt::Write as _;

use crate::scoreboard::Scores;
use crate::scoreboard::truth::POINTS;

/// Writes a table by class and point: how often the class was, precision, recall.
pub(crate) fn csv(title: &str, scores: &[(&str, Scores)]) -> String {
    let mut text = format!("# {title}\nclass,senders,point,number,precision,recall\n");
    for (senders, scores) in scores {
        for (name, points) in scores {
            for (point, s) in POINTS.iter().zip(points).filter(|(_, s)| s.truth > 0 || s.said > 0) {
                let share = |x: f64| if x.is_nan() { String::new() } else { format!("{x:.3}") };
                let (precision, recall) = (share(s.precision()), share(s.recall()));
                let _ = writeln!(text, "{name},{senders},{point},{},{precision},{recall}", s.truth);
            }
        }
    }
    text
}

const ROW: f64 = 22.0;
const WIDTH: f64 = 240.0;
const LEFT: f64 = 190.0;

/// A row for each class, a column for each point: precision above recall, from .5 to 1, with a line at the bound.
pub(crate) fn svg(title: &str, scores: &Scores, bound: impl Fn(&str) -> f64) -> String {
    let rows: Vec<_> = scores.iter().filter(|(name, _)| !name.contains(':')).collect();
    let height = 70.0 + ROW * rows.len() as f64;
    let width = LEFT + 3.0 * WIDTH + 20.0;
    let mut t = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' font-family='sans-serif' \
         font-size='12'><rect width='{width}' height='{height}' fill='#fff'/>\n\
         <text x='12' y='20' font-size='14'>{title}; precision dark, recall light, from .5 to 1</text>\n"
    );
    let text = |t: &mut String, x: f64, y: f64, anchor: &str, words: &str| {
        let _ = writeln!(t, "<text x='{x}' y='{y}' text-anchor='{anchor}'>{words}</text>");
    };
    for (point, n) in POINTS.iter().zip(0..) {
        text(&mut t, LEFT + f64::from(n) * WIDTH, 42.0, "start", point);
    }
    for ((name, points), n) in rows.iter().zip(0..) {
        let y = 52.0 + ROW * f64::from(n);
        text(&mut t, LEFT - 8.0, y + 13.0, "end", name);
        for (s, p) in points.iter().zip(0..).filter(|(s, _)| s.truth > 0) {
            let x = LEFT + f64::from(p) * WIDTH;
            let long = |share: f64| (share.max(0.5) - 0.5) * 2.0 * (WIDTH - 70.0);
            for (share, colour, dy) in [(s.precision(), "#2b5d8a", 1.0), (s.recall(), "#8fb8dc", 9.0)] {
                if !share.is_nan() {
                    let w = long(share);
                    let y = y + dy;
                    let _ = writeln!(t, "<rect x='{x}' y='{y}' width='{w:.1}' height='7' fill='{colour}'/>");
                }
            }
            let at = x + long(bound(name));
            let (top, end) = (y, y + ROW - 4.0);
            let _ = writeln!(t, "<path d='M{at:.1} {top}V{end}' stroke='#c33'/>");
            text(&mut t, x + WIDTH - 14.0, y + 13.0, "end", &s.truth.to_string());
        }
    }
    t + "</svg>\n"
}
