//! `narrows run`: shape and queue a live link.

use std::process::ExitCode;

/// Arguments of `narrows run`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn main(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
