//! Documents: links that lead somewhere, a first page of one screen or two. Code: nothing that is a note to oneself.

use std::path::Path;

use super::{Broken, Rule, is_code};

/// Lines of the first page.
const README_LINES: usize = 120;
/// Words that are explained because no RFC, paper or kernel source explains them.
const GLOSSARY: usize = 40;
/// Marks of notes to oneself, cut in two so that this file does not hold any.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];

/// Rules that a file breaks by itself.
pub fn file(root: &Path, path: &str, text: &str) -> Vec<Broken> {
    let broken =
        |n: usize, told: String| Broken { rule: Rule::Document, path: path.to_owned(), line: n + 1, told };
    let mut all = Vec::new();
    if is_code(path) {
        for (n, line) in text.lines().enumerate() {
            all.extend(
                NOTES
                    .iter()
                    .filter(|note| line.contains(**note))
                    .map(|note| broken(n, format!("says {note}"))),
            );
        }
    }
    if path.ends_with(".md") {
        let dir = root.join(path).parent().map(Path::to_owned).unwrap_or_default();
        for (n, link) in links(text) {
            if !dir.join(&link).exists() {
                all.push(broken(n, format!("leads to {link}, which is not there")));
            }
        }
    }
    if path == "README.md" && text.lines().count() > README_LINES {
        all.push(broken(0, format!("{} lines, at most {README_LINES}", text.lines().count())));
    }
    if path == "docs/glossary.md" && entries(text) > GLOSSARY {
        all.push(broken(0, format!("{} entries, at most {GLOSSARY}", entries(text))));
    }
    all
}

/// Files that a page links to, relative to it, and on which line. What stands in code is no link.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (n, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Between backticks is code: every other piece.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for piece in prose.split("](").skip(1) {
            let Some((target, _)) = piece.split_once(')') else { continue };
            let target = target.split(['#', ' ']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains(':') {
                found.push((n, target.to_owned()));
            }
        }
    }
    found
}

/// Entries of the glossary: rows of its table but the first two, or headings of the third level.
fn entries(text: &str) -> usize {
    let rows = text.lines().filter(|l| l.starts_with('|')).count().saturating_sub(2);
    rows + text.lines().filter(|l| l.starts_with("### ")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, text: &str) -> Vec<String> {
        file(crate::peers::programs::root(), path, text).into_iter().map(|b| b.told).collect()
    }

    #[test]
    fn links_lead_somewhere() {
        let text = "[a](../Cargo.toml) ![b](nowhere.svg) [c](https://example.org) [d](#here) `[e](code.md)`\n\
                    ```\n[f](fenced.md)\n```\n[g](../Makefile#there) [h](gone.md#part)";
        assert_eq!(
            told("docs/x.md", text),
            ["leads to nowhere.svg, which is not there", "leads to gone.md, which is not there"]
        );
    }

    #[test]
    fn lengths() {
        assert_eq!(told("README.md", &"a\n".repeat(README_LINES)), [""; 0]);
        assert_eq!(told("README.md", &"a\n".repeat(README_LINES + 1)).len(), 1);
        let rows = "| a | b |\n".repeat(GLOSSARY + 2);
        assert_eq!(told("docs/glossary.md", &rows), [""; 0]);
        assert_eq!(told("docs/glossary.md", &format!("{rows}| c | d |\n")).len(), 1);
    }

    #[test]
    fn notes_to_oneself() {
        assert_eq!(told("a.rs", &format!("// {}: later", NOTES[0])), [format!("says {}", NOTES[0])]);
        assert_eq!(told("a.md", NOTES[0]), [""; 0]);
    }
}
