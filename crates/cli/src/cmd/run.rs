//! `narrows run`: shape and queue a live link; `narrows check`: what that would mean.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, ValueHint, value_parser};
use narrows_box::{self as live, OptionRow, Options, Shape, Source, TABLE};

use crate::log::LogFlags;

use crate::{FAILURE, SUCCESS, WRONG};

/// Arguments of `narrows run`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    flags: Box<Flags>,
    #[command(flatten)]
    log: LogFlags,
}

/// Arguments of `narrows check`.
#[derive(clap::Args)]
pub struct CheckArgs {
    /// Settings file, in TOML
    #[arg(value_name = "FILE")]
    config: PathBuf,
    /// Refuse a file of circuits in which any row cannot be used as it is
    #[arg(long)]
    strict: bool,
}

/// Flags of a box.
#[derive(clap::Args)]
struct Flags {
    #[command(flatten)]
    given: Given,
    /// Take over from a box that runs on these interfaces, without losing a packet; if none runs, load the flow
    /// table that the last one saved
    #[arg(long)]
    replace: bool,
    /// Wait for interfaces that are missing; without it the box refuses to start
    #[arg(long)]
    wait: bool,
    /// Settings file in TOML, with the names of these flags as keys; flags win. SIGHUP reads it again. For several
    /// links, each [[link]] table has a name and the settings that differ from those above the first table
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Options of the box as flags: one flag for each row of the options' table.
struct Given(Options);

impl Given {
    fn flags() -> impl Iterator<Item = &'static OptionRow> {
        TABLE.iter().filter(|row| row.is_flag())
    }

    /// The flag of a row. The flag's value is checked as the row reads it.
    fn flag(row: &'static OptionRow) -> Arg {
        // Names must last as long as the program.
        let arg = Arg::new(row.name).long(&*row.flag().leak()).help(row.text());
        let read =
            move |text: &str| row.set(&mut Options::default(), text.as_ref()).map(|()| OsString::from(text));
        match row.shape {
            Shape::Switch => arg.action(ArgAction::SetTrue),
            Shape::Text => arg.value_name(row.value).value_parser(read),
            Shape::List => {
                arg.value_name(row.value).value_parser(read).value_delimiter(',').action(ArgAction::Append)
            }
            Shape::Path => {
                arg.value_name(row.value).value_parser(value_parser!(OsString)).value_hint(ValueHint::AnyPath)
            }
        }
    }
}

impl clap::Args for Given {
    fn augment_args(command: Command) -> Command {
        command.args(Self::flags().map(Self::flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Self(Options::default());
        given.update_from_arg_matches(matches).map(|()| given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for row in Self::flags() {
            let values: Vec<OsString> = match row.shape {
                Shape::Switch => matches.get_flag(row.name).then(OsString::new).into_iter().collect(),
                _ => matches.get_many(row.name).into_iter().flatten().cloned().collect(),
            };
            for value in values {
                row.set(&mut self.0, &value).map_err(|why| clap::Error::raw(ErrorKind::InvalidValue, why))?;
            }
        }
        Ok(())
    }
}

impl Flags {
    fn source(self) -> Source {
        Source { flags: self.given.0, config: self.config, replace: self.replace, wait: self.wait }
    }
}

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<u8> {
    let log = args.log.open()?;
    let last = log.clone();
    Ok(match live::run(&args.flags.source(), move |news| log.write(news)) {
        Ok(()) => SUCCESS,
        Err(error) => {
            last.error(&error);
            WRONG
        }
    })
}

/// Runs `narrows check`: success if nothing is wrong.
pub fn check(args: CheckArgs) -> anyhow::Result<u8> {
    let flags = Options { strict: args.strict.then_some(true), ..Options::default() };
    let found = live::check(&Source { flags, config: Some(args.config), ..Source::default() })?;
    found.means.iter().for_each(|line| println!("{line}"));
    found.doubtful.iter().for_each(|line| println!("CHECK  {line}"));
    found.wrong.iter().for_each(|line| println!("WRONG  {line}"));
    if found.wrong.is_empty() {
        let few = if found.doubtful.is_empty() { "Nothing is wrong" } else { "It would run" };
        println!("{few}; nothing was started.");
        return Ok(SUCCESS);
    }
    Ok(FAILURE)
}
