//! Manual pages and completions, from the flags themselves.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap_complete::{Shell, generate_to};

/// Arguments of `narrows packaging`.
#[derive(clap::Args)]
pub struct Args {
    /// Where they go
    dir: PathBuf,
}

/// Runs the command.
pub fn main(args: &Args, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    let man = args.dir.join("man");
    let cannot = || format!("cannot write into {}", args.dir.display());
    std::fs::create_dir_all(&man).with_context(cannot)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let written = generate_to(shell, &mut command, "narrows", &args.dir).with_context(cannot)?;
        if shell == Shell::Bash {
            // As bash-completion looks for it.
            std::fs::rename(written, args.dir.join("narrows")).with_context(cannot)?;
        }
    }
    // Administration: section 8. Names must last as long as the program, which ends here.
    let page = |command: clap::Command, name: &'static str| {
        let mut text = Vec::new();
        let command = command.name(name).disable_help_subcommand(true);
        clap_mangen::Man::new(command).section("8").render(&mut text)?;
        std::fs::write(man.join(format!("{name}.8")), text)
    };
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        page(sub.clone(), format!("narrows-{}", sub.get_name()).leak()).with_context(cannot)?;
    }
    page(command, "narrows").with_context(cannot)?;
    Ok(ExitCode::SUCCESS)
}
