//! Formatting, bounds, the pages' types and clippy: what is quick to tell comes first.

use std::process::Command;

use anyhow::Result;

use crate::peers::programs::root;
use crate::steps::{Ended, cargo, each_line, show};

/// Kind of check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lint {
    Format,
    Tidy,
    Types,
    Clippy,
}

impl Lint {
    /// Lints in the order of their cost, the cheapest first.
    pub const ALL: [Self; 4] = [Self::Format, Self::Tidy, Self::Types, Self::Clippy];

    /// Name of the lint in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Format => "formatting",
            Self::Tidy => "columns, names and links",
            Self::Types => "types of the pages",
            Self::Clippy => "lints",
        }
    }

    /// Reason why the lint cannot run here, with the remedy; `None` if the lint can run.
    pub fn missing(self) -> Option<&'static str> {
        let (mut asked, remedy) = match self {
            Self::Format => {
                (cargo(&["fmt", "--version"]), "rustfmt is missing (rustup component add rustfmt)")
            }
            Self::Tidy => return None,
            Self::Types => {
                let mut tsc = Command::new("tsc");
                tsc.arg("--version");
                (tsc, "tsc is missing (npm install --global typescript)")
            }
            Self::Clippy => {
                (cargo(&["clippy", "--version"]), "clippy is missing (rustup component add clippy)")
            }
        };
        let there = asked.output().is_ok_and(|out| out.status.success());
        (!there).then_some(remedy)
    }

    fn command(self) -> Result<Command> {
        Ok(match self {
            Self::Format => cargo(&["fmt", "--all", "--check"]),
            Self::Tidy => {
                let mut tidy = Command::new(std::env::current_exe()?);
                tidy.args([crate::AS_IS, "tidy"]);
                tidy
            }
            Self::Types => {
                let mut tsc = Command::new("tsc");
                tsc.args(["--project", "web/tsconfig.json"]).current_dir(root());
                tsc
            }
            // The whole workspace also where little has changed: with fewer packages cargo would choose other features
            // for what is common, and compile it anew.
            Self::Clippy => cargo(&["clippy", "-q", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        })
    }

    /// Looks, and shows what is found.
    pub fn run(self) -> Result<Ended> {
        show(&format!("{} ... ", self.name()));
        let mut quiet = true;
        let ended = each_line(self.command()?, |line| {
            show(&format!("{}{line}\n", if std::mem::take(&mut quiet) { "\n" } else { "" }));
        })?;
        let seconds = ended.took.as_secs();
        match (ended.success, quiet) {
            (true, true) => show(&format!("ok ({seconds} s)\n")),
            (true, false) => show(&format!("{} ... ok ({seconds} s)\n", self.name())),
            (false, _) => show(&format!("{} ... FAILED ({seconds} s)\n", self.name())),
        }
        Ok(ended)
    }
}

/// Looks for all of it, and ends the program with status 1 if anything is found.
///
/// # Errors
///
/// If a command could not be started.
pub fn run() -> Result<()> {
    let mut good = true;
    for lint in Lint::ALL {
        match lint.missing() {
            Some(why) => println!("{} not checked: {why}", lint.name()),
            None => good &= lint.run()?.success,
        }
    }
    if !good {
        std::process::exit(1);
    }
    Ok(())
}
