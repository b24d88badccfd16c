//! `narrows doctor`: what this machine can do.

use std::process::ExitCode;

/// Arguments of `narrows doctor`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn main(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
