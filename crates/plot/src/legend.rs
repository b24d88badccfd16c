//! Legend of the disciplines, with the numbers that their curves show.

use super::canvas::{Align, Canvas, GREY, INK, Rect, clip};
use super::curves::{Curve, Curves, GIVEN_UP, NOTICED, share_above};
use super::scale::{number, per_cent, quantile};

const LINE: f64 = 15.0;

/// Draws a legend with one entry for each discipline; returns the legend's height.
pub(super) fn legend_panel(canvas: &mut Canvas, area: Rect, curves: &Curves) -> f64 {
    canvas.strong((area.x, area.y + 12.0), "Disciplines", 14.0, INK);
    let mut y = area.y + 42.0;
    for curve in &curves.0 {
        y = entry(canvas, Rect { y, ..area }, curve) + 23.0;
    }
    y - area.y
}

/// Draws one entry from the top of `area`; returns where its last line stands.
fn entry(canvas: &mut Canvas, area: Rect, curve: &Curve) -> f64 {
    let style = curve.style;
    canvas.line((area.x, area.y), (area.x + 22.0, area.y), style.colour, style.width + 1.0, style.dash);
    let words_at = area.x + 32.0;
    // Bold letters are a seventh wider than the others.
    canvas.strong(
        (words_at, area.y + 4.0),
        &clip(&curve.name, area.right() - words_at, 15.0),
        13.0,
        style.colour,
    );
    let mut y = area.y + 20.0;
    if let (Some(median), Some(p99)) = (quantile(&curve.times, 0.5), quantile(&curve.times, 0.99)) {
        let times = format!("median {} s, p99 {} s", number(median), number(p99));
        canvas.text((words_at, y), &times, 11.0, GREY, Align::Start);
        y += LINE;
    }
    let mut line = |stalls: &[f64], of: &str| {
        let above = |limit| share_above(stalls, limit).map(per_cent);
        if let (Some(noticed), Some(given_up)) = (above(NOTICED), above(GIVEN_UP)) {
            let (five, twenty) = (number(NOTICED), number(GIVEN_UP));
            let words = format!("{of} > {five} s: {noticed}, > {twenty} s: {given_up}");
            canvas.text((words_at, y), &words, 11.0, GREY, Align::Start);
            y += LINE;
        }
    };
    if curve.parts.len() > 1 {
        curve.parts.iter().for_each(|part| line(&part.stalls, &format!("{} stalled", part.name)));
    } else {
        line(&curve.stalls, "stalled");
    }
    y
}
