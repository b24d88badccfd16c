//! `make test`: every test, the Python package, formatting and lints; at the end what became of them. A step runs
//! also where one before it failed. Of chosen packages only the tests run.

mod report;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use report::Report;

/// What to pass on.
#[derive(clap::Args)]
pub struct Args {
    /// For `cargo test`, as `-p narrows-qdisc` or `-- --nocapture`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    cargo: Vec<String>,
}

/// Runs everything and prints a summary.
///
/// # Errors
/// If something failed, or could not be started.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let chosen = chooses_packages(&args.cargo);
    let mut report = Report::default();
    let skips = std::env::temp_dir().join(format!("narrows-skips-{}", std::process::id()));

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.arg("test").args((!chosen).then_some("--workspace")).arg("--no-fail-fast").args(&args.cargo);
    command.env(narrows_testing::SKIPS, &skips);
    let success = each_line(command, |line| {
        if let Some(text) = report.cargo(line) {
            show(&text);
        }
    })?;
    report.cargo_ended(success);
    // Without a skipped test there is no file.
    report.skips(&std::fs::read_to_string(&skips).unwrap_or_default());
    let _ = std::fs::remove_file(&skips);

    if !chosen {
        let before = report.failures();
        let success = make("python-test", |line| report.python(line))?;
        report.step_ended("the Python package", success, false, before);

        let before = report.failures();
        let success = make("lints", |line| report.lints(line))?;
        report.step_ended("formatting and lints", success, true, before);
    }

    show(&report.text());
    if report.failures() > 0 {
        std::process::exit(1);
    }
    Ok(())
}

/// Whether these arguments of `cargo test` name packages.
fn chooses_packages(cargo: &[String]) -> bool {
    cargo
        .iter()
        .take_while(|arg| *arg != "--")
        .any(|arg| arg.starts_with("-p") || arg.starts_with("--package"))
}

/// Runs a target of the Makefile, whose lines are shown as they are.
fn make(target: &str, mut take: impl FnMut(&str)) -> anyhow::Result<bool> {
    let mut command = Command::new(std::env::var_os("MAKE").unwrap_or_else(|| "make".into()));
    command.args(["--no-print-directory", target]);
    each_line(command, |line| {
        show(&format!("{line}\n"));
        take(line);
    })
}

/// Runs a command, whose two outputs are read as one; tells whether it succeeded.
fn each_line(mut command: Command, mut take: impl FnMut(&str)) -> anyhow::Result<bool> {
    let (reader, writer) = std::io::pipe().context("a pipe")?;
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(writer.try_clone().context("a pipe")?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
    // The writing ends that this process holds would keep the pipe open.
    drop(command);
    let mut reader = BufReader::new(reader);
    let mut raw = Vec::new();
    while reader.read_until(b'\n', &mut raw).with_context(|| format!("reading from {name}"))? > 0 {
        take(String::from_utf8_lossy(&raw).trim_end_matches(['\n', '\r']));
        raw.clear();
    }
    Ok(child.wait().with_context(|| format!("waiting for {name}"))?.success())
}

/// Nobody may be reading any more; the tests run on.
fn show(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
