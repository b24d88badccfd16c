//! Who is who, with the numbers the curves show.

use super::canvas::{Align, Canvas, GREY, INK, Rect, clip};
use super::curves::{Curve, Curves, GIVEN_UP, NOTICED, quantile, share_above};
use super::scale::{number, per_cent};

const ENTRY: f64 = 58.0;

/// One entry a discipline; returns the height used.
pub(super) fn legend_panel(canvas: &mut Canvas, area: Rect, curves: &Curves) -> f64 {
    canvas.strong(area.x, area.y + 12.0, "Disciplines", 14.0, INK);
    let mut y = area.y + 42.0;
    for curve in &curves.0 {
        entry(canvas, Rect { y, h: ENTRY, ..area }, curve);
        y += ENTRY;
    }
    y - area.y
}

fn entry(canvas: &mut Canvas, area: Rect, curve: &Curve) {
    let style = curve.style;
    canvas.line((area.x, area.y), (area.x + 22.0, area.y), style.colour, style.width + 1.0, style.dash);
    let words = area.x + 32.0;
    canvas.strong(words, area.y + 4.0, &clip(&curve.name, area.right() - words, 13.0), 13.0, style.colour);
    let seconds = |share| quantile(&curve.times, share).map_or("–".into(), number);
    let share = |limit| share_above(&curve.silences, limit).map_or("–".into(), per_cent);
    let times = format!("median {} s, p99 {} s", seconds(0.5), seconds(0.99));
    let silences = format!("silent > 5 s: {}, > 20 s: {}", share(NOTICED), share(GIVEN_UP));
    canvas.text(words, area.y + 20.0, &times, 11.0, GREY, Align::Start);
    canvas.text(words, area.y + 35.0, &silences, 11.0, GREY, Align::Start);
}
