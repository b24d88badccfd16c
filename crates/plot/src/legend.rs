//! Who is who, with the numbers the curves show.

use super::canvas::{Align, Canvas, GREY, INK, Rect, clip};
use super::curves::{Curve, Curves, GIVEN_UP, NOTICED, share_above};
use super::scale::{number, per_cent, quantile};

const ENTRY: f64 = 58.0;

/// One entry a discipline; returns the height used.
pub(super) fn legend_panel(canvas: &mut Canvas, area: Rect, curves: &Curves) -> f64 {
    canvas.strong((area.x, area.y + 12.0), "Disciplines", 14.0, INK);
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
    // Bold letters are a seventh wider than the others.
    canvas.strong((words, area.y + 4.0), &clip(&curve.name, area.right() - words, 15.0), 13.0, style.colour);
    let mut y = area.y + 20.0;
    if let (Some(median), Some(p99)) = (quantile(&curve.times, 0.5), quantile(&curve.times, 0.99)) {
        let times = format!("median {} s, p99 {} s", number(median), number(p99));
        canvas.text((words, y), &times, 11.0, GREY, Align::Start);
        y += 15.0;
    }
    let above = |limit| share_above(&curve.stalls, limit);
    if let (Some(noticed), Some(given_up)) = (above(NOTICED), above(GIVEN_UP)) {
        let (five, twenty) = (number(NOTICED), number(GIVEN_UP));
        let stalls =
            format!("stalled > {five} s: {}, > {twenty} s: {}", per_cent(noticed), per_cent(given_up));
        canvas.text((words, y), &stalls, 11.0, GREY, Align::Start);
    }
}
