//! Commands run inside a network namespace.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// A network namespace by its file.
#[derive(Clone, Debug)]
pub(super) struct Namespace(PathBuf);

impl Namespace {
    /// A name as `ip netns` knows it, or a path such as `/proc/123/ns/net`.
    pub(super) fn open(name: &str) -> anyhow::Result<Self> {
        let path = if name.contains('/') { PathBuf::from(name) } else { Path::new("/run/netns").join(name) };
        if !path.exists() {
            bail!("network namespace '{name}': no {}; make it with `ip netns add {name}`", path.display());
        }
        Ok(Self(path))
    }

    /// `program` about to run inside.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.0.display())).arg("--").arg(program);
        command
    }

    /// Runs a line of words inside; no word may hold white space.
    pub(super) fn run(&self, line: &str) -> anyhow::Result<String> {
        let mut words = line.split_whitespace();
        let program = words.next().context("an empty command line")?;
        let mut command = self.command(program);
        output(command.args(words), line)
    }
}

/// Standard output of a command, or an error that says what it wrote.
pub(super) fn output(command: &mut Command, line: &str) -> anyhow::Result<String> {
    let done = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{line}` did not start; needs util-linux and iproute2"))?;
    if !done.status.success() {
        bail!("`{line}` failed ({}): {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Whether `program` is on the path.
pub(super) fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|dir| dir.join(program)).find(|file| file.is_file())
}
