//! Checks what no compiler checks: columns of a line, links of documents, names that may repeat, places of files and
//! reasons for dependencies. Reads the files that git tracks; builds nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

mod documents;
mod layout;
mod names;

/// Columns of a line.
const COLUMNS: usize = 120;

/// Arguments of `xtask tidy`.
#[derive(clap::Args)]
pub struct Args {
    /// The checkout (this one)
    #[arg(long, value_name = "DIR")]
    root: Option<std::path::PathBuf>,
    /// Count how often each rule is broken in each part of the tree, and list no places
    #[arg(long)]
    count: bool,
}

/// A rule that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    Columns,
    Document,
    Place,
    Name,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Columns => write!(f, "lines over {COLUMNS} columns"),
            Self::Document => f.write_str("documents"),
            Self::Place => f.write_str("places of files, and reasons for dependencies"),
            Self::Name => f.write_str("names of public types"),
        }
    }
}

/// Broken rule: file, line and explanation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Broken {
    rule: Rule,
    path: String,
    line: usize,
    told: String,
}

/// Prints what is broken, and ends the program with status 1 if anything is.
pub fn run(args: &Args) -> Result<()> {
    let root = args.root.as_deref().unwrap_or_else(|| crate::peers::programs::root());
    let paths = tracked(root)?;
    let mut broken = Vec::new();
    let mut rust = BTreeMap::new();
    for path in &paths {
        // A link, or a file that is gone from the working tree.
        let Ok(bytes) = std::fs::read(root.join(path)) else { continue };
        let Ok(text) = String::from_utf8(bytes) else { continue };
        if is_code(path) {
            broken.extend(code(path, &text));
        }
        broken.extend(documents::file(root, path, &text));
        if path.ends_with(".rs") {
            rust.insert(path.clone(), text);
        }
    }
    broken.extend(names::all(&rust));
    broken.extend(layout::all(root, &paths)?);
    broken.sort();
    print(&broken, args.count);
    if !broken.is_empty() {
        eprintln!("tidy: {} places break a rule", broken.len());
        std::process::exit(1);
    }
    Ok(())
}

fn print(broken: &[Broken], count: bool) {
    let mut rules: BTreeMap<Rule, Vec<&Broken>> = BTreeMap::new();
    broken.iter().for_each(|b| rules.entry(b.rule).or_default().push(b));
    for (rule, places) in rules {
        println!("{rule}: {}", places.len());
        if count {
            let mut parts: BTreeMap<&str, usize> = BTreeMap::new();
            places.iter().for_each(|b| *parts.entry(part(&b.path)).or_default() += 1);
            parts.iter().for_each(|(part, n)| println!("  {part}: {n}"));
        } else {
            places.iter().for_each(|b| println!("  {}:{}: {}", b.path, b.line, b.told));
        }
    }
}

/// The crate, or else the folder.
fn part(path: &str) -> &str {
    let parts = if path.starts_with("crates/") { 2 } else { 1 };
    path.match_indices('/').nth(parts - 1).map_or(path, |(at, _)| &path[..at])
}

fn tracked(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output();
    let output = output.context("git: expected it to list the files")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    let names = String::from_utf8(output.stdout).context("names of files in UTF-8")?;
    Ok(names.split_terminator('\0').map(str::to_owned).collect())
}

fn is_code(path: &str) -> bool {
    [".rs", ".py", ".c", ".h"].iter().any(|ending| path.ends_with(ending))
}

/// Rules that a file of code breaks by itself.
fn code(path: &str, text: &str) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        // An address cannot be broken.
        if columns > COLUMNS && !line.contains("://") {
            let told = format!("{columns} columns");
            broken.push(Broken { rule: Rule::Columns, path: path.to_owned(), line: n + 1, told });
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, text: &str) -> Vec<(Rule, usize)> {
        code(path, text).into_iter().map(|b| (b.rule, b.line)).collect()
    }

    #[test]
    fn long_lines() {
        let wide = "é".repeat(COLUMNS);
        assert_eq!(told("a.c", &format!("{wide}\n{wide}x\n")), [(Rule::Columns, 2)]);
        assert_eq!(told("a.rs", &format!("// https://example.org/{wide}")), []);
    }

    #[test]
    fn parts_of_the_tree() {
        assert_eq!(part("crates/qdisc/src/lib.rs"), "crates/qdisc");
        assert_eq!(part("python/narrows/a.py"), "python");
        assert_eq!(part("README.md"), "README.md");
    }

    #[test]
    fn files_are_found() {
        let paths = tracked(crate::peers::programs::root()).unwrap();
        assert!(paths.iter().any(|p| p == "xtask/src/main.rs"));
    }
}
