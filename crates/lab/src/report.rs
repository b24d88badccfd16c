//! A page that opens in a browser: the picture, what came of each discipline, how it was made. One file that needs
//! nothing else, with the style of the pages of `narrows reproduce`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::suite::Outcome;
use super::table;

const STYLE: &str = include_str!("../../../web/report.css");
/// What only these pages have: a picture as wide as the page, and a table, which on a small screen move in frames of
/// their own.
const MORE: &str = "figure svg { width: 100%; min-width: 44rem; height: auto; background: #fff } \
                    .wide { overflow-x: auto; margin-inline: 0 } .wide table thead { display: table-header-group } \
                    .wide table tr { display: table-row } \
                    .wide table td, .wide table th { display: table-cell; white-space: nowrap; padding: .3em .5em } \
                    .wide table td + td, .wide table th + th { text-align: right; padding-left: 1.5em }";

/// Writes `OUT/NAME.html` around the picture that [`crate::picture::write`] has drawn, and gives its path. `verdict`
/// comes first.
///
/// # Errors
/// If the picture cannot be read or the page written.
pub fn write(outcome: &Outcome, verdict: Option<&str>, out: &Path) -> anyhow::Result<PathBuf> {
    let path = |extension: &str| out.join(format!("{}.{extension}", outcome.scenario.name));
    let (picture, file) = (path("svg"), path("html"));
    let svg = std::fs::read_to_string(&picture)
        .with_context(|| format!("{}: cannot be read", picture.display()))?;
    // A declaration of XML has no place inside a page.
    let svg = svg.find("<svg").map_or("", |at| &svg[at..]);
    let text = page(outcome, verdict, svg).into_string();
    std::fs::write(&file, text).with_context(|| format!("{}: cannot be written", file.display()))?;
    Ok(file)
}

fn page(outcome: &Outcome, verdict: Option<&str>, svg: &str) -> Markup {
    let s = &outcome.scenario;
    let lines = table::lines(outcome);
    let (head, rows) = lines.split_first().map_or((&[][..], &[][..]), |(head, rows)| (&head[..], rows));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "narrows: " (s.name) }
                // No icon: without this a browser asks a server for one.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) (PreEscaped(MORE)) }
            }
            body {
                main {
                    h1 { (s.name) }
                    p { (s.about) "." }
                    @if let Some(verdict) = verdict { p { strong { (verdict) } } }
                    figure.wide tabindex="0" { (PreEscaped(svg)) }
                    @for line in table::remarks(outcome) { p { (line) } }
                    div.wide tabindex="0" role="region" aria-label="all figures" {
                        table {
                            thead { tr { @for cell in head { th scope="col" { (cell) } } } }
                            tbody {
                                @for row in rows { tr { @for cell in row { td { (cell) } } } }
                            }
                        }
                    }
                    p {
                        "Medians, with the range over seeds where there are several. Made by narrows "
                        (outcome.version) " on Linux " (outcome.kernel) ": " code { (outcome.command) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::metrics::Spread;
    use crate::scenario::Scenario;
    use crate::suite::DisciplineOutcome;

    #[test]
    fn a_page_has_the_picture_and_says_who_took_no_part() {
        let text = "name = \"few\"\nabout = \"a <few> users\"\nrate = \"600kbit\"\nrtt = \"200ms\"\n\
                    duration = \"5s\"\ndisciplines = [\"fifo:30\"]\n[[traffic]]\nkind = \"objects\"\nusers = 3\n";
        let one = Spread { median: 551.0, min: 551.0, max: 551.0 };
        let outcome = Outcome {
            version: "1".into(),
            command: "narrows lab few.toml".into(),
            kernel: "6.1".into(),
            scenario: Scenario::parse(text, &[]).unwrap(),
            disciplines: vec![DisciplineOutcome {
                discipline: "kernel:cake".into(),
                skipped: Some("no such module".into()),
                summary: BTreeMap::from([("goodput_kbps".to_owned(), one)]),
                ..DisciplineOutcome::default()
            }],
        };
        let html = page(&outcome, Some("It helps."), "<svg id=\"it\"/>").into_string();
        for part in
            ["a &lt;few&gt; users", "<svg id=\"it\"/>", "It helps.", "kernel:cake: skipped: no such module"]
        {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("src=") && !html.contains("http"), "one file: {html}");
    }
}
