//! The commands as a program of their own, for `python -m narrows`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{WRONG, diagnose, league, model, plan, reproduce, sim};

/// Keeps TCP moving on links too thin for it: what works without a box.
#[derive(Parser)]
#[command(name = "narrows", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say who stalls and why, in captures or on an interface
    Diagnose(diagnose::Args),
    /// Run experiments in simulation, from files
    Sim(sim::Args),
    /// Make the papers' figures again, each claim judged, as a page
    Reproduce(reproduce::Args),
    /// Compare every discipline over one set of thin links
    League(league::Args),
    /// Ask the papers' models
    Model(model::Args),
    /// Say what to expect of a thin link, and what to do
    Plan(plan::Args),
}

/// Runs what `args` say, the name of the program first, and gives the status that the program ends with.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    let told = match Cli::try_parse_from(args) {
        Ok(cli) => match cli.command {
            Command::Diagnose(args) => diagnose::main(&args),
            Command::Sim(args) => sim::main(args),
            Command::Reproduce(args) => reproduce::main(args),
            Command::League(args) => league::main(args),
            Command::Model(args) => model::main(args),
            Command::Plan(args) => plan::main(args),
        },
        Err(why) => {
            // Help goes to standard output, and so does the version; whoever reads may have had enough.
            let _ = why.print();
            return u8::try_from(why.exit_code()).unwrap_or(WRONG);
        }
    };
    told.map_or_else(
        |error| {
            eprintln!("narrows: {error:#}");
            WRONG
        },
        status,
    )
}

/// An exit code as a number, which the type does not tell.
fn status(code: ExitCode) -> u8 {
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(WRONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_the_program_s() {
        for number in [0, 1, WRONG, 130, 255] {
            assert_eq!(status(ExitCode::from(number)), number);
        }
        assert_eq!((status(ExitCode::SUCCESS), status(ExitCode::FAILURE)), (0, 1));
    }

    #[test]
    fn what_is_no_command_is_refused() {
        assert_eq!(main(["narrows", "simm"].map(OsString::from)), WRONG);
        assert_eq!(main(["narrows", "model", "taq", "--loss", "2"].map(OsString::from)), WRONG);
    }

    #[test]
    fn arguments_are_as_clap_would_have_them() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
