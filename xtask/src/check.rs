//! `make check`: what can be told of a change in a minute. Formatting, lints and types are looked at everywhere; of
//! tests those within the crates that changed run.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::lint::Lint;
use crate::peers::programs::root;
use crate::steps::show;
use crate::test::{self, Kinds};

/// Arguments of `xtask check`.
#[derive(clap::Args)]
pub struct Args {
    /// Commit to compare with: the last one in common with it (origin/main, or main)
    #[arg(long, value_name = "COMMIT")]
    since: Option<String>,
}

/// Looks at what changed, and prints a summary.
///
/// # Errors
///
/// If git does not know what changed, or something could not be started.
pub fn run(args: &Args) -> Result<()> {
    let files = changed(args.since.as_deref())?;
    let packages = packages(&files);
    let mut report = test::Report::default();
    test::lints(&mut report, &Lint::ALL)?;
    if packages.is_empty() {
        show("no crate changed\n");
    } else {
        let named: Vec<_> = packages.iter().map(|package| package.trim_start_matches("narrows-")).collect();
        show(&format!("changed: {}\n", named.join(", ")));
        let packages: Vec<_> = packages.into_iter().collect();
        let chosen = test::Chosen { packages: &packages, ..test::Chosen::default() };
        test::tests(&mut report, chosen, Kinds::Unit, Vec::new())?;
    }
    test::finish(&report);
    Ok(())
}

/// Files that differ from the last commit in common, those that git does not know yet included.
fn changed(since: Option<&str>) -> Result<Vec<String>> {
    let base = match since {
        Some(commit) => git(&["merge-base", "HEAD", commit])?,
        None => ["origin/main", "main"]
            .iter()
            .find_map(|main| git(&["merge-base", "HEAD", main]).ok())
            .context("no branch main to compare with; name a commit: --since COMMIT")?,
    };
    let known = git(&["diff", "--name-only", base.trim()])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(known.lines().chain(new.lines()).map(str::to_owned).collect())
}

fn git(args: &[&str]) -> Result<String> {
    let out = Command::new("git").args(args).current_dir(root()).output().context("starting git")?;
    ensure!(out.status.success(), "git {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr).trim());
    String::from_utf8(out.stdout).context("what git says")
}

/// Packages with tests of their own that hold any of `files`.
fn packages(files: &[String]) -> BTreeSet<String> {
    let package = |file: &String| {
        let mut parts = file.split('/');
        match (parts.next()?, parts.next()?) {
            ("crates", "python") => None,
            ("crates", name) => Some(format!("narrows-{name}")),
            ("xtask", _) => Some("narrows-xtask".to_owned()),
            _ => None,
        }
    };
    files.iter().filter_map(package).filter(|name| root().join(folder(name)).exists()).collect()
}

fn folder(package: &str) -> String {
    match package.trim_start_matches("narrows-") {
        "xtask" => "xtask/Cargo.toml".to_owned(),
        name => format!("crates/{name}/Cargo.toml"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_its_package() {
        let files = [
            "crates/qdisc/src/taq.rs",
            "crates/qdisc/tests/it/users.rs",
            "crates/gone/src/lib.rs",
            "crates/python/src/lib.rs",
            "xtask/src/main.rs",
            "docs/README.md",
            "Makefile",
        ];
        let found = packages(&files.map(str::to_owned));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["narrows-qdisc", "narrows-xtask"]);
    }
}
