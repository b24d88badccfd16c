//! The pages: one for each paper and a front page. Each is one file that needs nothing else; charts are drawn by its
//! own script (`web/report.js`) from the data that stands in it.

mod rows;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use narrows_scenario::{Formula, Reading};

pub use rows::Score;
pub(crate) use rows::{Row, less, rows_judged, rows_of};

use crate::cache::Cache;
use crate::catalogue::{Catalogue, Figure, Paper};
use crate::judged::{Chance, Judged, words_of};
use crate::section::{Effort, Section};

const SCRIPT: &str = include_str!("../../../web/report.js");
const STYLE: &str = include_str!("../../../web/report.css");

/// A figure and the section of a report that was made of the figure.
pub(crate) type Made<'a> = (&'a Figure, Section);

/// Writes the page of each paper of which `out` holds sections, and the front page; gives the front page's path.
///
/// # Errors
/// A file that cannot be read or written.
pub fn write(catalogue: &Catalogue, out: &Path, cache: &Cache<'_>) -> anyhow::Result<PathBuf> {
    let mut rows = Vec::new();
    for paper in &catalogue.papers {
        let sections = made(paper, cache)?;
        if !sections.is_empty() {
            save(&out.join(format!("{}.html", paper.id)), &page_of(paper, &sections).into_string())?;
        }
        rows.push((paper, sections));
    }
    let front = out.join("index.html");
    save(&front, &front_page(&rows).into_string())?;
    Ok(front)
}

/// Collects the sections of a paper's figures that have been made.
pub(crate) fn made<'a>(paper: &'a Paper, cache: &Cache<'_>) -> anyhow::Result<Vec<Made<'a>>> {
    let mut sections = Vec::new();
    for figure in &paper.figures {
        if let Some(section) = cache.section(paper, figure)? {
            sections.push((figure, section));
        }
    }
    Ok(sections)
}

fn save(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

fn frame(title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                // No icon: without this a browser asks a server for one.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

fn front_page(rows: &[(&Paper, Vec<Made<'_>>)]) -> Markup {
    frame(
        "Narrows: the papers, run again",
        html! {
            header {
                h1 { "The papers, run again" }
                p { "Each figure of five papers is simulated anew, drawn in the paper's own axes, and each of its \
                 sentences that can be simulated judged once, by a bound that stands beside it. Other readings of a \
                 sentence, and our own bounds, are judged too and counted apart." }
                (verdicts_key())
            }
            table.front {
                thead { tr { th { "paper" } th { "figures" } th { "rows judged" } th { "sentences" } th {} } }
                tbody {
                    @for (paper, sections) in rows {
                        @let score = Score::of_paper(sections, Reading::Paper);
                        @let rows = rows_of(paper, sections);
                        tr {
                            td {
                                @if sections.is_empty() { b { (paper.short) } } @else {
                                    b { a href=(format!("{}.html", paper.id)) { (paper.short) } }
                                }
                                br;
                                span.small { (paper.authors) ", " (paper.venue) }
                            }
                            td { (sections.len()) " of " (paper.figures.len()) @if let Some(less) = less(sections) {
                                br; span.small { (less) } } }
                            td { (rows_judged(&rows)) }
                            td { (score.words()) }
                            td { (bar(score, sections.len(), paper.figures.len())) }
                        }
                    }
                }
            }
            (foot())
        },
    )
}

fn rows_table(rows: &[Row<'_>], sections: &[Made<'_>]) -> Markup {
    let is_run = |figure: &Figure| sections.iter().any(|(made, _)| made.id == figure.id);
    html! {
        table.rows {
            thead { tr { th { "row" } th { "in the paper" } th { "claims" } th {} } }
            tbody {
                @for row in rows {
                    tr {
                        td { b { (row.name) } @if row.exact { " " span.tag { "exact" } } }
                        @match (row.figure, row.elsewhere) {
                            (Some(figure), _) => {
                                td { @if is_run(figure) { a href=(format!("#{}", figure.id)) { (figure.item) } }
                                    @else { (figure.item) } ": "
                                    (prose(row.title.unwrap_or(&figure.title))) }
                                td { @if row.score == Score::default() { span.small { "not run yet" } } @else {
                                    (row.score.words()) } }
                                td { (bar(row.score, 1, 1)) }
                            },
                            (None, other) => {
                                td { @if let Some(e) = other { span.small { (prose(&e.why)) } } }
                                td { @match other { Some(e) if !e.verdict.is_empty() => (prose(&e.verdict)),
                                    _ => "not judged" } }
                                td {}
                            },
                        }
                    }
                }
            }
        }
    }
}

/// The verdicts as parts of a bar, which is as full as figures are run: `run` of `all`.
fn bar(score: Score, run: usize, all: usize) -> Markup {
    let parts = [
        ("holds", score.holds),
        ("direction", score.direction),
        ("fails", score.fails),
        ("open", score.open),
    ];
    let judged: usize = parts.iter().map(|(_, n)| n).sum();
    let words =
        if run < all { format!("{}; {run} of {all} figures are run", score.words()) } else { score.words() };
    html! {
        div.bar title=(words) {
            @for (class, n) in parts {
                @if n > 0 { span class=(class) style=(format!("flex-grow:{}", n * run)) {} }
            }
            @if run < all && judged > 0 { span.rest style=(format!("flex-grow:{}", judged * (all - run))) {} }
        }
    }
}

fn page_of(paper: &Paper, sections: &[Made<'_>]) -> Markup {
    let [score, variants, ours] = Reading::ALL.map(|r| Score::of_paper(sections, r));
    let rows = rows_of(paper, sections);
    frame(
        &format!("{}, run again", paper.short),
        html! {
            header {
                p.small { a href="index.html" { "All papers" } }
                h1 { (paper.title) }
                p { (paper.authors) ", " (paper.venue) }
                p {
                    "Of the paper's sentences " b { (score.words()) } "; rows with a verdict: " (rows_judged(&rows))
                    "; "
                    (sections.len()) " of " (paper.figures.len()) " figures are run"
                    @if let Some(less) = less(sections) { " (" (less) ")" } "."
                    @if variants != Score::default() { " Of other readings " (variants.words()) "." }
                    @if ours != Score::default() { " Of our own bounds " (ours.words()) "." }
                }
                (bar(score, sections.len(), paper.figures.len()))
                (verdicts_key())
                (reading())
            }
            details open { summary { "Rows" } (rows_table(&rows, sections)) }
            @for (figure, section) in sections { (section_of(paper, figure, section)) }
            @if !paper.open.is_empty() {
                h2 { "What the paper leaves open, and what was chosen" }
                table {
                    thead { tr { th { "open" } th { "chosen" } } }
                    @for open in &paper.open { tr { td { (prose(&open.left)) } td { (prose(&open.chose)) } } }
                }
            }
            (foot())
        },
    )
}

/// Draws the key to the four verdicts.
fn verdicts_key() -> Markup {
    html! {
        p.small.key {
            @for (outcome, what) in [
                ("holds", "every value is within the bound"),
                ("direction", "not within it, but on the side the paper says"),
                ("fails", "neither; the reason stands beside it"),
                ("open", "what it compares was not run"),
            ] {
                span { span class=(format!("verdict {outcome}")) { (words_of(outcome)) } " " (what) } " "
            }
        }
    }
}

/// Instructions for reading charts and tables; stands before the first chart.
fn reading() -> Markup {
    html! {
        details.reading open {
            summary { "How to read charts and tables" }
            ul.small {
                li { b { "Bands" } " span the seeds." }
                li { b { "Dashed lines" } " were read from the paper or worked out from its formulas." }
                li {
                    b { "Here" } " is the value farthest from its bound, or nearest to breaking it, with its 95 % "
                    "interval in brackets, from seeds drawn anew (bootstrap)."
                }
                li { b { "Exact, no draw" } " means that another seed gave the same to the last bit." }
                li { b { "Eight digits" } " behind a number of seeds name scenario, seeds and engine." }
                li.onscreen {
                    b { "Charts" } " zoom by a drag and go back by a double click; a click on a name hides its line. "
                    "Arrows of the keyboard go from point to point, plus and minus zoom, escape goes back."
                }
            }
        }
    }
}

fn foot() -> Markup {
    html! { footer { p.small { "Made by " code { "narrows reproduce" } "." } } }
}

fn section_of(paper: &Paper, figure: &Figure, section: &Section) -> Markup {
    let size = match section.size {
        Effort::Least => " A cut-down run for a test: too short to judge by.",
        Effort::Quick => " Cut down (--quick): fewer seeds or settings, so a claim may come out otherwise.",
        Effort::Full => "",
    };
    html! {
        section id=(figure.id) {
            h2 { (figure.item) ": " (figure.title) }
            p.small {
                @if !figure.rows.is_empty() { @if figure.rows.len() == 1 { "Row " } @else { "Rows " }
                    (figure.rows.join(", ")) "." }
                (size) " In " code { "experiments/" (paper.id) } ": "
                @for f in &section.files { code { (f.command) } " (" (counted(f.runs, "run")) ", "
                    (counted(f.seeds, "seed")) ", " (f.hash.get(..8).unwrap_or(&f.hash))
                    @if !f.settings.is_empty() { "; " (f.settings) } ") " }
            }
            @if section.stale { p { b { "Of an earlier program, or of files that have changed since: " }
                code { "narrows reproduce " (paper.id) "/" (figure.id) } " makes it again." } }
            @for why in &section.undrawn { p { b { "Not drawn: " } (prose(why)) } }
            @if !figure.note.is_empty() { p { (prose(&figure.note)) } }
            div.charts {
                @for chart in &section.charts { div.chart {} script.data type="application/json" {
                    (PreEscaped(embedded(chart))) } }
            }
            @if !section.charts.is_empty() {
                p.small { a href=(format!("{}/{}/figure.csv", paper.id, figure.id)) { "figure.csv" } " " button.save
                    data-name=(format!("{}-{}.csv", paper.id, figure.id)) { "save the data" } }
            }
            @let mut told: Vec<&str> = Vec::new();
            @for line in section.files.iter().flat_map(|f| &f.together) {
                // Files of one figure may sweep the same settings.
                @if !told.contains(&line.as_str()) { p.small { "Settings that go together: " code { (line) } } }
                @let () = told.push(line);
            }
            (claims_table(&section.claims))
        }
    }
}

/// Text of the lists, with what stands between backticks as code.
fn prose(text: &str) -> Markup {
    // A backtick without a second one is printed as it is.
    let (text, rest) = match text.matches('`').count() % 2 {
        0 => (text, ""),
        _ => text.split_at(text.rfind('`').unwrap_or(text.len())),
    };
    html! {
        @for (i, part) in text.split('`').enumerate() { @if i % 2 == 1 { code { (part) } } @else { (part) } }
        (rest)
    }
}

/// JSON of a chart that cannot end the script in which the JSON stands.
fn embedded(chart: &crate::ChartData) -> String {
    serde_json::to_string(chart).unwrap_or_default().replace('<', "\\u003c")
}

fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

fn claims_table(claims: &[Judged]) -> Markup {
    let of = |reading: Reading| claims.iter().filter(move |c| c.reading == reading.word());
    // Where nothing came out otherwise than expected there is no reason to give, and the words have the room.
    let reasons = claims.iter().any(|c| !c.reason.is_empty());
    let columns = if reasons { "6" } else { "5" };
    let common = common(claims);
    html! {
        @if !common.is_empty() {
            p.small { "Every value of the column \"here\" is at " code { (common.join(" ")) } "." }
        }
        table.claims {
            thead { tr { th { "verdict" } th { "claim" } th { "the paper" } th { "bound" } th { "here" }
                @if reasons { th { "reason" } } } }
            tbody {
                @for (reading, heading) in [
                    (Reading::Paper, ""),
                    (Reading::Variant, "Other readings of these sentences: counted apart"),
                    (Reading::Ours, "Our own bounds, not the paper's: counted apart"),
                ] {
                    @if !heading.is_empty() && of(reading).next().is_some() {
                        tr.own { td colspan=(columns) { (heading) } }
                    }
                    @for c in of(reading) { (claim_row(c, reasons, &common)) }
                }
            }
        }
    }
}

/// Settings at which all values of a table stand that stand anywhere, where there are several.
fn common(claims: &[Judged]) -> Vec<&str> {
    let places: Vec<&Vec<String>> = claims.iter().map(|c| &c.at).filter(|at| !at.is_empty()).collect();
    let Some((first, others)) = places.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Vec::new();
    };
    first.iter().filter(|pair| others.iter().all(|at| at.contains(pair))).map(String::as_str).collect()
}

fn claim_row(c: &Judged, reasons: bool, common: &[&str]) -> Markup {
    let at: Vec<&str> = c.at.iter().map(String::as_str).filter(|pair| !common.contains(pair)).collect();
    let at = at.join(" ");
    html! {
        tr {
            td { span class=(format!("verdict {}", c.outcome)) { (words_of(&c.outcome)) } }
            td {
                @for row in &c.rows { span.tag { (row) } " " }
                @if c.exact { span.tag { "exact" } " " }
                (prose(&c.text)) br; span.small { (prose(&c.source)) }
            }
            td { @if c.paper.is_empty() { span.small { "no number" } } @else { (c.paper) } }
            td { code { (bound(&c.bound)) } br; span.small { (prose(&c.why)) } }
            td {
                @match c.worst { Some(x) => { b { (short(x, decimals(&c.bound))) } @if let Some(unit) = unit(&c.expr)
                    { " " (unit) } }, None => "-" }
                @if c.worst.is_some() { " " span.small.sure { (sure(c)) } }
                @if c.values > 1 { br; span.small { "worst of " (c.values) @if !at.is_empty() { ", at " (at) } } }
                @else if !at.is_empty() { br; span.small { "at " (at) } }
                details { summary.small { "how" } code { (c.expr) } }
            }
            @if reasons { td { (prose(&c.reason)) } }
        }
    }
}

/// Certainty of a value: the value's interval, or the reason why there is no interval.
fn sure(c: &Judged) -> String {
    match (c.chance, c.interval) {
        (Chance::None, _) => "exact, no draw".to_owned(),
        (_, Some([low, high])) => format!("[{}, {}]", short(low, 0), short(high, 0)),
        (Chance::Gaps, None) => "no interval: some seeds have no value".to_owned(),
        (_, None) => "one seed: no interval".to_owned(),
    }
}

/// The unit of a formula's value, where all its figures have one and it neither multiplies, divides nor compares them.
fn unit(expr: &str) -> Option<&'static str> {
    const UNITS: [(&str, &str); 4] =
        [("_s", "s"), ("_kbps", "kbit/s"), ("_pkts", "packets"), ("_bytes", "bytes")];
    let outside: String = expr.split('{').map(|part| part.rsplit('}').next().unwrap_or_default()).collect();
    if outside.contains(['*', '/', '<', '>', '=']) {
        return None;
    }
    let of = |name: &str| {
        let found = UNITS.iter().find(|(end, _)| name.ends_with(end) && !name.contains("per_"));
        found.map(|(_, unit)| *unit)
    };
    let formula = Formula::parse(expr).ok()?;
    let mut units = formula.metrics().into_iter().map(of);
    let first = units.next()??;
    units.all(|unit| unit == Some(first)).then_some(first)
}

/// A bound in the notation of people: an interval of one number is that number.
fn bound(text: &str) -> String {
    match text.split_once("..") {
        Some((low, high)) if low == high => format!("== {low}"),
        _ => text.to_owned(),
    }
}

/// The most decimals of a number in a bound, as 4 of `6.0831..6.0833`.
fn decimals(bound: &str) -> usize {
    let numbers = bound.split("..").flat_map(|part| part.split(|c: char| !(c.is_ascii_digit() || c == '.')));
    numbers.filter_map(|n| Some(n.split_once('.')?.1.len())).max().unwrap_or(0)
}

/// A number of four digits, with at least `least` decimals, those of the number compared with.
fn short(x: f64, least: usize) -> String {
    if x == 0.0 {
        return "0".to_owned();
    }
    let digits = (3 - x.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let digits = digits.max(least.min(9));
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits() {
        let all = [0.123_456, 12.0, 1234.56, -0.5, 0.0, 1e-7].map(|x| short(x, 0));
        assert_eq!(all, ["0.1235", "12", "1235", "-0.5", "0", "0.0000001"]);
    }

    #[test]
    fn what_all_values_have_in_common_is_told_once() {
        let at = |pairs: &[&str]| Judged { at: pairs.iter().map(|p| (*p).to_owned()).collect(), ..judged() };
        let three = [at(&["n=1", "tcp=a"]), at(&[]), at(&["n=2", "tcp=a"])];
        assert_eq!(common(&three), ["tcp=a"]);
        let table = claims_table(&three).into_string();
        assert_eq!((table.matches("tcp=a").count(), table.matches("n=2").count()), (1, 1), "{table}");
        // One value has nothing in common with others.
        assert!(common(&three[..2]).is_empty());
    }

    fn judged() -> Judged {
        Judged {
            rows: Vec::new(),
            exact: false,
            reading: Reading::Paper.word().to_owned(),
            sentence: String::new(),
            text: String::new(),
            source: String::new(),
            paper: String::new(),
            expr: String::new(),
            bound: String::new(),
            why: String::new(),
            outcome: "holds".to_owned(),
            expected: "holds".to_owned(),
            worst: Some(1.0),
            at: Vec::new(),
            interval: None,
            chance: Chance::OneSeed,
            values: 1,
            reason: String::new(),
        }
    }

    #[test]
    fn a_value_has_the_unit_of_its_figures() {
        let all = [
            ("wait_small_max_s{tcp.startup=paced,n<=4}", Some("s")),
            ("max(a_mean_s{n=1} - b_mean_s{n=2})", Some("s")),
            ("cwnd_peak_a_pkts / cwnd_peak_b_pkts", None),
            ("sum(a_mean_s{n=1} < 2.5)", None),
            ("timeouts_per_flow_s", None),
            ("utilisation", None),
        ];
        assert_eq!(all.map(|(expr, _)| unit(expr)), all.map(|(_, unit)| unit));
    }

    #[test]
    fn a_value_has_the_decimals_of_its_bound() {
        let cases = [("6.0831..6.0833", 4), (">= 0.999", 3), ("== 16", 0), ("-0.3..0.3", 1), ("3..5", 0)];
        assert_eq!(cases.map(|(bound, _)| decimals(bound)), cases.map(|(_, n)| n));
        assert_eq!(short(6.083_22, decimals("6.0831..6.0833")), "6.0832");
        assert_eq!(short(1.0, 3), "1");
    }

    #[test]
    fn what_stands_between_backticks_is_code() {
        assert_eq!(
            prose("see `make bounds`, or <b>").into_string(),
            "see <code>make bounds</code>, or &lt;b&gt;"
        );
        assert_eq!(prose("one ` alone").into_string(), "one ` alone");
        assert_eq!(prose("").into_string(), "");
    }

    #[test]
    fn a_bar_is_as_full_as_figures_are_run() {
        let score = Score { holds: 3, fails: 1, ..Score::default() };
        let all = bar(score, 2, 2).into_string();
        assert!(!all.contains("rest") && all.contains(r#"title="3 hold, 1 does not hold""#), "{all}");
        // Four verdicts of one figure of ten: nine times as much is not there.
        let one = bar(score, 1, 10).into_string();
        assert!(one.contains(r#"class="rest" style="flex-grow:36""#), "{one}");
        assert!(one.contains("1 of 10 figures are run"), "{one}");
    }

    #[test]
    fn a_title_cannot_end_the_script() {
        let chart = crate::ChartData { title: "</script><b>".into(), ..Default::default() };
        let text = embedded(&chart);
        assert!(!text.contains('<'), "{text}");
        assert_eq!(serde_json::from_str::<crate::ChartData>(&text).unwrap(), chart);
    }
}
