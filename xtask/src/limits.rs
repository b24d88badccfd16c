//! How long files, functions, argument lists and lines may be, what documents may not do, and which names may repeat.
//! Reads the files that git tracks; builds nothing. Clippy has the same bounds for functions in Rust; here they hold
//! for Python and C too.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

mod documents;
mod functions;
mod layout;
mod names;

/// Lines of a file that is neither a test nor a table.
const FILE_LINES: usize = 450;
/// Lines of code in a function.
const FUNCTION_LINES: usize = 60;
/// Arguments of a function, `self` included.
const ARGUMENTS: usize = 6;
/// Columns of a line.
const COLUMNS: usize = 120;
/// Files that are longer because they are tables, each with its reason.
const TABLES: [(&str, &str); 0] = [];

/// Which checkout to look at.
#[derive(clap::Args)]
pub struct Args {
    /// The checkout (this one)
    #[arg(long, value_name = "DIR")]
    root: Option<std::path::PathBuf>,
    /// Only how often each bound is broken in each part of the tree
    #[arg(long)]
    count: bool,
}

/// A bound that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Bound {
    File,
    Function,
    Arguments,
    Columns,
    Document,
    Place,
    Name,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => write!(f, "files over {FILE_LINES} lines"),
            Self::Function => write!(f, "functions over {FUNCTION_LINES} lines of code"),
            Self::Arguments => write!(f, "functions with more than {ARGUMENTS} arguments"),
            Self::Columns => write!(f, "lines over {COLUMNS} columns"),
            Self::Document => f.write_str("documents"),
            Self::Place => f.write_str("places of files, and reasons for dependencies"),
            Self::Name => f.write_str("names of public types"),
        }
    }
}

/// Where a bound is broken, and by how much.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Broken {
    bound: Bound,
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
    broken.extend(functions::python(root, &paths)?);
    broken.extend(documents::all(root, &paths)?);
    broken.extend(layout::all(root, &paths)?);
    broken.sort();
    print(&broken, args.count);
    if !broken.is_empty() {
        eprintln!("limits: {} places break a bound", broken.len());
        std::process::exit(1);
    }
    Ok(())
}

fn print(broken: &[Broken], count: bool) {
    let mut bounds: BTreeMap<Bound, Vec<&Broken>> = BTreeMap::new();
    broken.iter().for_each(|b| bounds.entry(b.bound).or_default().push(b));
    for (bound, places) in bounds {
        println!("{bound}: {}", places.len());
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

/// Tests are as long as what they try.
fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.split('/').any(|part| part == "tests") || name == "tests.rs" || name.starts_with("test_")
}

/// What a file of code breaks by itself. Functions in Python are asked of Python.
fn code(path: &str, text: &str) -> Vec<Broken> {
    let mut broken = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let own = before_tests(&lines);
    let excused = is_test(path) || TABLES.iter().any(|(table, _)| *table == path);
    if own > FILE_LINES && !excused {
        let told = format!("{own} lines");
        broken.push(Broken { bound: Bound::File, path: path.to_owned(), line: 1, told });
    }
    for (n, line) in lines.iter().enumerate() {
        let columns = line.chars().count();
        // An address cannot be broken.
        if columns > COLUMNS && !line.contains("://") {
            let told = format!("{columns} columns");
            broken.push(Broken { bound: Bound::Columns, path: path.to_owned(), line: n + 1, told });
        }
    }
    let found = match path.rsplit('.').next() {
        Some("rs") => functions::rust(&lines),
        Some("c" | "h") => functions::c(&lines),
        _ => Vec::new(),
    };
    broken.extend(found.iter().flat_map(|f| f.judged(path, is_test(path) || f.line > own)));
    broken
}

/// Lines before the tests at the foot of a file in Rust.
fn before_tests(lines: &[&str]) -> usize {
    let tests =
        |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{');
    lines.windows(2).position(tests).unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, text: &str) -> Vec<(Bound, usize)> {
        code(path, text).into_iter().map(|b| (b.bound, b.line)).collect()
    }

    #[test]
    fn long_files() {
        let long = "//\n".repeat(FILE_LINES + 1);
        assert_eq!(told("crates/a/src/b.rs", &long), [(Bound::File, 1)]);
        assert_eq!(told("python/a.py", &long), [(Bound::File, 1)]);
        for test in ["crates/a/tests/b.rs", "crates/a/src/b/tests.rs", "tests/tests/b.rs", "python/test_a.py"]
        {
            assert_eq!(told(test, &long), []);
        }
        let short = "//\n".repeat(FILE_LINES);
        assert_eq!(told("a.rs", &short), []);
        assert_eq!(told("a.rs", &format!("{short}#[cfg(test)]\nmod tests {{\n{short}}}\n")), []);
    }

    #[test]
    fn long_lines() {
        let wide = "é".repeat(COLUMNS);
        assert_eq!(told("a.c", &format!("{wide}\n{wide}x\n")), [(Bound::Columns, 2)]);
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
