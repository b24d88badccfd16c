//! What the tests of several crates share: one form in which a test says that it was skipped, and why.
//!
//! libtest counts such a test as passed and keeps what it prints to itself. So the line also goes to the file that
//! [`SKIPS`] names, where `make test` finds it.

use std::fmt::Display;
use std::io::Write as _;

/// The environment variable with the name of a file that takes a line for each [`skip`] and [`skip_part`].
pub const SKIPS: &str = "NARROWS_SKIPS";

/// How a line begins whose test did not run.
pub const WHOLE: &str = "skipped: ";
/// How a line begins whose test ran, but for a part.
pub const PART: &str = "skipped in part: ";

/// Says that `test` cannot run here; the caller returns.
pub fn skip(test: &str, why: impl Display) {
    tell(format!("{WHOLE}{test}: {why}"));
}

/// Says that `test` runs without `part`.
pub fn skip_part(test: &str, part: &str, why: impl Display) {
    tell(format!("{PART}{test}: {part}: {why}"));
}

/// The name of the test that runs on this thread, for functions that several tests call: libtest names its threads
/// so. With one thread for all tests it is the program's name.
#[must_use]
pub fn running() -> String {
    let thread = std::thread::current();
    match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => std::env::args().next().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned(),
    }
}

fn tell(line: String) {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("{line}");
    let Some(file) = std::env::var_os(SKIPS) else { return };
    // One write for each line: several tests, and several programs, write at the same time.
    let written = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&file)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    if let Err(why) = written {
        eprintln!("{}: {why}", file.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_knows_its_name() {
        let name = running();
        // With one thread for all tests the name is the program's.
        assert!(name == "tests::a_test_knows_its_name" || name.starts_with("narrows_testing"), "{name}");
    }
}
