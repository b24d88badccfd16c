//! A real browser, where one is installed.

use super::bench::found;
use super::scenario::{Scenario, Traffic};

/// Names of programs that take Chromium's flags, in the order of preference.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Finds the first installed browser of a list.
///
/// # Errors
/// Names the remedy.
pub fn program() -> Result<&'static str, String> {
    first(found)
}

fn first(installed: impl Fn(&str) -> bool) -> Result<&'static str, String> {
    let remedy = || format!("none of {} is installed: apt-get install chromium", PROGRAMS.join(", "));
    PROGRAMS.into_iter().find(|p| installed(p)).ok_or_else(remedy)
}

/// Reason why a scenario that needs a browser cannot run; `None` if it can.
pub(super) fn missing(scenario: &Scenario) -> Option<String> {
    let at = scenario.traffic.iter().position(|t| matches!(t, Traffic::Browser { .. }))?;
    program().err().map(|why| format!("traffic.{at}.kind = 'browser': {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_browser_the_remedy_is_named() {
        assert_eq!(first(|p| p.starts_with("google")), Ok("google-chrome"));
        assert!(first(|_| false).unwrap_err().ends_with("apt-get install chromium"));
        let file = |kind: &str| {
            let text =
                format!("name='t'\nrate='1mbit'\ndiscipline='taq'\ntraffic=[{{kind='{kind}',users=1}}]");
            Scenario::parse(&text, &[]).unwrap()
        };
        assert_eq!(missing(&file("objects")), None);
        assert_eq!(missing(&file("browser")).is_none(), program().is_ok());
    }
}
