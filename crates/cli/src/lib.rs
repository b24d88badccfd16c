//! The `narrows` command: arguments in, text out; each command is a file in `cmd/`. The program has them all, the
//! Python package those that need no box (`python -m narrows`).

#![forbid(unsafe_code)]

use std::ffi::OsString;
#[cfg(any(feature = "diagnose", feature = "research"))]
use std::io::{ErrorKind, Write as _};

#[cfg(feature = "box")]
use clap::CommandFactory as _;
use clap::{Parser, Subcommand};

/// Prints a line. Whoever reads may have had enough (`| head`): that is no error, where `std`'s own macro panics.
#[allow(unused_macros, reason = "a program with few features may print no line")]
macro_rules! println {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        if let Err(error) = writeln!(std::io::stdout(), $($text)*) {
            assert!(error.kind() == std::io::ErrorKind::BrokenPipe, "standard output: {error}");
        }
    }};
}

mod cmd;
#[cfg(feature = "box")]
mod log;

#[cfg(feature = "diagnose")]
pub use cmd::diagnose;

/// Exit status of a command that did what it was asked for.
pub const SUCCESS: u8 = 0;
/// Exit status of a command that found something wrong.
pub const FAILURE: u8 = 1;
/// Exit status of a command that cannot do what it was asked for.
pub const WRONG: u8 = 2;

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
    #[cfg(feature = "box")]
    Run(cmd::run::Args),
    /// Find interfaces, ask for the rates, write the settings and start
    #[cfg(feature = "terminal")]
    Setup(cmd::setup::Args),
    /// Say what settings mean and what is wrong with them, without starting
    #[cfg(feature = "box")]
    Check(cmd::run::CheckArgs),
    /// Show what a running box does now
    #[cfg(feature = "box")]
    Status(cmd::status::Args),
    /// Watch a running box
    #[cfg(feature = "terminal")]
    Top(cmd::top::Args),
    /// Say what this machine can do, and the remedy for each "no"
    #[cfg(feature = "box")]
    Doctor(cmd::doctor::Args),
    /// Say who stalls in captures or on an interface, and why
    #[cfg(feature = "diagnose")]
    Diagnose(cmd::diagnose::Args),
    /// Run an experiment with real kernel TCP in namespaces
    #[cfg(feature = "lab")]
    Lab(cmd::lab::Args),
    /// Run experiments in simulation, from files
    #[cfg(feature = "research")]
    Sim(cmd::sim::Args),
    /// Set a thin link on a page, and see at once what two queues make of it
    #[cfg(feature = "explore")]
    Explore(cmd::explore::Args),
    /// Reproduce the papers' figures as a page, each claim judged
    #[cfg(feature = "research")]
    Reproduce(cmd::reproduce::Args),
    /// Compare every discipline over one set of thin links
    #[cfg(feature = "research")]
    League(cmd::league::Args),
    /// Compute figures of links and flows by the papers' models
    #[cfg(feature = "research")]
    Model(cmd::model::Args),
    /// Say what to expect of a thin link, and what to do
    #[cfg(feature = "research")]
    Plan(cmd::plan::Args),
    /// Show a thin link getting better: drop-tail, then TAQ, side by side
    #[cfg(feature = "lab")]
    Demo(cmd::demo::Args),
    /// Send a recorded capture through a discipline
    #[cfg(all(feature = "box", feature = "diagnose", feature = "research"))]
    Replay(cmd::replay::Args),
    /// Load the project's congestion controls into the running kernel
    #[cfg(feature = "lab")]
    Senders(cmd::senders::Args),
    /// Write manual pages and completions of shells into a folder, for packages
    #[command(hide = true)]
    #[cfg(feature = "box")]
    Packaging(cmd::packaging::Args),
    /// Process that lets traffic pass while a box does not answer
    #[command(hide = true)]
    #[cfg(feature = "box")]
    Watchdog,
    /// Run a part of the lab inside a namespace
    #[command(hide = true)]
    #[cfg(feature = "lab")]
    LabWorker(cmd::lab::WorkerArgs),
    /// Run one run of the lab inside a virtual machine
    #[command(hide = true)]
    #[cfg(feature = "lab")]
    LabGuest,
}

/// Runs what `args` say, the name of the program first, and gives the status that the program ends with.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    let command = match Cli::try_parse_from(args) {
        Ok(cli) => cli.command,
        Err(why) => {
            // Help goes to standard output, and so does the version; whoever reads may have had enough.
            let _ = why.print();
            return u8::try_from(why.exit_code()).unwrap_or(WRONG);
        }
    };
    run(command).unwrap_or_else(|error| {
        eprintln!("narrows: {error:#}");
        WRONG
    })
}

fn run(command: Command) -> anyhow::Result<u8> {
    match command {
        #[cfg(feature = "box")]
        Command::Run(args) => cmd::run::main(args),
        #[cfg(feature = "terminal")]
        Command::Setup(args) => cmd::setup::main(args),
        #[cfg(feature = "box")]
        Command::Check(args) => cmd::run::check(args),
        #[cfg(feature = "box")]
        Command::Packaging(args) => cmd::packaging::main(&args, Cli::command()),
        #[cfg(feature = "box")]
        Command::Watchdog => narrows_box::watchdog().map(|()| SUCCESS),
        #[cfg(feature = "box")]
        Command::Status(args) => cmd::status::main(args),
        #[cfg(feature = "terminal")]
        Command::Top(args) => cmd::top::main(args),
        #[cfg(feature = "box")]
        Command::Doctor(args) => cmd::doctor::main(args),
        #[cfg(feature = "lab")]
        Command::Lab(args) => cmd::lab::main(args),
        #[cfg(feature = "research")]
        Command::Sim(args) => cmd::sim::main(args),
        #[cfg(feature = "explore")]
        Command::Explore(args) => cmd::explore::main(&args),
        #[cfg(feature = "research")]
        Command::Reproduce(args) => cmd::reproduce::main(args),
        #[cfg(feature = "research")]
        Command::League(args) => cmd::league::main(args),
        #[cfg(feature = "research")]
        Command::Model(args) => cmd::model::main(args),
        #[cfg(feature = "diagnose")]
        Command::Diagnose(args) => cmd::diagnose::main(&args),
        #[cfg(feature = "research")]
        Command::Plan(args) => cmd::plan::main(args),
        #[cfg(feature = "lab")]
        Command::Demo(args) => cmd::demo::main(args),
        #[cfg(all(feature = "box", feature = "diagnose", feature = "research"))]
        Command::Replay(args) => cmd::replay::main(args),
        #[cfg(feature = "lab")]
        Command::Senders(args) => cmd::senders::main(args),
        #[cfg(feature = "lab")]
        Command::LabWorker(args) => cmd::lab::worker_main(args),
        #[cfg(feature = "lab")]
        Command::LabGuest => cmd::lab::guest_main(),
    }
}

/// Prints. Whoever reads may have had enough (`| head`): that is no error.
///
/// # Errors
/// Any other reason why it cannot be written, as a full disk.
#[cfg(any(feature = "diagnose", feature = "research"))]
fn say(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_command_is_refused() {
        assert_eq!(main(["narrows", "simm"].map(OsString::from)), WRONG);
    }

    #[cfg(feature = "research")]
    #[test]
    fn what_cannot_be_is_wrong_and_help_is_not() {
        assert_eq!(main(["narrows", "model", "taq", "--loss", "2"].map(OsString::from)), WRONG);
        assert_eq!(main(["narrows", "model", "--help"].map(OsString::from)), SUCCESS);
    }

    #[test]
    fn arguments_are_as_clap_would_have_them() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
