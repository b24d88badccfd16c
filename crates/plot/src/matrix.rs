//! A table in colour: how many times worse than the best each of some things is by each of some measures. Each factor
//! of two is a step darker, so that who is bad at something stands out, and the number stands in the cell for whoever
//! cannot tell colours.

use super::canvas::{self, Align, Canvas, GREY, INK, Rect, clip};
use super::colour::heat;
use super::{MARGIN, WIDTH};

/// Table of factors; the cell of a greater factor is darker.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    /// Subject of the table, in one line.
    pub title: String,
    /// Conditions that hold everywhere in the table.
    pub subtitle: String,
    /// Names of the measures.
    pub columns: Vec<String>,
    /// A name, and for each column a factor of 1 or more, if there is one.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

const ROW: f64 = 30.0;
/// Width of the names at the left.
const NAMES: f64 = 130.0;
/// The factor from which on all is as dark as can be.
const DARKEST: f64 = 32.0;

/// The table as SVG text.
#[must_use]
pub fn matrix_svg(page: &Matrix) -> String {
    let mut canvas = Canvas::new(WIDTH);
    let top = canvas::heading(&mut canvas, &page.title, &page.subtitle, WIDTH, MARGIN) + 26.0;
    let left = MARGIN + NAMES;
    let width = (WIDTH - MARGIN - left) / page.columns.len().max(1) as f64;
    for (name, at) in page.columns.iter().zip(0..) {
        let x = left + (f64::from(at) + 0.5) * width;
        canvas.text((x, top - 8.0), &clip(name, width - 4.0, 12.0), 12.0, GREY, Align::Middle);
    }
    let mut y = top;
    for (name, cells) in &page.rows {
        canvas.text((left - 10.0, y + 20.0), &clip(name, NAMES - 12.0, 13.0), 13.0, INK, Align::End);
        for (cell, at) in cells.iter().zip(0..).take(page.columns.len()) {
            let place = Rect { x: left + f64::from(at) * width, y, w: width - 2.0, h: ROW - 2.0 };
            let Some(factor) = cell.filter(|f| f.is_finite()) else { continue };
            let [r, g, b] = colour(factor);
            canvas.fill(place, &format!("#{r:02x}{g:02x}{b:02x}"));
            let light = 0.2126 * f64::from(r) + 0.7152 * f64::from(g) + 0.0722 * f64::from(b);
            let ink = if light > 120.0 { INK } else { "#ffffff" };
            let words = if factor < 9.995 { format!("{factor:.2}") } else { format!("{factor:.0}") };
            canvas.text((place.x + place.w / 2.0, y + 19.0), &words, 12.0, ink, Align::Middle);
        }
        y += ROW;
    }
    canvas.finish(y + MARGIN)
}

/// The best is lightest.
fn colour(factor: f64) -> [u8; 3] {
    heat(1.0 - (factor.max(1.0).log2() / DARKEST.log2()).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worse_is_darker_and_numbers_are_there() {
        let sum = |f: f64| colour(f).iter().map(|c| u32::from(*c)).sum::<u32>();
        assert!([1.0, 2.0, 4.0, 8.0, 16.0, 32.0].windows(2).all(|w| sum(w[0]) > sum(w[1])));
        assert_eq!(colour(32.0), colour(1e9));
        let page = Matrix {
            title: "t".into(),
            columns: vec!["stall".into(), "goodput".into()],
            rows: vec![("a<b".into(), vec![Some(1.0), None]), ("c".into(), vec![Some(12.3), Some(f64::NAN)])],
            ..Matrix::default()
        };
        let svg = matrix_svg(&page);
        for words in ["stall", "goodput", "a&lt;b", ">1.00<", ">12<"] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        assert!(!svg.contains("NaN"));
        assert!(matrix_svg(&Matrix::default()).contains("<svg"));
    }
}
