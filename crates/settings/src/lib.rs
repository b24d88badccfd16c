//! Settings as text. Who has settings lists each key once, with its place, range and meaning; command line, TOML, scenario
//! files and documents read that list.
//!
//! ```
//! use narrows_settings::{Key, Settings, kinds};
//! use narrows_units::Duration;
//!
//! #[derive(Clone, Debug, PartialEq)]
//! struct Config {
//!     target: Duration,
//!     ecn: bool,
//! }
//!
//! impl Default for Config {
//!     fn default() -> Self {
//!         Self { target: Duration::from_millis(5), ecn: true }
//!     }
//! }
//!
//! narrows_settings::keys! {
//!     [kinds]
//!     Config;
//!     target: Time(Duration::from_millis(1), Duration::from_secs(1)), "acceptable standing delay";
//!     ecn: Choice(), "mark ECN-capable packets instead of dropping them";
//! }
//!
//! impl Settings for Config {
//!     const NAME: &'static str = "codel";
//!     const RENAMED: &'static [(&'static str, &'static str)] = &[("delay", "target")];
//!     fn keys() -> &'static [Key<Self>] {
//!         KEYS
//!     }
//! }
//!
//! let config = Config::read("target=20ms,ecn=off").unwrap();
//! assert_eq!((config.target, config.ecn), (Duration::from_millis(20), false));
//! assert_eq!(config.differences(), "target=20ms,ecn=off");
//! let wrong = Config::read("target=2s").unwrap_err();
//! assert_eq!(wrong.to_string(), "target = '2s': expected 1ms to 1s");
//! let old = Config::read("delay=20ms").unwrap_err();
//! assert_eq!(old.to_string(), "delay = '20ms': expected the key target, which has replaced delay");
//! ```

#![forbid(unsafe_code)]

mod key;
pub mod kinds;
pub mod quantity;

use core::fmt::{self, Write as _};

pub use key::Key;

/// Why a setting is impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The key.
    pub key: String,
    /// What was given.
    pub value: String,
    /// What would be right.
    pub expected: String,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = '{}': expected {}", self.key, self.value, self.expected)
    }
}
impl std::error::Error for SettingError {}

/// The settings of something that has a name.
pub trait Settings: Clone + Default + PartialEq + fmt::Debug + 'static {
    /// Whose settings these are.
    const NAME: &'static str;
    /// The key a bare word sets, as in `taq:paper`; empty: a bare word is a key without a value.
    const BARE: &'static str = "";
    /// Keys of earlier versions, and what they are called now: so that the error for an old key names the new one.
    const RENAMED: &'static [(&'static str, &'static str)] = &[];

    /// Every key, in the order of the documents.
    fn keys() -> &'static [Key<Self>];

    /// Combinations that make no sense although each value is within its range.
    ///
    /// # Errors
    /// Names the key to change.
    fn check(&self) -> Result<(), SettingError> {
        Ok(())
    }

    /// The key of this name.
    #[must_use]
    fn key(name: &str) -> Option<&'static Key<Self>> {
        Self::keys().iter().find(|k| k.name == name)
    }

    /// What a key of earlier versions is called now.
    #[must_use]
    fn replacement(old: &str) -> Option<&'static str> {
        Self::RENAMED.iter().find(|(name, _)| *name == old).map(|(_, new)| *new)
    }

    /// Sets one key from text.
    ///
    /// # Errors
    /// If there is no such key, or the value is outside its range; the setting is then as it was.
    fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        match Self::key(key) {
            Some(known) => known.set(self, value),
            None => Err(SettingError {
                key: key.to_owned(),
                value: value.to_owned(),
                expected: expected::<Self>(key),
            }),
        }
    }

    /// Sets what `text` says, as `key=value,key=value`, and leaves the rest.
    ///
    /// # Errors
    /// If a key is unknown, or a value is outside its range.
    fn set_all(&mut self, text: &str) -> Result<(), SettingError> {
        for setting in text.split(',').map(str::trim).filter(|s| !s.is_empty()) {
            match setting.split_once('=') {
                Some((key, value)) => self.set(key.trim(), value)?,
                None if Self::BARE.is_empty() => self.set(setting, "")?,
                None => self.set(Self::BARE, setting)?,
            }
        }
        Ok(())
    }

    /// The settings in `text`, as `key=value,key=value`; the rest have their defaults.
    ///
    /// # Errors
    /// If a key is unknown, a value is outside its range, or they do not go together.
    fn read(text: &str) -> Result<Self, SettingError> {
        let mut config = Self::default();
        config.set_all(text)?;
        config.check()?;
        Ok(config)
    }

    /// The keys that differ from their defaults, as `key=value,key=value`.
    #[must_use]
    fn differences(&self) -> String {
        let plain = Self::default();
        let changed: Vec<_> = Self::keys()
            .iter()
            .filter(|k| k.value(self) != k.value(&plain))
            .map(|k| format!("{}={}", k.name, k.value(self)))
            .collect();
        changed.join(",")
    }

    /// The keys as `--help` shows them.
    #[must_use]
    fn help() -> String {
        let plain = Self::default();
        Self::keys().iter().fold(String::new(), |mut text, k| {
            let _ = writeln!(text, "  {:<20} {} [{}; {}]", k.name, k.doc, k.value(&plain), k.range());
            text
        })
    }

    /// The keys as a table in Markdown, for the documents.
    #[must_use]
    fn markdown() -> String {
        table(&[("default", Self::default())], ["range", "meaning"])
    }
}

fn expected<C: Settings>(key: &str) -> String {
    if let Some(new) = C::replacement(key) {
        return format!("the key {new}, which has replaced {key}");
    }
    let names: Vec<_> = C::keys().iter().map(|k| k.name).collect();
    format!("a key of {}: {}", C::NAME, names.join(", "))
}

/// The keys as a table in Markdown, with their values in each of `columns`, and what the columns of ranges and meanings are
/// called.
#[must_use]
pub fn table<C: Settings>(columns: &[(&str, C)], [range, meaning]: [&str; 2]) -> String {
    let mut text = String::from("| key |");
    columns.iter().for_each(|(name, _)| {
        let _ = write!(text, " {name} |");
    });
    let _ = writeln!(text, " {range} | {meaning} |\n{}", "|---".repeat(columns.len() + 3) + "|");
    for k in C::keys() {
        let _ = write!(text, "| `{}` |", k.name);
        for (_, config) in columns {
            let _ = write!(text, " {} |", k.value(config));
        }
        let _ = writeln!(text, " {} | {} |", k.range(), k.doc);
    }
    text
}
