//! The `narrows` command: arguments in, text out; each command is a file in `cmd/`.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

mod cmd;
mod log;

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
    /// Find interfaces, ask for the rates, write the settings and start
    #[cfg(feature = "terminal")]
    Setup(cmd::setup::Args),
    /// Say what settings mean and what is wrong with them, without starting
    Check(cmd::run::CheckArgs),
    /// Show what a running box does now
    Status(cmd::status::Args),
    /// Watch a running box
    #[cfg(feature = "terminal")]
    Top(cmd::top::Args),
    /// Say what this machine can do, and the remedy for each "no"
    Doctor(cmd::doctor::Args),
    /// Say who stalls in captures or on an interface, and why
    #[cfg(feature = "diagnose")]
    Diagnose(narrows_commands::diagnose::Args),
    /// Run an experiment with real kernel TCP in namespaces
    #[cfg(feature = "lab")]
    Lab(cmd::lab::Args),
    /// Run experiments in simulation, from files
    #[cfg(feature = "research")]
    Sim(narrows_commands::sim::Args),
    /// Make the papers' figures again, each claim judged, as a page
    #[cfg(feature = "research")]
    Reproduce(narrows_commands::reproduce::Args),
    /// Compare every discipline over one set of thin links
    #[cfg(feature = "research")]
    League(narrows_commands::league::Args),
    /// Ask the papers' models
    #[cfg(feature = "research")]
    Model(narrows_commands::model::Args),
    /// Say what to expect of a thin link, and what to do
    #[cfg(feature = "research")]
    Plan(narrows_commands::plan::Args),
    /// Show a thin link getting better: drop-tail, then TAQ, side by side
    #[cfg(feature = "lab")]
    Demo(cmd::demo::Args),
    /// Send a recorded capture through a discipline
    #[cfg(feature = "research")]
    Replay(cmd::replay::Args),
    /// Bring congestion controls of ours into the running kernel
    #[cfg(feature = "lab")]
    Senders(cmd::senders::Args),
    /// Write manual pages and completions of shells into a folder, for packages
    #[command(hide = true)]
    Packaging(cmd::packaging::Args),
    /// The process that lets traffic pass while a box does not answer
    #[command(hide = true)]
    Watchdog,
    /// A part of the lab inside a namespace
    #[command(hide = true)]
    #[cfg(feature = "lab")]
    LabWorker(cmd::lab::WorkerArgs),
    /// One run of the lab inside a virtual machine
    #[command(hide = true)]
    #[cfg(feature = "lab")]
    LabGuest,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => cmd::run::main(args),
        #[cfg(feature = "terminal")]
        Command::Setup(args) => cmd::setup::main(args),
        Command::Check(args) => cmd::run::check(args),
        Command::Packaging(args) => cmd::packaging::main(&args, Cli::command()),
        Command::Watchdog => narrows_box::watchdog().map(|()| ExitCode::SUCCESS),
        Command::Status(args) => cmd::status::main(args),
        #[cfg(feature = "terminal")]
        Command::Top(args) => cmd::top::main(args),
        Command::Doctor(args) => cmd::doctor::main(args),
        #[cfg(feature = "lab")]
        Command::Lab(args) => cmd::lab::main(args),
        #[cfg(feature = "research")]
        Command::Sim(args) => narrows_commands::sim::main(args),
        #[cfg(feature = "research")]
        Command::Reproduce(args) => narrows_commands::reproduce::main(args),
        #[cfg(feature = "research")]
        Command::League(args) => narrows_commands::league::main(args),
        #[cfg(feature = "research")]
        Command::Model(args) => narrows_commands::model::main(args),
        #[cfg(feature = "diagnose")]
        Command::Diagnose(args) => narrows_commands::diagnose::main(&args),
        #[cfg(feature = "research")]
        Command::Plan(args) => narrows_commands::plan::main(args),
        #[cfg(feature = "lab")]
        Command::Demo(args) => cmd::demo::main(args),
        #[cfg(feature = "research")]
        Command::Replay(args) => cmd::replay::main(args),
        #[cfg(feature = "lab")]
        Command::Senders(args) => cmd::senders::main(args),
        #[cfg(feature = "lab")]
        Command::LabWorker(args) => cmd::lab::worker_main(args),
        #[cfg(feature = "lab")]
        Command::LabGuest => cmd::lab::guest_main(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("narrows: {error:#}");
        ExitCode::from(2)
    })
}
