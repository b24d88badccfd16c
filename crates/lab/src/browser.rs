//! A real browser, where one is installed.

use super::bench::found;
use super::scenario::{Scenario, Traffic};

/// What it may be called; all take Chromium's flags.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// The first of them that is installed.
///
/// # Errors
/// Names the remedy.
pub fn program() -> Result<&'static str, String> {
    PROGRAMS
        .into_iter()
        .find(|p| found(p))
        .ok_or_else(|| format!("none of {} is installed: apt-get install chromium", PROGRAMS.join(", ")))
}

/// Why a scenario cannot be run for want of a browser, if so.
pub(super) fn missing(scenario: &Scenario) -> Option<String> {
    let at = scenario.traffic.iter().position(|t| matches!(t, Traffic::Browser { .. }))?;
    program().err().map(|why| format!("traffic.{at}.kind = 'browser': {why}"))
}
