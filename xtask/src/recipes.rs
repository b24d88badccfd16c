//! Tasks that are commands of others, one after the other: a table with a name, a sentence, who needs it and what a
//! shell is given. `cargo xtask` without words lists it, and what xtask does itself.

mod table;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::peers::programs::{self, root};
use crate::steps::unmarked;
use table::RECIPES;

/// Readers who need a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Operators,
    Researchers,
    Contributors,
}

/// A task.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    name: &'static str,
    who: Who,
    says: &'static str,
    /// For `sh -eu` in the workspace's folder. `"$@"` are the words behind the name, `$RELEASE`, `$QUICK` and `$DEBUG`
    /// where `narrows` is in these profiles.
    commands: &'static str,
}

/// Finds the task with this name, if the task runs commands of others.
pub fn named(name: &str) -> Option<Recipe> {
    RECIPES.iter().copied().find(|recipe| recipe.name == name && !recipe.commands.is_empty())
}

impl Recipe {
    /// Runs its commands up to the first that fails; `words` are those behind its name.
    ///
    /// # Errors
    ///
    /// If there is no shell.
    pub fn run(self, words: &[String]) -> Result<std::process::ExitStatus> {
        let target = root().join(programs::target());
        let mut shell = Command::new("sh");
        shell.args(["-euc", self.commands, self.name]).args(words).current_dir(root());
        for (variable, profile) in [("RELEASE", "release"), ("QUICK", "quick"), ("DEBUG", "debug")] {
            shell.env(variable, target.join(profile).join("narrows"));
        }
        shell.env("PATH", path(&target)?);
        unmarked(&mut shell);
        shell.status().context("starting sh")
    }
}

/// Value of `PATH` with the programs that `scripts/setup` unpacks for tests.
pub fn path(target: &Path) -> Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([target.join("tools/usr/bin")]);
    std::env::join_paths(folders).context("PATH")
}

/// Lists all tasks with a sentence on each, in groups of readers.
pub fn list() -> String {
    let mut text =
        "cargo xtask NAME, words behind NAME reach what it runs; make help lists what most people do\n"
            .to_owned();
    for (who, heading) in [
        (Who::Operators, "for operators"),
        (Who::Researchers, "for researchers"),
        (Who::Contributors, "for contributors"),
    ] {
        let _ = writeln!(text, "\n{heading}");
        for recipe in RECIPES.iter().filter(|recipe| recipe.who == who) {
            let _ = writeln!(text, "  {:<15} {}", recipe.name, recipe.says);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn each_task_is_listed_once() {
        let cli = crate::Cli::command();
        let own: BTreeSet<_> =
            cli.get_subcommands().filter(|task| !task.is_hide_set()).map(clap::Command::get_name).collect();
        let names: BTreeSet<_> = RECIPES.iter().map(|recipe| recipe.name).collect();
        assert_eq!(names.len(), RECIPES.len(), "a name stands twice");
        assert_eq!(own.difference(&names).collect::<Vec<_>>(), Vec::<&&str>::new(), "tasks not listed");
        for recipe in RECIPES.iter().filter(|recipe| recipe.commands.is_empty()) {
            assert!(own.contains(recipe.name), "{} has no commands", recipe.name);
        }
    }

    #[test]
    fn a_recipe_gets_its_words_and_stops_at_the_first_failure() {
        let recipe = |commands| Recipe { name: "x", who: Who::Contributors, says: "", commands };
        let status = |commands: &'static str, words: &[&str]| {
            recipe(commands).run(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()).unwrap().code()
        };
        assert_eq!(status(r#"[ "$2" = "b c" ] && [ -e Cargo.toml ]"#, &["a", "b c"]), Some(0));
        assert_eq!(status("false\nexit 0", &[]), Some(1));
        assert_eq!(status("exit 7", &[]), Some(7));
    }

    /// Every script that a recipe names exists.
    #[test]
    fn every_script_is_there() {
        for recipe in RECIPES {
            let words = recipe.commands.split_whitespace();
            for script in words.filter(|w| w.starts_with("scripts/") || w.starts_with("peers/")) {
                assert!(root().join(script).exists(), "{}: {script}", recipe.name);
            }
        }
    }

    /// Checks that the Makefile has at most fifteen targets, and that a target names an existing task.
    #[test]
    fn the_makefile_stays_short() {
        let text = std::fs::read_to_string(root().join("Makefile")).unwrap();
        let targets = text.lines().filter(|line| line.contains("## ") && !line.starts_with('\t')).count();
        assert!((1..=15).contains(&targets), "{targets}");
        for task in text.lines().filter_map(|line| line.strip_prefix("\t@cargo xtask ")) {
            let name = task.split(' ').next().unwrap();
            assert!(RECIPES.iter().any(|recipe| recipe.name == name), "{name}");
        }
    }
}
