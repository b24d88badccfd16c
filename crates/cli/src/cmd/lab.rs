//! `narrows lab`: an experiment from a file.

use std::process::ExitCode;

/// Arguments of `narrows lab`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn main(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
