//! Tasks of the workspace that are not part of the program: `cargo xtask` lists them.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod check;
mod costs;
mod crates;
mod digest;
mod kernel_senders;
mod lint;
mod peers;
mod performance;
mod queues;
mod recipes;
mod steps;
mod systemd;
mod test;
mod tidy;
mod vantage;
mod vm;

/// Tasks of the Narrows workspace.
#[derive(Parser)]
#[command(name = "xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the same scenarios in ns-2, ns-3 and Narrows, and print one table: agreement and speed
    Peers(peers::Args),
    /// Run the same arrivals through the CoDel family of ns-3 and ours, and print one table
    Queues(queues::Args),
    /// Run the benchmarks, and print what things cost against the bounds
    Performance(performance::Args),
    /// Count what a packet costs in instructions: through each queue of ours, by each back end, and the kernel's
    Costs(costs::Args),
    /// Measure costs: the part of it that runs in the guest
    #[command(hide = true)]
    CostsInside(costs::inside::Args),
    /// Measure what a box holds in memory with 1 000 and 10 000 connections, against the bounds; needs root
    Memory(costs::memory::Args),
    /// Digest the outputs of a fixed set of runs, or compare two digests: whether two versions behave alike
    Digest(digest::Args),
    /// Record real kernel senders, and say how well `narrows diagnose` tells why they sent again; needs root
    KernelSenders(kernel_senders::Args),
    /// Hold what narrows diagnose says of requests and answers against what happened, at four points; needs root
    Vantage(vantage::Args),
    /// Find links that lead nowhere, names that mean two things, dependencies without a reason, lines over 120 columns
    Tidy(tidy::Args),
    /// Look for formatting, lints and words, and run the unit tests of what changed since main
    Check(check::Args),
    /// Look for formatting, bounds, types and lints
    Lint,
    /// Look for formatting and lints, run every test, and say what passed, failed and was skipped
    Test(test::Args),
    /// Package the crates that others can take, and run their tests outside the workspace, without a network
    Crates(crates::Args),
    /// Run a command under another kernel, in a virtual machine whose clock counts instructions
    Vm(vm::Args),
    /// Try the Debian package in a virtual machine with systemd: starts, late interfaces; needs root
    Systemd(systemd::Args),
    /// Write what a page tells people to write and to run as a script for each section
    #[command(hide = true)]
    Page(systemd::PageArgs),
    /// Run a program on one core and print, as JSON, what it printed, how long it took and how much memory
    #[command(hide = true)]
    Measure(peers::measure::Args),
}

/// A first word that leaves a task's recipe aside: everything that the task needs is there.
const AS_IS: &str = "--as-is";

fn main() -> anyhow::Result<ExitCode> {
    let mut words: Vec<String> = std::env::args().collect();
    match words.get(1) {
        None => {
            print!("{}", recipes::list());
            return Ok(ExitCode::SUCCESS);
        }
        Some(first) if first == AS_IS => drop(words.remove(1)),
        Some(first) => {
            if let Some(recipe) = recipes::named(first) {
                let status = recipe.run(&words[2..])?;
                std::process::exit(status.code().unwrap_or(1));
            }
        }
    }
    match Cli::parse_from(words).task {
        Task::Vm(args) => return vm::run(&args),
        Task::Systemd(args) => return systemd::run(&args),
        Task::Page(args) => systemd::page(&args),
        Task::Peers(args) => peers::run(&args),
        Task::Queues(args) => queues::run(&args),
        Task::Costs(args) => costs::run(&args),
        Task::CostsInside(args) => costs::inside::run(&args),
        Task::Memory(args) => costs::memory::run(&args),
        Task::Performance(args) => performance::run(&args),
        Task::Digest(args) => digest::run(&args),
        Task::KernelSenders(args) => kernel_senders::run(&args),
        Task::Vantage(args) => vantage::run(&args),
        Task::Crates(args) => crates::run(&args),
        Task::Tidy(args) => tidy::run(&args),
        Task::Check(args) => check::run(&args),
        Task::Lint => lint::run(),
        Task::Test(args) => test::run(&args),
        Task::Measure(args) => peers::measure::run(&args),
    }
    .map(|()| ExitCode::SUCCESS)
}
