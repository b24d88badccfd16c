//! A page of SVG: lines, words, rectangles.

use std::fmt::Write;

use super::colour::Style;

/// Font of pages; a machine without the font takes another.
pub(super) const FONT: &str = "DejaVu Sans";
/// Colour of the page.
pub(super) const PAPER: &str = "#ffffff";
/// Colour of words.
pub(super) const INK: &str = "#1b1f24";
/// Words that may be passed over.
pub(super) const GREY: &str = "#667079";
/// Colour of axes.
pub(super) const AXIS: &str = "#9aa3ab";
/// Colour of grid lines.
pub(super) const GRID: &str = "#e9ecef";

const MIDDLE: &str = " text-anchor=\"middle\"";

/// An area of the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) w: f64,
    pub(super) h: f64,
}

impl Rect {
    pub(super) fn right(&self) -> f64 {
        self.x + self.w
    }
    pub(super) fn bottom(&self) -> f64 {
        self.y + self.h
    }
}

/// Side of a point on which a text stands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Align {
    Start,
    Middle,
    End,
}

/// How the names of a legend are set, in units of the page.
pub(super) struct Legend {
    size: f64,
    /// The widest a name may be.
    widest: f64,
    /// Distance from the begin of a legend's line to the name, in units of the page.
    indent: f64,
    /// Gap behind a name.
    gap: f64,
    line_height: f64,
    /// Ratio of the widths of lines in the legend and in the panels.
    broader: f64,
}

impl Legend {
    /// Legend above a chart of many panels.
    pub(super) const CHART: Self =
        Self { size: 12.0, widest: 400.0, indent: 32.0, gap: 18.0, line_height: 18.0, broader: 1.0 };
    /// Legend above a figure for a column of text.
    pub(super) const FIGURE: Self =
        Self { size: 12.5, widest: 662.0, indent: 31.0, gap: 14.0, line_height: 19.0, broader: 0.6 };

    /// Draws the legend in lines of text from `top` on, on a page of `width` with `margin` on both sides; returns the
    /// height at which its last line stands.
    pub(super) fn draw<'a>(
        &self,
        canvas: &mut Canvas,
        (width, margin): (f64, f64),
        top: f64,
        looks: impl Iterator<Item = (&'a str, Style)>,
    ) -> f64 {
        let (mut x, mut y) = (margin, top);
        for (name, style) in looks {
            let words = clip(name, self.widest, self.size);
            let entry = 34.0 + width_of(&words, self.size) + self.gap;
            if x + entry > width - margin && x > margin {
                (x, y) = (margin, y + self.line_height);
            }
            let (from, to) = ((x, y - 4.0), (x + 24.0, y - 4.0));
            canvas.line(from, to, style.colour, style.width + self.broader, style.dash);
            canvas.text((x + self.indent, y), &words, self.size, INK, Align::Start);
            x += entry;
        }
        y
    }
}

/// Draws panels in rows of `columns`, the first of them in `first`, with `gap` beside and `below` under each; returns
/// where the page may go on.
pub(super) fn rows<T>(
    panels: &[T],
    columns: usize,
    first: Rect,
    (gap, below): (f64, f64),
    mut draw: impl FnMut(Rect, &T),
) -> f64 {
    let mut y = first.y;
    for row in panels.chunks(columns) {
        for (at, panel) in row.iter().enumerate() {
            draw(Rect { x: first.x + at as f64 * (first.w + gap), y, ..first }, panel);
        }
        y += first.h + below;
    }
    y
}

/// SVG under construction.
#[derive(Debug)]
pub(super) struct Canvas {
    width: f64,
    body: String,
}

impl Canvas {
    pub(super) fn new(width: f64) -> Self {
        Self { width, body: String::new() }
    }

    /// The whole file, `height` high.
    pub(super) fn finish(self, height: f64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{height:.0}\" viewBox=\"0 0 {w} \
             {height:.0}\" font-family=\"'{FONT}', Verdana, Helvetica, Arial, sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"{PAPER}\"/>\n{body}</svg>\n",
            w = self.width,
            body = self.body
        )
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    pub(super) fn text(&mut self, at: (f64, f64), words: &str, size: f64, colour: &str, align: Align) {
        let anchor = match align {
            Align::Start => "",
            Align::Middle => MIDDLE,
            Align::End => " text-anchor=\"end\"",
        };
        self.words(at, words, size, colour, anchor);
    }

    pub(super) fn strong(&mut self, at: (f64, f64), words: &str, size: f64, colour: &str) {
        self.words(at, words, size, colour, " font-weight=\"bold\"");
    }

    /// Upwards, centred at the point.
    pub(super) fn text_up(&mut self, (x, y): (f64, f64), words: &str, size: f64, colour: &str) {
        let more = format!("{MIDDLE} transform=\"rotate(-90 {x:.1} {y:.1})\"");
        self.words((x, y), words, size, colour, &more);
    }

    /// A text element with more attributes.
    fn words(&mut self, (x, y): (f64, f64), words: &str, size: f64, colour: &str, more: &str) {
        let words = escape(words);
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{colour}\"{more}>{words}</text>"
        ));
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64, dash: &str) {
        let dash = dash_attribute(dash);
        self.push(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"{dash}/>",
            from.0, from.1, to.0, to.1
        ));
    }

    pub(super) fn curve(&mut self, points: &[(f64, f64)], colour: &str, width: f64, dash: &str) {
        let path = path(points);
        let dash = dash_attribute(dash);
        self.push(format_args!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"{dash}/>"
        ));
    }

    /// Upright strokes: where across, from where to where upwards.
    pub(super) fn strokes(&mut self, strokes: &[(f64, f64, f64)], colour: &str, width: f64) {
        let mut path = String::new();
        for (x, from, to) in strokes {
            let _ = write!(path, "M{x:.1} {from:.1}V{to:.1}");
        }
        self.push(format_args!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
        ));
    }

    /// A filled outline whose edge a curve covers, so that it need not be smooth.
    pub(super) fn area(&mut self, corners: &[(f64, f64)], colour: &str) {
        let path = path(corners);
        self.push(format_args!("<path d=\"{path}Z\" fill=\"{colour}\" shape-rendering=\"crispEdges\"/>"));
    }

    pub(super) fn ring(&mut self, (x, y): (f64, f64), radius: f64, colour: &str, width: f64) {
        self.push(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"none\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"/>"
        ));
    }

    pub(super) fn fill(&mut self, area: Rect, colour: &str) {
        self.push(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
            area.x, area.y, area.w, area.h
        ));
    }

    pub(super) fn frame(&mut self, area: Rect) {
        self.push(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"none\" stroke=\"{AXIS}\" \
             stroke-width=\"1\"/>",
            area.x, area.y, area.w, area.h
        ));
    }

    /// Draws a picture whose pixels are stretched over the area without smoothing.
    pub(super) fn image(&mut self, area: Rect, png_base64: &str) {
        self.push(format_args!(
            "<image x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" preserveAspectRatio=\"none\" \
             image-rendering=\"optimizeSpeed\" style=\"image-rendering:pixelated\" \
             href=\"data:image/png;base64,{png_base64}\"/>",
            area.x, area.y, area.w, area.h
        ));
    }
}

/// Draws title and subtitle of a page; returns the height at which the page goes on.
pub(super) fn heading(canvas: &mut Canvas, title: &str, subtitle: &str, width: f64, margin: f64) -> f64 {
    let mut y = 46.0;
    for line in wrap(title, width - 2.0 * margin, 20.0) {
        canvas.strong((margin, y), &line, 20.0, INK);
        y += 26.0;
    }
    for line in wrap(subtitle, width - 2.0 * margin, 13.0) {
        canvas.text((margin, y - 2.0), &line, 13.0, GREY, Align::Start);
        y += 18.0;
    }
    y + 10.0
}

fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (x, y) in points {
        let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { 'M' } else { 'L' });
    }
    path
}

fn dash_attribute(dash: &str) -> String {
    if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") }
}

fn escape(words: &str) -> String {
    let mut safe = String::with_capacity(words.len());
    for c in words.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // XML 1.0 knows no other control characters, escaped or not.
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// About how wide DejaVu Sans sets `words`, in units of the page.
pub(super) fn width_of(words: &str, size: f64) -> f64 {
    words.chars().count() as f64 * size * 0.6
}

/// Lines of at most `width`, broken at blanks.
pub(super) fn wrap(words: &str, width: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width_of(line, size) + width_of(word, size) + size <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `words` cut to `width`, with an ellipsis if anything is missing.
pub(super) fn clip(words: &str, width: f64, size: f64) -> String {
    let room = (width / (size * 0.6)).max(1.0) as usize;
    if words.chars().count() <= room {
        return words.to_owned();
    }
    words.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_stays_text() {
        assert_eq!(escape("a<b> & \"c\"\u{7}"), "a&lt;b&gt; &amp; &quot;c&quot; ");
    }

    #[test]
    fn long_lines_wrap_and_clip() {
        // 10 units a letter are 6 wide: ten letters and a blank's room of 10 need 70 + 10.
        assert_eq!(wrap("aaaaa bbbbb cc", 80.0, 10.0), ["aaaaa bbbbb", "cc"]);
        assert_eq!(clip("abcdefghij", 30.0, 10.0), "abcd…");
        assert_eq!(clip("abc", 30.0, 10.0), "abc");
    }
}
