//! Errors of settings, and old names of keys with their new ones.

use core::fmt;

use crate::nearest;

/// Error of a setting: why it is impossible, or that a text names no settings at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The key, or what was to be named.
    pub key: String,
    /// Value that was given.
    pub value: String,
    /// Problem with the value, in words: mostly what was expected.
    pub problem: String,
}

impl SettingError {
    /// A value other than expected.
    #[must_use]
    pub fn new(key: impl Into<String>, value: impl Into<String>, expected: impl fmt::Display) -> Self {
        Self { key: key.into(), value: value.into(), problem: format!("expected {expected}") }
    }

    /// The expected value or range, if the problem is that the value is none of it.
    #[must_use]
    pub fn expected(&self) -> Option<&str> {
        self.problem.strip_prefix("expected ")
    }

    /// A key that `settings` do not have.
    #[must_use]
    pub fn unknown(key: &str, value: &str, settings: &str, keys: &[&str]) -> Self {
        let problem = match renamed(key) {
            Some(new) if keys.contains(&new) => format!("this key is called {new}"),
            _ if key == "http_503" => {
                "this is a setting of the box: http_503 = true, or --http-503".to_owned()
            }
            _ if let Some(instead) = removed(settings, key) => {
                format!("this key is gone: {instead}; leave it out")
            }
            _ => {
                // A name that several modes have is listed once.
                let mut names: Vec<&str> = Vec::with_capacity(keys.len());
                for name in keys {
                    if !names.contains(name) {
                        names.push(name);
                    }
                }
                let perhaps = nearest(key, names.iter().copied())
                    .map_or_else(String::new, |k| format!("; perhaps {k}"));
                format!("expected a key of {settings}: {}{perhaps}", names.join(", "))
            }
        };
        Self { key: key.to_owned(), value: value.to_owned(), problem }
    }

    /// A key that has no meaning beside another setting: `here` is that setting, `there` what the key belongs to.
    #[must_use]
    pub fn misplaced(key: &str, value: &str, here: &str, there: &str) -> Self {
        let problem = format!("'{key}' has no meaning in {here}; it belongs to {there}");
        Self { key: key.to_owned(), value: value.to_owned(), problem }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = '{}': {}", self.key, self.value, self.problem)
    }
}
impl std::error::Error for SettingError {}

/// Keys that settings had, by the name of the settings, and what holds without them.
const REMOVED: &[(&str, &str, &str)] = &[
    ("taq", "order", "old flows are served in turn"),
    ("taq", "patience_ms", "old flows are served in turn, so none waits for shorter ones"),
    ("taq", "quic_slow_handshake", "handshakes of QUIC go first"),
    ("taq", "young_kb", "all flows have the same share"),
    ("taq", "young_weight", "all flows have the same share"),
];

fn removed(settings: &str, key: &str) -> Option<&'static str> {
    REMOVED.iter().find(|(of, was, _)| *of == settings && *was == key).map(|(_, _, instead)| *instead)
}

/// Former names of keys in settings and scenarios, each with the name of today.
const RENAMED: &[(&str, &str)] = &[
    ("clamp", "window_clamp"),
    ("clamp_max", "window_clamp_max"),
    ("clamp_min", "window_clamp_min"),
    ("door", "waiting_syn"),
    ("front", "retransmissions_first"),
    ("hangs", "stalls"),
    ("line_rounds", "wait_rounds"),
    ("new_bytes", "new_quantum"),
    ("new_first", "new_flows_first"),
    ("pool", "user"),
    ("swallow", "suppress_duplicates"),
    ("swallow_departed", "suppress_departed"),
];

/// The present name of a key, or of a name in a scenario, that was called `old`; `None` if it was never renamed.
#[must_use]
pub fn renamed(old: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(was, _)| *was == old).map(|(_, is)| *is)
}
