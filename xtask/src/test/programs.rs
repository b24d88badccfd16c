//! The programs of tests: built, and found in what cargo says of it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::peers::programs::root;
use crate::steps::{Ended, cargo, each_line, show};

/// A program of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Name of the package, without the common prefix.
    package: String,
    /// Whether the program tests the package from outside, as `tests/it` does.
    outside: bool,
    file: PathBuf,
    /// Folder of the package, in which the tests run.
    folder: PathBuf,
}

/// Fields that are used of a line in cargo's output.
#[derive(Deserialize)]
struct Line {
    reason: String,
    manifest_path: Option<PathBuf>,
    executable: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Program {
    #[cfg(test)]
    pub fn from_outside(package: &str) -> Self {
        Self { package: package.to_owned(), outside: true, file: "it".into(), folder: ".".into() }
    }

    /// Name of the program in reports.
    pub fn name(&self) -> String {
        format!("{}, {}", self.package, if self.outside { "from outside" } else { "unit tests" })
    }

    /// The package, without what all have in common.
    pub fn package(&self) -> &str {
        &self.package
    }

    /// Whether the program tests the package from outside.
    pub fn is_outside(&self) -> bool {
        self.outside
    }

    /// Path of the program.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Command that runs the program.
    pub fn command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.file);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// Reads a line of `--message-format=json`; `None` if it is about something else.
    fn from_json(line: &str) -> Option<Self> {
        let line: Line = serde_json::from_str(line).ok()?;
        let tests = line.reason == "compiler-artifact" && line.profile?.test;
        let folder = line.manifest_path?.parent()?.to_owned();
        let package = package(&folder)?;
        let outside = line.target?.kind.iter().any(|kind| kind == "test");
        tests.then_some(Self { package, outside, file: line.executable?, folder })
    }
}

/// Name of a package, which is the name of its folder.
fn package(folder: &Path) -> Option<String> {
    Some(folder.file_name()?.to_str()?.to_owned())
}

/// Whether one of these packages has a library; of others cargo refuses to test one.
pub fn have_library(packages: &[String]) -> bool {
    packages.is_empty()
        || packages.iter().any(|package| root().join("crates").join(package).join("src/lib.rs").exists())
}

/// Builds the tests of the packages that `selection` says; what the compiler says is shown.
pub fn build(selection: &[String], wanted: &[&str]) -> Result<(Vec<Program>, Ended)> {
    let mut command = cargo(&["test", "--no-run"]);
    command.args(wanted);
    command.arg("--message-format=json-render-diagnostics").args(selection);
    let mut programs = Vec::new();
    let ended = each_line(command, |line| {
        if !line.starts_with('{') {
            show(&format!("{line}\n"));
        } else if let Some(program) = Program::from_json(line) {
            programs.push(program);
        }
    })
    .context("building the tests")?;
    programs.sort_by_key(Program::name);
    Ok((programs, ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line in the form of cargo 1.95, shortened.
    #[test]
    fn programs_are_found_among_artifacts() {
        let line = |kind: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/n/crates/qdisc/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"x"}},"profile":{{"opt_level":"1","test":{test}}},
                "filenames":[],"executable":{executable},"fresh":true}}"#
            )
        };
        let found = Program::from_json(&line("test", true, r#""/n/target/debug/deps/it-12""#)).unwrap();
        assert_eq!(found.name(), "qdisc, from outside");
        let found =
            Program::from_json(&line("lib", true, r#""/n/target/debug/deps/narrows_qdisc-34""#)).unwrap();
        assert_eq!((found.name().as_str(), found.folder), ("qdisc, unit tests", "/n/crates/qdisc".into()));
        assert_eq!(Program::from_json(&line("lib", false, "null")), None);
        assert_eq!(Program::from_json(&line("bin", false, r#""/n/target/debug/narrows""#)), None);
        assert_eq!(Program::from_json(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
