//! `make test`: lints, then every test, the Python package's too; at the end what became of them. A step runs also
//! where one before it failed, but for tests that could not be compiled.

mod pool;
mod programs;
mod report;

use anyhow::Result;

use crate::lint::Lint;
use crate::peers::programs::{root, target};
use crate::recipes::path;
use crate::steps::{cargo, show, unmarked};
use pool::Job;
pub use report::Report;

/// Name of the Python package's tests in reports.
const PYTHON: &str = "the Python package";

/// Arguments of `xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Tests of this package alone, as qdisc; again for more
    #[arg(short, long = "package", value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Run what needs a virtual machine on the oldest and the newest kernel, not on one of them
    #[arg(long)]
    every_kernel: bool,
    /// For the programs of tests: names of tests, --nocapture, --include-ignored
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Runs everything and prints a summary.
///
/// # Errors
///
/// If something could not be started.
pub fn run(args: &Args) -> Result<()> {
    let all = args.packages.is_empty() && args.words.is_empty();
    let mut report = Report::default();
    if all {
        lints(&mut report, &Lint::ALL)?;
    }
    let beside = if all { vec![python()] } else { Vec::new() };
    let chosen = Chosen { packages: &args.packages, words: &args.words, every_kernel: args.every_kernel };
    tests(&mut report, chosen, Kinds::All, beside)?;
    finish(&report);
    Ok(())
}

/// Kinds of tests of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    All,
    /// Tests within the crate.
    Unit,
}

/// Prints the summary, and ends the program with status 1 if something failed.
pub fn finish(report: &Report) {
    show(&report.text());
    if report.failures() > 0 {
        std::process::exit(1);
    }
}

/// Looks for what can be told without running anything.
pub fn lints(report: &mut Report, lints: &[Lint]) -> Result<()> {
    for lint in lints {
        match lint.missing() {
            Some(why) => report.missing(lint.name(), why),
            None => report.lint(lint.name(), lint.run()?.success),
        }
    }
    Ok(())
}

/// Choice of tests, and of the kernels for tests in a machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chosen<'a> {
    /// Names of packages; none: all.
    pub packages: &'a [String],
    /// Words for libtest.
    pub words: &'a [String],
    /// Whether what runs in a machine runs on the oldest and the newest kernel.
    pub every_kernel: bool,
}

/// Builds and runs the chosen tests, and other jobs `beside`.
pub fn tests(report: &mut Report, chosen: Chosen<'_>, kinds: Kinds, beside: Vec<Job>) -> Result<()> {
    let Chosen { packages, words, every_kernel } = chosen;
    let packages: Vec<_> =
        packages.iter().map(|name| name.trim_start_matches("narrows-").to_owned()).collect();
    let (selection, library) = (selection(&packages), programs::have_library(&packages));
    show("building the tests\n");
    let (programs, built) = match kinds {
        Kinds::All => programs::build(&selection, &["--tests"])?,
        // With the features that other crates ask for, some of which have tests.
        Kinds::Unit if library => programs::build(&selection, &["--lib", "--bins", "--all-features"])?,
        Kinds::Unit => programs::build(&selection, &["--bins", "--all-features"])?,
    };
    // The program that live tests start; of all packages it is there already.
    let narrows = kinds == Kinds::Unit || cargo(&["build", "-q", "--bin", "narrows"]).status()?.success();
    show(&format!("built ({} s)\n", built.took.as_secs()));
    let built = built.success && narrows;
    report.step_ended("building the tests", built, report.failures());
    if !built {
        return Ok(());
    }
    let skips = std::env::temp_dir().join(format!("narrows-skips-{}", std::process::id()));
    let machines = kinds == Kinds::All && programs.iter().any(Job::wants_machine) && pool::machines();
    let mut jobs = beside;
    let bin = target_dir().join("debug/narrows");
    let around = pool::Around { skips: &skips, narrows: &bin, machines, every_kernel };
    jobs.extend(programs.iter().flat_map(|program| Job::of(program, words, &around)));
    if kinds == Kinds::All && words.is_empty() && library {
        let mut examples = cargo(&["test", "-q", "--doc", "--no-fail-fast"]);
        examples.args(&selection);
        jobs.push(Job::new("examples in the documentation", examples));
    }
    let path = path(&target_dir())?;
    jobs.iter_mut().for_each(|job| job.surround(&bin, &path));
    pool::run(jobs, |outcome| {
        show(&if outcome.name == PYTHON {
            report.python(&outcome.said, outcome.success, outcome.took)
        } else {
            report.program(&outcome.name, &outcome.said, outcome.success, outcome.took)
        });
    })?;
    // Without a skipped test there is no file.
    report.skips(&std::fs::read_to_string(&skips).unwrap_or_default());
    let _ = std::fs::remove_file(&skips);
    Ok(())
}

/// For cargo: these packages, which are called as their folders are, or all.
fn selection(packages: &[String]) -> Vec<String> {
    if packages.is_empty() {
        return vec!["--workspace".to_owned()];
    }
    packages.iter().flat_map(|name| ["-p".to_owned(), format!("narrows-{name}")]).collect()
}

fn target_dir() -> std::path::PathBuf {
    root().join(target())
}

/// Job that tests the Python package in an environment of its own.
fn python() -> Job {
    let mut command = std::process::Command::new("scripts/python-test");
    command.arg("-rsfE").current_dir(root()).env("CARGO_TARGET_DIR", target_dir());
    unmarked(&mut command);
    Job::new(PYTHON, command)
}
