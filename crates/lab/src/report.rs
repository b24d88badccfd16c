//! A page that opens in a browser: the figures that matter most, the picture, all other figures, how it was made. One
//! file that needs nothing else, with the style of the pages of `narrows reproduce`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use narrows_plot::{dark_rules, to_svg_narrow, to_svg_untitled};

use super::picture::{picture, title};
use super::suite::Outcome;
use super::table::{self, Figure, Figures, plain_name};

const STYLE: &str = include_str!("../../../web/report.css");
/// Style of these pages alone: two drawings, of which a screen shows the one that fits, and tables that stay tables on
/// a telephone, with the first column always in sight.
const MORE: &str = "figure { margin: 1rem 0 } figure svg { display: block; width: 100%; height: auto } \
                    .telephone { display: none } \
                    @media screen and (max-width: 900px) { .desk { display: none } \
                    .telephone { display: block; max-width: 36rem } } \
                    .wide { overflow-x: auto } .wide table thead { display: table-header-group } \
                    .wide table tr { display: table-row } \
                    .wide table td, .wide table th { display: table-cell; padding: .3em .5em } \
                    .wide td, .wide thead th { white-space: nowrap; text-align: right; padding-left: 1.5em } \
                    .wide thead th:first-child { text-align: left; padding-left: 0 } \
                    .wide tbody th { padding-left: 0; font-weight: normal; font-size: 1em; color: var(--ink); \
                    position: sticky; left: 0; background: var(--paper) } \
                    .hint { display: none } \
                    @media screen and (max-width: 700px) { .hint { display: block } \
                    .wide table td, .wide table th { padding: .3em 0 .3em .7em; font-size: .85rem } \
                    .wide table th:first-child { padding-left: 0 } } ";
/// Number of disciplines that a telephone shows beside the names of figures.
const ON_A_TELEPHONE: usize = 3;

/// Writes `OUT/NAME.html` and gives its path. The sentences of `verdict` come first.
///
/// # Errors
/// If the page cannot be written.
pub fn write(outcome: &Outcome, verdict: &[String], out: &Path) -> anyhow::Result<PathBuf> {
    let file = out.join(format!("{}.html", outcome.scenario.name));
    let text = page(outcome, verdict).into_string();
    std::fs::write(&file, text).with_context(|| format!("{}: cannot be written", file.display()))?;
    Ok(file)
}

fn page(outcome: &Outcome, verdict: &[String]) -> Markup {
    let title = title(&outcome.scenario);
    let drawn = picture(outcome);
    let figures = Figures::of(outcome);
    let dark = format!("@media screen and (prefers-color-scheme: dark) {{ {} }}", dark_rules("figure"));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " (Narrows)" }
                // No icon: without this a browser asks a server for one.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) (PreEscaped(MORE)) (PreEscaped(dark)) }
            }
            body {
                main {
                    h1 { (title) }
                    p.small { (drawn.subtitle) }
                    @if let Some((head, rest)) = verdict.split_first() {
                        p { strong { (head) } }
                        @for sentence in rest { p { (sentence) } }
                    }
                    @for line in table::remarks(outcome) { p { (line) } }
                    div.first { (table_of(&figures, &figures.first(), "figures that matter most")) }
                    figure {
                        div.desk { (PreEscaped(to_svg_untitled(&drawn))) }
                        div.telephone { (PreEscaped(to_svg_narrow(&drawn))) }
                    }
                    @let rest = figures.rest();
                    @if !rest.is_empty() {
                        details {
                            summary { (rest.len()) " more figures" }
                            (table_of(&figures, &rest, "all other figures"))
                        }
                    }
                    p.small {
                        "Medians, with the range over seeds where there are several. Made by narrows "
                        (outcome.version) " on Linux " (outcome.kernel) ": " code { (outcome.command) }
                    }
                }
            }
        }
    }
}

fn table_of(figures: &Figures, rows: &[&Figure], name: &str) -> Markup {
    let columns = figures.disciplines();
    html! {
        @if columns.len() > ON_A_TELEPHONE {
            p.small.hint { "The table goes on to the right: " (columns.len()) " disciplines." }
        }
        div.wide tabindex="0" role="region" aria-label=(name) {
            table {
                thead {
                    tr {
                        th scope="col" { "figure" }
                        @for discipline in columns {
                            th scope="col" {
                                @if let Some(name) = plain_name(discipline) { (name) br; }
                                code { (discipline) }
                            }
                        }
                    }
                }
                tbody {
                    @for row in rows {
                        tr { th scope="row" { (row.label) } @for cell in &row.cells { td { (cell) } } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
