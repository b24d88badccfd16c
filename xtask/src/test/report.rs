//! What became of the tests, read from what `cargo test`, pytest and `make lints` print.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Instant;

use narrows_testing::{PART, WHOLE};

/// How many tests passed and failed, and which were skipped.
#[derive(Debug, Default)]
pub struct Report {
    /// What libtest and pytest call passed.
    ok: usize,
    failed: Vec<String>,
    /// Of tests that their runner knows to be skipped: reason and name.
    ignored: Vec<(String, String)>,
    /// Of tests that their runner counts as passed: reason and name.
    skipped: BTreeSet<(String, String)>,
    /// Of tests that ran: reason and what was left out.
    parts: BTreeSet<(String, String)>,
    /// The programs of tests of which `cargo test` tells.
    program: Option<Program>,
}

/// A program of tests that is running.
#[derive(Debug)]
struct Program {
    name: String,
    begun: Instant,
    /// Whether it has told how its tests went.
    told: bool,
    /// Whether its name is the last thing on the screen.
    open: bool,
}

impl Report {
    /// Takes a line of `cargo test`; returns what to show of it.
    pub fn cargo(&mut self, line: &str) -> Option<String> {
        let words = line.trim_start();
        if let Some(name) = program_name(words) {
            let open = self.program.as_ref().is_some_and(|program| program.open);
            self.end_program();
            self.program =
                Some(Program { name: name.clone(), begun: Instant::now(), told: false, open: true });
            return Some(format!("{}{name} ... ", if open { "\n" } else { "" }));
        }
        if let Some(counts) = words.strip_prefix("test result: ") {
            return self.result(counts);
        }
        let counts_follow = words.starts_with("running ") && words.contains(" test");
        if words.is_empty() || counts_follow || words.starts_with("all doctests ran") {
            return None;
        }
        if let Some((name, how)) = words.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            match how.split_once(", ").unwrap_or((how, "not run unless asked for")) {
                ("ok", _) => return None,
                ("ignored", why) => {
                    self.ignored.push((why.to_owned(), self.of_program(name)));
                    return None;
                }
                ("FAILED", _) => self.failed.push(self.of_program(name)),
                _ => {}
            }
        }
        Some(self.on_a_new_line(line))
    }

    /// The counts at the end of a program.
    fn result(&mut self, counts: &str) -> Option<String> {
        let [ok, failed, ignored] = ["passed", "failed", "ignored"].map(|what| count(counts, what));
        self.ok += ok;
        let program = self.program.as_mut()?;
        program.told = true;
        let seconds = program.begun.elapsed().as_secs();
        let mut text = match (ok, failed, ignored) {
            (0, 0, 0) => "none".to_owned(),
            _ => format!("{ok} passed"),
        };
        for (number, what) in [(failed, "FAILED"), (ignored, "ignored")].into_iter().filter(|(n, _)| *n > 0) {
            let _ = write!(text, ", {number} {what}");
        }
        if seconds > 0 {
            let _ = write!(text, " ({seconds} s)");
        }
        let name = program.name.clone();
        let text = if std::mem::take(&mut program.open) { text } else { format!("{name} ... {text}") };
        Some(text + "\n")
    }

    fn of_program(&self, test: &str) -> String {
        self.program.as_ref().map_or_else(|| test.to_owned(), |p| format!("{}: {test}", p.name))
    }

    /// A line of its own, also where the name of a program stands on the last one.
    fn on_a_new_line(&mut self, line: &str) -> String {
        let open = self.program.as_mut().is_some_and(|program| std::mem::take(&mut program.open));
        format!("{}{line}\n", if open { "\n" } else { "" })
    }

    /// A program that ended without a result has crashed.
    fn end_program(&mut self) {
        if let Some(program) = self.program.take_if(|p| !p.told) {
            self.failed.push(format!("{}: ended before its tests did", program.name));
        }
    }

    /// `cargo test` has ended. It fails also where no test did, as if something cannot be compiled.
    pub fn cargo_ended(&mut self, success: bool) {
        self.end_program();
        self.program = None;
        if !success && self.failed.is_empty() {
            self.failed.push("cargo test".to_owned());
        }
    }

    /// Takes a line of `make python-test`.
    pub fn python(&mut self, line: &str) {
        if let Some(why) = line.strip_prefix("python: not tested: ") {
            self.ignored.push((why.to_owned(), "the Python package".to_owned()));
        } else if let Some((_, said)) = line.strip_prefix("SKIPPED [").and_then(|rest| rest.split_once("] "))
        {
            // Place and reason, as "python/tests/test_import.py:28: why".
            let (at, why) = said.split_once(": ").unwrap_or((said, "skipped"));
            self.ignored.push((why.to_owned(), at.to_owned()));
        } else if let Some(name) = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR ")) {
            self.failed.push(name.to_owned());
        } else if line.contains(" in ") {
            self.ok += count(line, "passed");
        }
    }

    /// Takes a line of `make lints`.
    pub fn lints(&mut self, line: &str) {
        if let Some((what, why)) =
            line.strip_prefix("lint: ").and_then(|rest| rest.split_once(" not checked: "))
        {
            self.ignored.push((why.to_owned(), what.to_owned()));
        }
    }

    /// A step of another kind has ended; `own` says whether it counts as a test.
    pub fn step_ended(&mut self, step: &str, success: bool, own: bool, failed_before: usize) {
        if success {
            self.ok += usize::from(own);
        } else if self.failed.len() == failed_before {
            self.failed.push(step.to_owned());
        }
    }

    /// How many have failed so far.
    pub fn failures(&self) -> usize {
        self.failed.len()
    }

    /// Takes the lines that tests wrote when they were skipped.
    pub fn skips(&mut self, text: &str) {
        for line in text.lines() {
            if let Some((test, why)) = line.strip_prefix(WHOLE).and_then(|rest| rest.split_once(": ")) {
                self.skipped.insert((why.to_owned(), test.to_owned()));
            } else if let Some((test, rest)) = line.strip_prefix(PART).and_then(|rest| rest.split_once(": "))
            {
                let (part, why) = rest.split_once(": ").unwrap_or(("a part", rest));
                self.parts.insert((why.to_owned(), format!("{test}: {part}")));
            }
        }
    }

    /// What failed and what was skipped, with the reasons; the last line has the numbers.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let skipped: Vec<_> = self.ignored.iter().chain(&self.skipped).collect();
        by_reason(&mut text, "skipped:", &skipped);
        by_reason(&mut text, "skipped in part:", &self.parts.iter().collect::<Vec<_>>());
        if !self.failed.is_empty() {
            let _ = write!(text, "\nfailed:\n  {}\n", self.failed.join("\n  "));
        }
        let names: BTreeSet<_> = self.skipped.iter().map(|(_, test)| test).collect();
        // Their runner counts them as passed.
        let passed = self.ok.saturating_sub(names.len());
        let _ = writeln!(
            text,
            "\n{passed} passed, {} failed, {} skipped",
            self.failed.len(),
            self.ignored.len() + names.len()
        );
        text
    }
}

/// A heading, and below each reason its names.
fn by_reason(text: &mut String, heading: &str, of: &[&(String, String)]) {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (why, name) in of {
        reasons.entry(why).or_default().push(name);
    }
    if !reasons.is_empty() {
        let _ = write!(text, "\n{heading}\n");
    }
    for (why, names) in reasons {
        let _ = writeln!(text, "  {why}\n    {}", names.join("\n    "));
    }
}

/// The name of the program that cargo says it starts, as `Running tests/sim.rs (target/debug/deps/sim-0123)`.
fn program_name(line: &str) -> Option<String> {
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{name}, examples in its documentation"));
    }
    let (source, file) = line.strip_prefix("Running ")?.split_once(" (")?;
    let file = file.strip_suffix(')')?.rsplit('/').next()?;
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    Some(if source.starts_with("unittests ") { format!("{name}, unit tests") } else { name.to_owned() })
}

/// The number before `what`, as in "3 passed; 1 failed" or "3 passed, 1 failed"; 0 without one.
fn count(text: &str, what: &str) -> usize {
    let words: Vec<_> = text.split([' ', ';', ',']).filter(|word| !word.is_empty()).collect();
    let of = words.windows(2).find(|pair| pair[1] == what);
    of.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As cargo and libtest print it: two programs and documentation; one fails, one is ignored, one crashes.
    const CARGO: &str = "\
   Compiling narrows-units v0.1.0 (/n/crates/units)
     Running unittests src/lib.rs (target/debug/deps/narrows_units-0f1e)

running 3 tests
test rate::tests::a ... ok
test rate::tests::b ... FAILED
test slow ... ignored, a measurement

failures:

---- rate::tests::b stdout ----
thread panicked

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.20s

     Running tests/live_box/main.rs (target/debug/deps/live_box-77aa)

running 2 tests
test x ... ok
test y ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s

     Running tests/crash.rs (target/debug/deps/crash-77aa)

running 9 tests
   Doc-tests narrows_units

running 1 test
test crates/units/src/lib.rs - (line 3) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s
";

    fn read(report: &mut Report) -> String {
        CARGO.lines().filter_map(|line| report.cargo(line)).collect()
    }

    #[test]
    fn a_line_for_each_program_and_what_failed() {
        let mut report = Report::default();
        let shown = read(&mut report);
        report.cargo_ended(false);
        assert_eq!(
            shown,
            "Compiling narrows-units v0.1.0 (/n/crates/units)\n\
             narrows_units, unit tests ... \n\
             test rate::tests::b ... FAILED\n\
             failures:\n\
             ---- rate::tests::b stdout ----\n\
             thread panicked\n\
             narrows_units, unit tests ... 1 passed, 1 FAILED, 1 ignored\n\
             live_box ... 2 passed\n\
             crash ... \n\
             narrows_units, examples in its documentation ... 1 passed\n"
        );
        assert_eq!(
            report.text(),
            "\nskipped:\n  a measurement\n    narrows_units, unit tests: slow\n\
             \nfailed:\n  narrows_units, unit tests: rate::tests::b\n  crash: ended before its tests did\n\
             \n4 passed, 2 failed, 1 skipped\n"
        );
    }

    #[test]
    fn a_test_that_skips_itself_has_not_passed() {
        let mut report = Report::default();
        read(&mut report);
        report.skips(
            "skipped: x: needs root\nskipped in part: y: cubic: this kernel has reno\nskipped: x: needs root\nx\n",
        );
        let text = report.text();
        assert!(
            text.contains(
                "skipped:\n  a measurement\n    narrows_units, unit tests: slow\n  needs root\n    x\n"
            ),
            "{text}"
        );
        assert!(text.contains("skipped in part:\n  this kernel has reno\n    y: cubic\n"), "{text}");
        assert!(text.ends_with("\n3 passed, 2 failed, 2 skipped\n"), "{text}");
    }

    #[test]
    fn python_and_lints_count() {
        let mut report = Report::default();
        for line in [
            "python: pip install .",
            "....s...                                                                 [100%]",
            "SKIPPED [1] python/tests/test_import.py:28: not on this system",
            "7 passed, 1 skipped in 3.21s",
        ] {
            report.python(line);
        }
        report.step_ended("the Python package", true, false, 0);
        report.lints("lint: formatting not checked: rustfmt is missing (rustup component add rustfmt)");
        report.step_ended("formatting and lints", false, true, 0);
        let text = report.text();
        assert!(text.contains("not on this system\n    python/tests/test_import.py:28\n"), "{text}");
        assert!(
            text.contains("rustfmt is missing (rustup component add rustfmt)\n    formatting\n"),
            "{text}"
        );
        assert!(
            text.ends_with("failed:\n  formatting and lints\n\n7 passed, 1 failed, 2 skipped\n"),
            "{text}"
        );
    }

    #[test]
    fn nothing_compiled_is_a_failure() {
        let mut report = Report::default();
        assert_eq!(
            report.cargo("error: could not compile `narrows-units`").as_deref(),
            Some("error: could not compile `narrows-units`\n")
        );
        report.cargo_ended(false);
        assert!(report.text().ends_with("0 passed, 1 failed, 0 skipped\n"));
        assert_eq!(report.failures(), 1);
    }
}
