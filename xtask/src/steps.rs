//! Commands that a task runs one after the other, each shown before it starts.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::peers::programs::root;

/// Outcome of a step.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub success: bool,
    pub took: Duration,
}

/// The cargo that runs this task, or the one on the path, in the workspace's folder.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    unmarked(&mut command);
    command
}

/// Takes from a command what `cargo run` told this program of itself. A build script that asks for it would run again,
/// and all that depends on it would be compiled again.
pub fn unmarked(command: &mut Command) {
    let told = |name: &str| {
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(told) {
            command.env_remove(name);
        }
    }
}

/// Runs a command whose two outputs are read as one; shows it, and hands each line on.
pub fn each_line(mut command: Command, mut take: impl FnMut(&str)) -> Result<Ended> {
    let begun = Instant::now();
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
    let success = child.wait().with_context(|| format!("waiting for {name}"))?.success();
    Ok(Ended { success, took: begun.elapsed() })
}

/// Prints text. A reader that has gone is no error; the work goes on.
pub fn show(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
