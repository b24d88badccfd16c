//! Settings as text. Who has settings lists each key once, with its place, range and meaning; command line, TOML,
//! scenario files and documents read that list.
//!
//! ```
//! use narrows_settings::{Settings, kinds};
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
//! }
//!
//! let config = Config::read("target=20ms,ecn=off").unwrap();
//! assert_eq!((config.target, config.ecn), (Duration::from_millis(20), false));
//! assert_eq!(config.differences(), "target=20ms,ecn=off");
//! let wrong = Config::read("target=2s").unwrap_err();
//! assert_eq!(wrong.to_string(), "target = '2s': expected 1ms to 1s");
//! ```

#![forbid(unsafe_code)]

mod error;
mod key;
pub mod kinds;
mod near;
pub mod quantity;

use core::fmt::{self, Write as _};

pub use error::{SettingError, renamed};
pub use key::{Key, KeyedPlace, Setting};
pub use near::{nearest, one_of};

/// Settings with a list of keys, written by [`keys!`].
pub trait Keyed: Sized + 'static {
    /// Every key, in the order of the documents.
    const KEYS: &'static [Key<Self>];
}

/// The settings of something that has a name.
pub trait Settings: Keyed + Clone + Default + PartialEq + fmt::Debug {
    /// Name of the thing that has these settings, as messages give it.
    const NAME: &'static str;
    /// The key a bare word sets, as in `taq:paper`; empty: a bare word is a key without a value.
    const BARE: &'static str = "";
    /// The key that decides which others there are, if one does: it is read first wherever it stands.
    const SELECTOR: Option<&'static str> = None;

    /// Every key, in the order of the documents.
    #[must_use]
    fn keys() -> &'static [Key<Self>] {
        Self::KEYS
    }

    /// Combinations that make no sense although each value is within its range.
    ///
    /// # Errors
    /// Names the key to change.
    fn check(&self) -> Result<(), SettingError> {
        Ok(())
    }

    /// The key of this name; the first, if sections have keys of the same name.
    #[must_use]
    fn key(name: &str) -> Option<&'static Key<Self>> {
        Self::keys().iter().find(|k| k.name == name)
    }

    /// The key of this name that these settings have, else any of this name.
    #[must_use]
    fn own_key(&self, name: &str) -> Option<&'static Key<Self>> {
        let has = |k: &&Key<Self>| k.name == name && k.value(self).is_some();
        Self::keys().iter().find(has).or_else(|| Self::key(name))
    }

    /// Sets one key from text.
    ///
    /// # Errors
    /// If there is no such key, or the value is outside its range; the setting is then as it was.
    fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let known = self.own_key(key).ok_or_else(|| {
            let names: Vec<_> = Self::keys().iter().map(|k| k.name).collect();
            SettingError::unknown(key, value, Self::NAME, &names)
        })?;
        known.set(self, value)
    }

    /// Sets what `text` says, as `key=value,key=value`, and leaves the rest.
    ///
    /// # Errors
    /// If a key is unknown, or a value is outside its range.
    fn set_all(&mut self, text: &str) -> Result<(), SettingError> {
        let pair = |setting: &'_ str| {
            let bare = if Self::BARE.is_empty() { (setting, "") } else { (Self::BARE, setting) };
            let (key, value) = setting.split_once('=').unwrap_or(bare);
            (key.trim().to_owned(), value.to_owned())
        };
        let given = text.split(',').map(str::trim).filter(|s| !s.is_empty()).map(pair);
        let (first, rest): (Vec<_>, Vec<_>) = given.partition(|(key, _)| Self::SELECTOR == Some(key));
        first.iter().chain(&rest).try_for_each(|(key, value)| self.set(key, value))
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
        let change = |k: &Key<Self>| {
            let value = k.value(self).filter(|v| *v != k.default_value())?;
            Some(format!("{}={value}", k.name))
        };
        let changed: Vec<_> = Self::keys().iter().filter_map(change).collect();
        changed.join(",")
    }

    /// The keys as `--help` shows them.
    #[must_use]
    fn help() -> String {
        Self::keys().iter().fold(String::new(), |mut text, k| {
            let only = k.section.map_or(String::new(), |s| format!("; with {s}"));
            let _ = writeln!(text, "  {:<20} {} [{}; {}{only}]", k.name, k.doc, k.default_value(), k.range());
            text
        })
    }

    /// The keys as a table in Markdown, for the documents.
    #[must_use]
    fn markdown() -> String {
        let sections = Self::keys().iter().any(|k| k.section.is_some());
        let (title, rule) = if sections { (" with |", "---|") } else { ("", "") };
        let mut text = format!("| key |{title} default | range | meaning |\n|---|{rule}---|---|---|\n");
        for k in Self::keys() {
            let only = match k.section {
                Some(section) => format!(" `{section}` |"),
                None if sections => " |".to_owned(),
                None => String::new(),
            };
            let _ =
                writeln!(text, "| `{}` |{only} {} | {} | {} |", k.name, k.default_value(), k.range(), k.doc);
        }
        text
    }
}

/// The keys as a table in Markdown with their values in each of several presets, for the documents.
#[must_use]
pub fn presets<C: Settings>(presets: &[(&str, C)]) -> String {
    let names: Vec<_> = presets.iter().map(|(name, _)| *name).collect();
    let mut text = format!("| key | {} | values | meaning, source |\n", names.join(" | "));
    let _ = writeln!(text, "{}|", "|---".repeat(presets.len() + 3));
    for k in C::keys() {
        let values: Vec<_> = presets.iter().map(|(_, c)| k.value(c).unwrap_or_default()).collect();
        let _ = writeln!(text, "| `{}` | {} | {} | {} |", k.name, values.join(" | "), k.range(), k.doc);
    }
    text
}

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
