//! Instructions of Narrows for each data packet that comes to the bottleneck, both ends together: what else the machine
//! does leaves them as they are.
//!
//! Callgrind counts two runs of different length; the slope between them leaves out what a run begins and ends with.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::plan::{Job, Settings, Simulator};
use super::programs::Program;

/// Counts the timed cases among `jobs` and prints a line for each.
pub fn print(jobs: &[Job], narrows: &Program) -> Result<()> {
    for job in jobs.iter().filter(|job| job.simulator == Simulator::Narrows && job.case.timed()) {
        let [less, more] = [3, 6].map(|tenths| {
            let duration_s = job.settings.duration_s * tenths / 10;
            let settings = Settings { duration_s, ..job.settings.clone() };
            counted(&(narrows.command)(&Job { settings, ..job.clone() }))
        });
        let (less, more) = (less?, more?);
        let each = (more.0 - less.0) / (more.1 - less.1);
        println!("{}: {each:.0} instructions a packet", job.case.id());
    }
    Ok(())
}

/// Instructions of a run, and packets that came to the bottleneck.
fn counted(command: &[String]) -> Result<(f64, f64)> {
    let mut valgrind = Command::new("valgrind");
    let run = valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).args(command);
    let done = run.output().context("starting valgrind (apt-get install valgrind)")?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{}\n{}", command.join(" "), said.trim_end());
    let collected = said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    let told: Value = serde_json::from_slice(&done.stdout).context("reading what narrows printed")?;
    let arrived = told[0]["points"][0]["figures"]["arrived"]["median"].as_f64();
    Ok((collected.context("callgrind told no count")?, arrived.context("narrows told no arrived")?))
}
