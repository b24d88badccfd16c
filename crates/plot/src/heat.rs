//! One map a discipline: seconds to the right, users downwards, colour for goodput.

use base64::Engine;

use super::canvas::{AXIS, Align, Canvas, GREY, INK, PAPER, Rect, clip};
use super::colour::heat;
use super::curves::{Curves, NOTICED};
use super::raster::png_of_pixels;
use super::scale::{nice_above, number, step};
use super::{DisciplineSeries, Picture};

/// Most columns of a map: more cells cannot be seen; beyond, neighbours are averaged.
const COLUMNS: usize = 600;
const ROWS: usize = 400;
const GAP: f64 = 48.0;
/// Width on the left of a map for the numbers of users, in units of the page.
const LABELS: f64 = 44.0;
/// Height above a map for the map's name, in units of the page.
const NAME: f64 = 24.0;
/// Colour of a cell for which nothing was recorded.
const NOTHING: [u8; 4] = [0xf1, 0xf3, 0xf5, 0xff];
const SILENT: [u8; 4] = [0, 0, 0, 0xff];

/// Goodput of one discipline as cells.
struct Cells {
    columns: usize,
    rows: usize,
    /// Users or flows in a row, and seconds in a column.
    merged: (usize, usize),
    /// kbit/s; `None` where nothing was recorded.
    rate: Vec<Option<f32>>,
    /// Whether the cell lies in a stall of at least [`NOTICED`] seconds.
    stall: Vec<bool>,
}

/// Draws all maps below each other in one or two columns; returns where the page may go on.
pub(super) fn maps(
    canvas: &mut Canvas,
    area: Rect,
    one_column: bool,
    picture: &Picture,
    curves: &Curves,
) -> f64 {
    let shown: Vec<_> = picture.series.iter().zip(&curves.0).filter(|(s, _)| seconds(s) > 0).collect();
    if shown.is_empty() {
        return area.y;
    }
    let longest = shown.iter().map(|(s, _)| seconds(s)).max().unwrap_or(1);
    let tallest = shown.iter().map(|(s, _)| s.goodput_kbps.len()).max().unwrap_or(1);
    let top = brightest(shown.iter().map(|(s, _)| *s));
    let merged = (tallest.div_ceil(ROWS), longest.div_ceil(COLUMNS));
    let mut y = header(canvas, area, one_column, picture.row(), top, merged);

    let across = if one_column || shown.len() == 1 { 1 } else { 2 };
    let each = (area.w - GAP * (across - 1) as f64) / across as f64;
    let height = (tallest.div_ceil(merged.0) as f64 * 2.0).clamp(120.0, 240.0);
    for line in shown.chunks(across) {
        for (at, (series, curve)) in line.iter().enumerate() {
            let x = area.x + at as f64 * (each + GAP);
            let name = clip(&series.name, each - 140.0, 13.0);
            canvas.strong((x + LABELS, y + 12.0), &name, 13.0, curve.style.colour);
            let carried = format!("{} kbit/s in all", number(mean_total(series)));
            canvas.text((x + each, y + 12.0), &carried, 11.0, GREY, Align::End);
            let plot = Rect { x: x + LABELS, y: y + NAME, w: each - LABELS, h: height };
            map(canvas, plot, series, top, merged, longest);
            axes(canvas, plot, tallest, longest, picture);
        }
        y += NAME + height + 56.0;
    }
    y
}

/// The longest row.
fn seconds(series: &DisciplineSeries) -> usize {
    series.goodput_kbps.iter().map(Vec::len).max().unwrap_or(0)
}

fn usable(value: f32) -> Option<f32> {
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// Sum over users of each user's mean goodput.
fn mean_total(series: &DisciplineSeries) -> f64 {
    let sum: f64 = series.goodput_kbps.iter().flatten().filter_map(|v| usable(*v)).map(f64::from).sum();
    sum / seconds(series).max(1) as f64
}

/// The top of the scale: what 98 % of the seconds with any goodput do not exceed, rounded up. Rare bursts would
/// otherwise leave the rest in the dark.
fn brightest<'a>(all: impl Iterator<Item = &'a DisciplineSeries>) -> f64 {
    let mut rates: Vec<f32> = all
        .flat_map(|s| s.goodput_kbps.iter().flatten())
        .filter_map(|v| usable(*v))
        .filter(|v| *v > 0.0)
        .collect();
    rates.sort_by(f32::total_cmp);
    rates.get(rates.len() * 98 / 100).map_or(1.0, |v| nice_above(f64::from(*v)))
}

fn cells(series: &DisciplineSeries, merged: (usize, usize), longest: usize) -> Cells {
    let rows = series.goodput_kbps.len().div_ceil(merged.0);
    let columns = longest.div_ceil(merged.1);
    let mut made =
        Cells { columns, rows, merged, rate: vec![None; rows * columns], stall: vec![false; rows * columns] };
    for (row, users) in series.goodput_kbps.chunks(merged.0).enumerate() {
        for column in 0..columns {
            let mut sum = (0.0, 0u32);
            for user in users {
                let from = (column * merged.1).min(user.len());
                let to = (from + merged.1).min(user.len());
                for value in user[from..to].iter().filter_map(|v| usable(*v)) {
                    sum = (sum.0 + value, sum.1 + 1);
                }
            }
            made.rate[row * columns + column] = (sum.1 > 0).then(|| sum.0 / sum.1 as f32);
        }
    }
    made.find_stalls();
    made
}

impl Cells {
    fn find_stalls(&mut self) {
        let least = (NOTICED / self.merged.1 as f64).ceil() as usize;
        for row in 0..self.rows {
            let line = row * self.columns..(row + 1) * self.columns;
            let mut start = line.start;
            for at in line.start..=line.end {
                if at < line.end && self.rate[at] == Some(0.0) {
                    continue;
                }
                if at - start >= least {
                    self.stall[start..at].fill(true);
                }
                start = at + 1;
            }
        }
    }

    fn pixel(&self, at: usize, top: f64) -> [u8; 4] {
        match self.rate[at] {
            None => NOTHING,
            Some(_) if self.stall[at] => SILENT,
            Some(rate) => {
                let [r, g, b] = heat(share_of(f64::from(rate), top));
                [r, g, b, 0xff]
            }
        }
    }
}

/// Square root, so that one packet in a second can be told from none.
fn share_of(rate: f64, top: f64) -> f64 {
    (rate / top).clamp(0.0, 1.0).sqrt()
}

fn map(
    canvas: &mut Canvas,
    plot: Rect,
    series: &DisciplineSeries,
    top: f64,
    merged: (usize, usize),
    longest: usize,
) {
    let cells = cells(series, merged, longest);
    let pixels: Vec<u8> = (0..cells.rate.len()).flat_map(|at| cells.pixel(at, top)).collect();
    if let Some(png) = png_of_pixels(cells.columns, cells.rows, &pixels) {
        canvas.image(plot, &base64::engine::general_purpose::STANDARD.encode(png));
    }
    canvas.frame(plot);
}

fn axes(canvas: &mut Canvas, plot: Rect, rows: usize, longest: usize, picture: &Picture) {
    let tick = step(longest as f64, 7.0).max(1.0);
    let mut second = 0.0;
    while second <= longest as f64 {
        let x = plot.x + second / longest as f64 * plot.w;
        canvas.line((x, plot.bottom()), (x, plot.bottom() + 4.0), AXIS, 1.0, "");
        canvas.text((x, plot.bottom() + 17.0), &number(second), 11.0, GREY, Align::Middle);
        second += tick;
    }
    canvas.text((plot.x + plot.w / 2.0, plot.bottom() + 33.0), "seconds", 11.0, GREY, Align::Middle);
    canvas.text((plot.x - 6.0, plot.y + 10.0), "1", 11.0, GREY, Align::End);
    if rows > 1 {
        canvas.text((plot.x - 6.0, plot.bottom()), &rows.to_string(), 11.0, GREY, Align::End);
    }
    if picture.bands.is_empty() {
        canvas.text_up((plot.x - 12.0, plot.y + plot.h / 2.0), picture.row(), 11.0, GREY);
    }
    let mut above = 0;
    for band in &picture.bands {
        let at = |row: usize| plot.y + row.min(rows) as f64 / rows as f64 * plot.h;
        let (from, to) = (at(above), at(above + band.rows));
        if above > 0 {
            canvas.line((plot.x, from), (plot.right(), from), PAPER, 2.0, "");
        }
        let words = format!("{} {}s", band.name, picture.row());
        canvas.text_up((plot.x - 24.0, (from + to) / 2.0), &words, 11.0, GREY);
        above += band.rows;
    }
}

/// Draws the title of the maps and the key to their colours; returns the height at which the maps may begin.
fn header(
    canvas: &mut Canvas,
    area: Rect,
    one_column: bool,
    row_name: &str,
    top: f64,
    merged: (usize, usize),
) -> f64 {
    let mut words = format!("Goodput of each {row_name}, second by second");
    if merged.0 > 1 || merged.1 > 1 {
        words = format!("Goodput, mean of {} {row_name}s and {} s", merged.0, merged.1);
    }
    canvas.strong((area.x, area.y + 12.0), &words, 14.0, INK);
    let bar = Rect { y: area.y + 1.0, w: 180.0, h: 12.0, x: area.right() - 250.0 };
    let key = Rect { x: bar.x - 190.0, w: 18.0, ..bar };
    // Beside each other they are wider than a telephone.
    let (bar, key) = if one_column {
        (
            Rect { x: area.x + 10.0, y: area.y + 46.0, ..bar },
            Rect { x: area.x + 10.0, y: area.y + 23.0, ..key },
        )
    } else {
        (bar, key)
    };
    let steps = 60;
    for i in 0..steps {
        let [r, g, b] = heat((f64::from(i) + 0.5) / f64::from(steps));
        let w = bar.w / f64::from(steps);
        // A little wider than its share: no seams between neighbours.
        let part = Rect { x: bar.x + f64::from(i) * w, w: w + 0.4, ..bar };
        canvas.fill(part, &format!("#{r:02x}{g:02x}{b:02x}"));
    }
    canvas.frame(bar);
    for share in [0.0, 0.1, 0.5, 1.0] {
        let x = bar.x + share_of(share * top, top) * bar.w;
        canvas.line((x, bar.bottom()), (x, bar.bottom() + 3.0), AXIS, 1.0, "");
        let words = if share == 1.0 { format!("≥ {}", number(top)) } else { number(share * top) };
        canvas.text((x, bar.bottom() + 15.0), &words, 11.0, GREY, Align::Middle);
    }
    canvas.text((bar.right() + 14.0, bar.bottom() - 2.0), "kbit/s", 11.0, GREY, Align::Start);
    canvas.fill(key, "#000000");
    // On dark paper the edge alone can be seen.
    canvas.frame(key);
    let words = format!("stalled for {} s or more", number(NOTICED));
    canvas.text((key.right() + 8.0, key.bottom() - 2.0), &words, 11.0, GREY, Align::Start);
    bar.bottom() + 27.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(rows: &[&[f32]]) -> DisciplineSeries {
        DisciplineSeries { goodput_kbps: rows.iter().map(|r| r.to_vec()).collect(), ..Default::default() }
    }

    #[test]
    fn a_hang_is_five_seconds_without_a_byte() {
        let made = cells(&series(&[&[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]), (1, 1), 11);
        let stall: Vec<bool> = (0..11).map(|i| i >= 6).collect();
        assert_eq!(made.stall, stall, "four seconds are none, the last five are one");
        assert_eq!(made.pixel(7, 1.0), SILENT);
        assert_ne!(made.pixel(1, 1.0), SILENT);
    }

    #[test]
    fn short_rows_are_not_silent() {
        let made = cells(&series(&[&[2.0], &[1.0, f32::NAN, 3.0]]), (1, 1), 3);
        assert_eq!(made.rate, [Some(2.0), None, None, Some(1.0), None, Some(3.0)]);
        assert_eq!(made.pixel(1, 1.0), NOTHING);
    }

    #[test]
    fn neighbours_are_averaged() {
        let made = cells(&series(&[&[1.0, 3.0, 5.0], &[3.0, 1.0]]), (2, 2), 3);
        assert_eq!((made.rows, made.columns), (1, 2));
        assert_eq!(made.rate, [Some(2.0), Some(5.0)]);
    }

    #[test]
    fn rare_bursts_do_not_set_the_scale() {
        let mut row = vec![12.0f32; 99];
        row.push(4000.0);
        assert!((brightest([series(&[&row])].iter()) - 20.0).abs() < 1e-9);
        assert!((brightest([series(&[&[0.0, f32::NAN]])].iter()) - 1.0).abs() < 1e-9);
    }
}
