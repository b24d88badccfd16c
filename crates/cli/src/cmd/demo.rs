//! `narrows demo`: a thin link getting better.

use std::process::ExitCode;

/// Arguments of `narrows demo`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn main(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
