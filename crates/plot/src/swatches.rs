//! Key to colours: a line of squares with names.

use super::canvas::{Align, Canvas, INK, Rect, width_of};
use super::{MARGIN, WIDTH};

/// Entry of the key: a colour, and the meaning of the colour.
#[derive(Clone, Debug, Default)]
pub struct Kind {
    /// Name of the kind.
    pub name: String,
    /// Number or word that is added to the name; may be empty.
    pub note: String,
    /// Colour in the notation of SVG.
    pub colour: &'static str,
}

const SIZE: f64 = 12.0;

/// Draws them from `top` on, in as many lines as they need; returns where the page goes on.
pub(super) fn swatches(canvas: &mut Canvas, top: f64, kinds: &[Kind]) -> f64 {
    if kinds.is_empty() {
        return top;
    }
    let (mut x, mut y) = (MARGIN, top);
    for kind in kinds {
        // Nobody knows how wide a font sets the name: what follows it stands in the same line of text.
        let words =
            if kind.note.is_empty() { kind.name.clone() } else { format!("{}: {}", kind.name, kind.note) };
        let wide = 20.0 + width_of(&words, SIZE);
        if x + wide > WIDTH - MARGIN && x > MARGIN {
            (x, y) = (MARGIN, y + 20.0);
        }
        canvas.fill(Rect { x, y: y - 10.0, w: 12.0, h: 12.0 }, kind.colour);
        canvas.text((x + 18.0, y), &words, SIZE, INK, Align::Start);
        x += wide + 22.0;
    }
    y + 16.0
}
