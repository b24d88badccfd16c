//! `narrows status`: what a running box does now.

use std::process::ExitCode;

/// Arguments of `narrows status`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn main(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
