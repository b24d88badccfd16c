//! `narrows top`: a running box, watched.

use std::process::ExitCode;

/// Arguments of `narrows top`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn main(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
