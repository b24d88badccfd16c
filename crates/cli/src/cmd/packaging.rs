//! Manual pages and completions, from the flags themselves, and the pages of the documentation that a package has.

mod pages;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Command;
use clap_complete::{Shell, generate_to};
use clap_mangen::roff::{Roff, bold, italic, roman};
use narrows_box::{Shape, TABLE};

use crate::SUCCESS;

/// Arguments of `narrows packaging`.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the pages and completions
    dir: PathBuf,
}

/// Runs the command.
pub fn main(args: &Args, mut command: Command) -> anyhow::Result<u8> {
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
    let page = |command: Command, name: &'static str| {
        let mut text = Vec::new();
        let command = command.name(name).disable_help_subcommand(true);
        clap_mangen::Man::new(command).section("8").render(&mut text)?;
        std::fs::write(man.join(format!("{name}.8")), text)
    };
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        page(sub.clone(), format!("narrows-{}", sub.get_name()).leak()).with_context(cannot)?;
    }
    // Files: section 5.
    std::fs::write(man.join("narrows.toml.5"), settings()).with_context(cannot)?;
    page(command, "narrows").with_context(cannot)?;
    pages::write(Path::new("docs"), &args.dir.join("doc"))?;
    Ok(SUCCESS)
}

/// The page of the settings file: the options of the box.
fn settings() -> String {
    let mut page = Roff::default();
    page.control("TH", ["narrows.toml", "5", "", &format!("narrows {}", env!("CARGO_PKG_VERSION"))]);
    page.control("SH", ["NAME"]);
    page.text([roman("narrows.toml - settings of a box that narrows run puts in line")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([
        roman("A file in TOML, by custom "),
        italic("/etc/narrows/LINK.toml"),
        roman(", one a link. A key is a flag of "),
        bold("narrows-run"),
        roman(
            "(8) with _ for -; flags win. Numbers of bytes and of queues, true and false stand as they are, all else \
             in quotes. SIGHUP has the file read again, and narrows check says what it means. Several [[link]] tables \
             are several links of one process; what stands above them holds for all.",
        ),
    ]);
    page.control("SH", ["KEYS"]);
    for row in TABLE {
        let value = if row.shape == Shape::Switch { "true, false" } else { row.value };
        page.control("TP", []);
        page.text([bold(row.name), roman(" = "), italic(value)]);
        page.text([roman(row.text())]);
    }
    page.control("SH", ["EXAMPLE"]);
    page.control("nf", []);
    page.text([roman(include_str!("../../../../packaging/example.toml"))]);
    page.control("fi", []);
    page.control("SH", ["SEE ALSO"]);
    page.text([bold("narrows-run"), roman("(8), "), bold("narrows-check"), roman("(8)")]);
    page.to_roff()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_place_in_the_page() {
        let page = settings();
        for row in TABLE {
            assert!(page.contains(&format!("\\fB{}\\fR = \\fI", row.name)), "{row:?}: {page}");
        }
        assert!(page.contains("\\fBdown\\fR = \\fIRATE\\fR\nRate of the link to the users"), "{page}");
        assert!(page.contains("\\fBobserve\\fR = \\fItrue, false\\fR\n"), "{page}");
    }
}
