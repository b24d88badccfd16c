//! The `narrows` command: a thin door to every room.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod cmd;

/// Keeps TCP moving on links too thin for it.
#[derive(Parser)]
#[command(name = "narrows", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shape and queue a live link
    Run(cmd::run::Args),
    /// Show what a running box does now
    Status(cmd::status::Args),
    /// Watch a running box
    Top(cmd::top::Args),
    /// Say what this machine can do, and the remedy for each "no"
    Doctor(cmd::doctor::Args),
    /// Run an experiment with real kernel TCP in namespaces
    Lab(cmd::lab::Args),
    /// Run experiments in simulation, from files
    Sim(cmd::sim::Args),
    /// Make the papers' figures again, each claim judged, as a page
    Reproduce(cmd::reproduce::Args),
    /// Compare every discipline over one set of thin links
    League(cmd::league::Args),
    /// Ask the papers' models
    Model(cmd::model::Args),
    /// Say what to expect of a thin link, and what to do
    Plan(cmd::plan::Args),
    /// Show a thin link getting better: drop-tail, then TAQ, side by side
    Demo(cmd::demo::Args),
    /// Send a recorded capture through a discipline
    Replay(cmd::replay::Args),
    /// Bring congestion controls of ours into the running kernel
    Senders(cmd::senders::Args),
    /// A part of the lab inside a namespace
    #[command(hide = true)]
    LabWorker(cmd::lab::WorkerArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => cmd::run::main(args),
        Command::Status(args) => cmd::status::main(args),
        Command::Top(args) => cmd::top::main(args),
        Command::Doctor(args) => cmd::doctor::main(args),
        Command::Lab(args) => cmd::lab::main(args),
        Command::Sim(args) => cmd::sim::main(args),
        Command::Reproduce(args) => cmd::reproduce::main(args),
        Command::League(args) => cmd::league::main(args),
        Command::Model(args) => cmd::model::main(args),
        Command::Plan(args) => cmd::plan::main(args),
        Command::Demo(args) => cmd::demo::main(args),
        Command::Replay(args) => cmd::replay::main(args),
        Command::Senders(args) => cmd::senders::main(args),
        Command::LabWorker(args) => cmd::lab::worker_main(args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("narrows: {error:#}");
        ExitCode::from(2)
    })
}
