//! Report on the tests, read from the output of libtest and pytest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use narrows_testing::{PART, WHOLE};

use super::PYTHON;

/// Counts of passed and failed tests, and names of failed and skipped ones.
#[derive(Debug, Default)]
pub struct Report {
    /// Tests that libtest and pytest call passed.
    ok: usize,
    failed: Vec<String>,
    /// Skipped tests that the runner reports as skipped: reason and name.
    ignored: Vec<(String, String)>,
    /// Skipped tests that the runner counts as passed: reason and name.
    skipped: BTreeSet<(String, String)>,
    /// Parts left out of tests that ran: reason and part.
    parts: BTreeSet<(String, String)>,
}

impl Report {
    /// Takes all that a program of tests said; returns what to show of it, which is a line where all went well.
    pub fn program(&mut self, name: &str, said: &str, success: bool, took: Duration) -> String {
        let (mut counts, mut told, failed_before) = ([0; 3], false, self.failed.len());
        for line in said.lines().map(str::trim_start) {
            if let Some(result) = line.strip_prefix("test result: ") {
                told = true;
                for (sum, what) in counts.iter_mut().zip(["passed", "failed", "ignored"]) {
                    *sum += count(result, what);
                }
            } else if let Some((test, how)) =
                line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
            {
                let (how, why) = how.split_once(", ").unwrap_or((how, "not run unless asked for"));
                match how {
                    "ignored" => self.ignored.push((why.to_owned(), format!("{name}: {test}"))),
                    "FAILED" => self.failed.push(format!("{name}: {test}")),
                    _ => {}
                }
            }
        }
        let [ok, failed, ignored] = counts;
        self.ok += ok;
        // A program that ended without a result has crashed, or could not be compiled.
        if !told || (!success && self.failed.len() == failed_before) {
            self.failed.push(format!("{name}: ended before its tests did"));
        }
        let mut text = format!("{name} ... {ok} passed");
        for (number, what) in [(failed, "FAILED"), (ignored, "ignored")].into_iter().filter(|(n, _)| *n > 0) {
            let _ = write!(text, ", {number} {what}");
        }
        if took.as_secs() > 0 {
            let _ = write!(text, " ({} s)", took.as_secs());
        }
        text.push('\n');
        if success && told && counts == [0; 3] {
            return String::new();
        }
        if success && told { text } else { shortened(said) + &text }
    }

    /// Counts a lint as a test that passed or failed.
    pub fn lint(&mut self, name: &str, success: bool) {
        if success {
            self.ok += 1;
        } else {
            self.failed.push(name.to_owned());
        }
    }

    /// Notes a check that is impossible here, and the reason.
    pub fn missing(&mut self, name: &str, why: &str) {
        self.ignored.push((why.to_owned(), name.to_owned()));
    }

    /// A step that is no test itself has ended; where it failed and no test of it did, it has failed.
    pub fn step_ended(&mut self, step: &str, success: bool, failed_before: usize) {
        if !success && self.failed.len() == failed_before {
            self.failed.push(step.to_owned());
        }
    }

    /// Takes all that `scripts/python-test` said; returns what to show of it.
    pub fn python(&mut self, said: &str, success: bool, took: Duration) -> String {
        let (ok_before, failed_before) = (self.ok, self.failed.len());
        for line in said.lines() {
            if let Some(why) = line.strip_prefix("python: not tested: ") {
                self.missing(PYTHON, why);
            } else if let Some((_, said)) =
                line.strip_prefix("SKIPPED [").and_then(|rest| rest.split_once("] "))
            {
                // Place and reason, as "python/tests/test_import.py:28: why".
                let (at, why) = said.split_once(": ").unwrap_or((said, "skipped"));
                self.missing(at, why);
            } else if let Some(name) = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR ")) {
                self.failed.push(name.to_owned());
            } else if line.contains(" in ") {
                self.ok += count(line, "passed");
            }
        }
        self.step_ended(PYTHON, success, failed_before);
        let line = format!("{PYTHON} ... {} passed ({} s)\n", self.ok - ok_before, took.as_secs());
        if success { line } else { format!("{}\n{line}", said.trim_end()) }
    }

    /// Number of failures so far.
    pub fn failures(&self) -> usize {
        self.failed.len()
    }

    /// Reads the reasons that tests wrote when the tests were skipped.
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

    /// Summary of failed and skipped tests, with reasons; the last line has the numbers.
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

/// Adds a heading, and below each reason the names of tests with that reason.
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

/// Shortens a program's output: leaves out passed tests and the lines that frame them.
fn shortened(said: &str) -> String {
    let noise = |line: &&str| {
        let words = line.trim_start();
        words.is_empty()
            || words.starts_with("test result: ")
            || (words.starts_with("running ") && words.contains(" test"))
            || (words.starts_with("test ") && (words.ends_with(" ... ok") || words.contains(" ... ignored")))
    };
    said.lines().filter(|line| !noise(line)).flat_map(|line| [line, "\n"]).collect()
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

    /// Output in the form of libtest: one test fails, one is ignored.
    const UNITS: &str = "
running 3 tests
test rate::tests::a ... ok
test rate::tests::b ... FAILED
test slow ... ignored, a measurement

failures:

---- rate::tests::b stdout ----
thread panicked

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.20s
";
    const LIVE: &str = "
running 2 tests
test x ... ok
test y ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s
";
    /// Output in the form of cargo for two packages.
    const EXAMPLES: &str = "   Doc-tests narrows_units

running 1 test
test crates/units/src/lib.rs - (line 3) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s

   Doc-tests narrows_wire

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    fn read(report: &mut Report) -> String {
        let seconds = Duration::from_millis(2_300);
        [("units, unit tests", UNITS, false), ("box, from outside", LIVE, true), ("examples", EXAMPLES, true)]
            .map(|(name, said, success)| report.program(name, said, success, seconds))
            .concat()
    }

    #[test]
    fn a_line_for_each_program_and_what_failed() {
        let mut report = Report::default();
        let shown = read(&mut report) + &report.program("crash", "running 9 tests\n", false, Duration::ZERO);
        assert_eq!(
            shown,
            "test rate::tests::b ... FAILED\n\
             failures:\n\
             ---- rate::tests::b stdout ----\n\
             thread panicked\n\
             units, unit tests ... 1 passed, 1 FAILED, 1 ignored (2 s)\n\
             box, from outside ... 2 passed (2 s)\n\
             examples ... 1 passed (2 s)\n\
             crash ... 0 passed\n"
        );
        assert_eq!(
            report.text(),
            "\nskipped:\n  a measurement\n    units, unit tests: slow\n\
             \nfailed:\n  units, unit tests: rate::tests::b\n  crash: ended before its tests did\n\
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
            text.contains("skipped:\n  a measurement\n    units, unit tests: slow\n  needs root\n    x\n"),
            "{text}"
        );
        assert!(text.contains("skipped in part:\n  this kernel has reno\n    y: cubic\n"), "{text}");
        assert!(text.ends_with("\n3 passed, 1 failed, 2 skipped\n"), "{text}");
    }

    #[test]
    fn python_and_lints_count() {
        let mut report = Report::default();
        let said = "python: pip install .\n\
                    ....s...                                                                 [100%]\n\
                    SKIPPED [1] python/tests/test_import.py:28: not on this system\n\
                    7 passed, 1 skipped in 3.21s\n";
        let shown = report.python(said, true, Duration::from_secs(5));
        assert_eq!(shown, "the Python package ... 7 passed (5 s)\n");
        report.missing("formatting", "rustfmt is missing (rustup component add rustfmt)");
        report.lint("lengths, names and links", true);
        report.lint("lints", false);
        let text = report.text();
        assert!(text.contains("not on this system\n    python/tests/test_import.py:28\n"), "{text}");
        assert!(
            text.contains("rustfmt is missing (rustup component add rustfmt)\n    formatting\n"),
            "{text}"
        );
        assert!(text.ends_with("failed:\n  lints\n\n8 passed, 1 failed, 2 skipped\n"), "{text}");
    }

    #[test]
    fn nothing_compiled_is_a_failure() {
        let mut report = Report::default();
        report.step_ended("building the tests", false, 0);
        assert!(report.text().ends_with("0 passed, 1 failed, 0 skipped\n"));
        assert_eq!(report.failures(), 1);
    }
}
