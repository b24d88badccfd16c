//! A plane of two logarithmic axes, cut by curves into bands of what is to be expected there, with one point marked.
//! The colours are steps of the map that also shows goodput: each darker than the one before, so that they can be told
//! apart in grey and by colour-blind eyes.

use super::canvas::{self, AXIS, Align, Canvas, GREY, INK, Rect, clip, width_of, wrap};
use super::chart::short;
use super::colour::heat;
use super::scale::LogScale;
use super::{MARGIN, WIDTH};

/// Plane of two settings, divided into bands by the conditions to expect there.
#[derive(Clone, Debug, Default)]
pub struct Bands {
    /// Subject of the page, in one line.
    pub title: String,
    /// Conditions that hold everywhere on the page.
    pub subtitle: String,
    /// Name and unit of the horizontal axis.
    pub x_name: String,
    /// Name and unit of the vertical axis.
    pub y_name: String,
    /// Ends of the horizontal axis, above zero.
    pub x: (f64, f64),
    /// Ends of the vertical axis, above zero.
    pub y: (f64, f64),
    /// The bands from the bottom upwards.
    pub bands: Vec<Band>,
    /// Marked point of the plane, and the point's label.
    pub here: Option<((f64, f64), String)>,
}

/// Area above an edge, up to the edge of the next band.
#[derive(Clone, Debug, Default)]
pub struct Band {
    /// Name of the band, in a word or two.
    pub name: String,
    /// Meaning of the band, for the key.
    pub about: String,
    /// Lower edge of the band, from left to right; the first band needs none, and what is not finite is left out.
    pub edge: Vec<(f64, f64)>,
}

const HEIGHT: f64 = 520.0;
/// Width of the key at the right.
const KEY: f64 = 300.0;
/// Least height of a band in which its name is written, in units of the page.
const NAMED: f64 = 26.0;

/// The plane as SVG text.
#[must_use]
pub fn bands_svg(page: &Bands) -> String {
    let mut canvas = Canvas::new(WIDTH);
    let top = canvas::heading(&mut canvas, &page.title, &page.subtitle, WIDTH, MARGIN) + 8.0;
    let right = WIDTH - MARGIN - KEY - 30.0;
    let plot = Rect { x: MARGIN + 64.0, y: top, w: right - MARGIN - 64.0, h: HEIGHT };
    let x = LogScale::new(page.x, (plot.x, plot.right()));
    let y = LogScale::new(page.y, (plot.bottom(), plot.y));
    let edges: Vec<Vec<(f64, f64)>> = page.bands.iter().map(|b| places(&b.edge, &x, &y)).collect();
    let colours: Vec<[u8; 3]> = (0..edges.len()).map(|i| colour(i, edges.len())).collect();
    for (i, rgb) in colours.iter().enumerate() {
        if i == 0 {
            canvas.fill(plot, &hex(*rgb));
        } else if let (Some(first), Some(last)) = (edges[i].first(), edges[i].last()) {
            let corners = [(last.0, plot.y), (first.0, plot.y)];
            let around: Vec<(f64, f64)> = edges[i].iter().copied().chain(corners).collect();
            canvas.area(&around, &hex(*rgb));
            canvas.curve(&edges[i], INK, 1.2, "");
        }
    }
    for (i, band) in page.bands.iter().enumerate() {
        let line = page.here.as_ref().map(|(at, _)| y.place(at.1));
        name(&mut canvas, plot, &band.name, [edge(&edges, i), edge(&edges, i + 1)], colours[i], line);
    }
    axes(&mut canvas, plot, page, &x, &y);
    canvas.frame(plot);
    if let Some((at, words)) = &page.here {
        mark(&mut canvas, plot, (x.place(at.0), y.place(at.1)), words);
    }
    key(&mut canvas, Rect { x: right + 30.0, y: top, w: KEY, h: HEIGHT }, page, &colours);
    canvas.finish(plot.bottom() + 62.0)
}

/// Steps of one map from light to dark.
fn colour(band: usize, of: usize) -> [u8; 3] {
    heat(1.0 - band as f64 / of.saturating_sub(1).max(1) as f64)
}

fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Chooses dark or white letters, whichever can be read on a background of this colour.
fn ink_on([r, g, b]: [u8; 3]) -> &'static str {
    let light = 0.2126 * f64::from(r) + 0.7152 * f64::from(g) + 0.0722 * f64::from(b);
    if light > 120.0 { INK } else { "#ffffff" }
}

fn places(points: &[(f64, f64)], x: &LogScale, y: &LogScale) -> Vec<(f64, f64)> {
    let usable = |p: &&(f64, f64)| p.0 > 0.0 && p.1 > 0.0 && p.0.is_finite() && p.1.is_finite();
    points.iter().filter(usable).map(|p| (x.place(p.0), y.place(p.1))).collect()
}

fn edge(edges: &[Vec<(f64, f64)>], band: usize) -> &[(f64, f64)] {
    edges.get(band).map_or(&[], Vec::as_slice)
}

/// Writes a band's name where it is highest between its own edge and the next band's, clear of the mark's line at
/// `line`.
fn name(
    canvas: &mut Canvas,
    plot: Rect,
    words: &str,
    [low, high]: [&[(f64, f64)]; 2],
    rgb: [u8; 3],
    line: Option<f64>,
) {
    let half = width_of(words, 14.0) / 2.0;
    let within = |x: f64| x - half >= plot.x && x + half <= plot.right();
    let room = |x: f64| {
        let bottom = at(low, x).unwrap_or_else(|| plot.bottom());
        (bottom, at(high, x).unwrap_or(plot.y))
    };
    let best = (0..=40)
        .map(|i| plot.x + plot.w * f64::from(i) / 40.0)
        .filter(|x| within(*x))
        // The name is as wide as a part of the band: its lowest height there counts.
        .map(|x| {
            let ends = [x - half, x, x + half].map(room);
            let bottom = ends.iter().map(|e| e.0).fold(f64::INFINITY, f64::min);
            let top = ends.iter().map(|e| e.1).fold(f64::NEG_INFINITY, f64::max);
            (x, bottom, top)
        })
        .max_by(|a, b| (a.1 - a.2).total_cmp(&(b.1 - b.2)));
    if let Some((x, bottom, top)) = best.filter(|(_, bottom, top)| bottom - top >= NAMED) {
        let mut base = f64::midpoint(bottom, top) + 5.0;
        if let Some(line) = line.filter(|line| (base - 5.0 - line).abs() < NAMED) {
            // Above the line the mark's own label may stand.
            base = if line + NAMED + 5.0 <= bottom { line + NAMED } else { line - NAMED };
        }
        canvas.text((x, base), words, 14.0, ink_on(rgb), Align::Middle);
    }
}

/// Height of a line at `x`; `None` if the line does not reach `x`.
fn at(line: &[(f64, f64)], x: f64) -> Option<f64> {
    let next = line.iter().position(|p| p.0 >= x);
    match next {
        Some(0) => line.first().map(|p| p.1),
        Some(i) => {
            let (a, b) = (line[i - 1], line[i]);
            Some(a.1 + (x - a.0) / (b.0 - a.0).max(1e-9) * (b.1 - a.1))
        }
        None => line.last().map(|p| p.1),
    }
}

fn axes(canvas: &mut Canvas, plot: Rect, page: &Bands, x: &LogScale, y: &LogScale) {
    for tick in x.ticks(3.4) {
        let at = x.place(tick);
        canvas.line((at, plot.bottom()), (at, plot.bottom() + 5.0), AXIS, 1.0, "");
        canvas.text((at, plot.bottom() + 19.0), &short(tick), 11.0, GREY, Align::Middle);
    }
    for tick in y.ticks(3.4) {
        let at = y.place(tick);
        canvas.line((plot.x - 5.0, at), (plot.x, at), AXIS, 1.0, "");
        canvas.text((plot.x - 9.0, at + 4.0), &short(tick), 11.0, GREY, Align::End);
    }
    let words = |name: &str| format!("{name} (log scale)");
    canvas.text(
        (plot.x + plot.w / 2.0, plot.bottom() + 40.0),
        &words(&page.x_name),
        12.0,
        GREY,
        Align::Middle,
    );
    canvas.text_up((plot.x - 50.0, plot.y + plot.h / 2.0), &words(&page.y_name), 12.0, GREY);
}

/// Draws a ring at a point, lines to the axes, and a label on a white ground.
fn mark(canvas: &mut Canvas, plot: Rect, (x, y): (f64, f64), words: &str) {
    for (colour, dash) in [("#ffffff", ""), (INK, "4 3")] {
        canvas.line((x, y), (x, plot.bottom()), colour, 1.2, dash);
        canvas.line((plot.x, y), (x, y), colour, 1.2, dash);
    }
    canvas.ring((x, y), 7.0, "#ffffff", 5.0);
    canvas.ring((x, y), 7.0, INK, 2.4);
    let words = clip(words, plot.w - 30.0, 12.0);
    let width = width_of(&words, 12.0) + 12.0;
    let left = (x + 14.0).min(plot.right() - width - 4.0).max(plot.x + 4.0);
    let top = if y - 38.0 < plot.y { y + 14.0 } else { y - 34.0 };
    let ground = Rect { x: left, y: top, w: width, h: 20.0 };
    canvas.fill(ground, "#ffffff");
    canvas.frame(ground);
    canvas.text((left + 6.0, top + 14.0), &words, 12.0, INK, Align::Start);
}

/// Draws the key to the colours, in the order of the page: the highest band first.
fn key(canvas: &mut Canvas, area: Rect, page: &Bands, colours: &[[u8; 3]]) {
    let mut y = area.y + 14.0;
    for (band, rgb) in page.bands.iter().zip(colours).rev() {
        let swatch = Rect { x: area.x, y: y - 13.0, w: 24.0, h: 16.0 };
        canvas.fill(swatch, &hex(*rgb));
        canvas.frame(swatch);
        let words = area.x + 34.0;
        canvas.strong((words, y), &clip(&band.name, area.w - 34.0, 15.0), 13.0, INK);
        y += 17.0;
        for line in wrap(&band.about, area.w - 34.0, 11.0) {
            canvas.text((words, y), &line, 11.0, GREY, Align::Start);
            y += 15.0;
        }
        y += 14.0;
    }
    if page.here.is_some() {
        canvas.ring((area.x + 12.0, y - 4.0), 7.0, INK, 2.4);
        canvas.text((area.x + 34.0, y), "the link in question", 12.0, INK, Align::Start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Bands {
        // Two edges that rise with x, as a capacity does: at 10 they stand at 3 and 30, at 1000 at 300 and 3000.
        let edge = |factor: f64| vec![(10.0, 10.0 * factor), (1000.0, 1000.0 * factor)];
        let band = |name: &str, edge| Band { name: name.into(), about: format!("what {name} is"), edge };
        Bands {
            title: "t <&>".into(),
            x_name: "rate".into(),
            y_name: "users".into(),
            x: (10.0, 1000.0),
            y: (1.0, 1000.0),
            bands: vec![band("low", vec![]), band("middle", edge(0.3)), band("high", edge(3.0))],
            here: Some(((100.0, 100.0), "here <&>".into())),
            ..Bands::default()
        }
    }

    #[test]
    fn bands_are_named_and_the_point_is_marked_where_it_lies() {
        let svg = bands_svg(&page());
        for words in ["low", "middle", "high", "what middle is", "here &lt;&amp;&gt;"] {
            assert!(svg.contains(words), "{words}");
        }
        // Two of three decades up, half of two across: the heading ends at 46 + 26 + 10, and 8 are left free; the plot
        // is 100 to 874 wide.
        let (x, y) = (487.0, 90.0 + 520.0 / 3.0);
        assert!(svg.contains(&format!("cx=\"{x:.1}\" cy=\"{y:.1}\"")), "{svg}");
    }

    #[test]
    fn each_band_is_darker_than_the_one_below() {
        for of in 1..8 {
            let light: Vec<u32> =
                (0..of).map(|i| colour(i, of).iter().map(|c| u32::from(*c)).sum()).collect();
            assert!(light.windows(2).all(|w| w[0] > w[1]), "{light:?}");
        }
    }

    #[test]
    fn whatever_comes_is_drawn() {
        let (nan, infinite) = (f64::NAN, f64::INFINITY);
        let mut pages = vec![Bands { x: (1.0, 10.0), y: (1.0, 10.0), ..Bands::default() }, page()];
        pages.push(Bands { bands: vec![], here: Some(((1e-9, 1e12), "far".repeat(200))), ..page() });
        let mut odd = page();
        odd.bands[1].edge = vec![(nan, 1.0), (0.0, 5.0), (20.0, infinite), (30.0, 0.0)];
        odd.bands[2].edge = vec![(500.0, 1e300)];
        pages.push(odd);
        for page in pages {
            let svg = bands_svg(&page);
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
