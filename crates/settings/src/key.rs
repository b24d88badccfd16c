//! Key of a setting, and the list of all keys.

use core::fmt;

use crate::kinds::ValueKind;
use crate::{SettingError, Settings, renamed};

/// A value in its place, with what may stand there.
pub trait Setting {
    /// The value, as [`Setting::read`] reads it.
    fn text(&self) -> String;
    /// Values that are allowed, in words, as a message names them.
    fn range(&self) -> String;
    /// Reads a value within the range; otherwise the place keeps what it has.
    fn read(&mut self, text: &str) -> Option<()>;
}

/// A place, and the kind of values that it takes.
#[derive(Debug)]
pub struct KeyedPlace<'a, T, K>(pub &'a mut T, pub K);

impl<T, K: ValueKind<T>> Setting for KeyedPlace<'_, T, K> {
    fn text(&self) -> String {
        self.1.text(self.0)
    }
    fn range(&self) -> String {
        self.1.range()
    }
    fn read(&mut self, text: &str) -> Option<()> {
        self.1.read(self.0, text)
    }
}

/// One key of the settings `C`.
pub struct Key<C> {
    /// Name of the key, the same on a command line, in TOML and in scenario files.
    pub name: &'static str,
    /// Meaning of the setting, in one line.
    pub doc: &'static str,
    /// The setting beside which alone it has a meaning, as `mode=paper`; `None` if it always has.
    pub section: Option<&'static str>,
    /// Place of the value; `None` in settings that have no such key.
    #[doc(hidden)]
    pub place: for<'a> fn(&'a mut C) -> Option<Box<dyn Setting + 'a>>,
    /// Settings that have this key, all at their defaults.
    #[doc(hidden)]
    pub home: fn() -> C,
}

impl<C> fmt::Debug for Key<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<C: Settings> Key<C> {
    /// The value in `config`, as [`Settings::set`] reads it; `None` if it has no such key.
    #[must_use]
    pub fn value(&self, config: &C) -> Option<String> {
        (self.place)(&mut config.clone()).map(|value| value.text())
    }

    /// The value it has unless it is set.
    #[must_use]
    pub fn default_value(&self) -> String {
        self.value(&(self.home)()).unwrap_or_default()
    }

    /// Values that are allowed, in words; empty if the default settings have no such key.
    #[must_use]
    pub fn range(&self) -> String {
        (self.place)(&mut (self.home)()).map_or_else(String::new, |value| value.range())
    }

    /// Sets the key from text.
    ///
    /// # Errors
    /// If `config` has no such key, or the value is outside its range; the setting is then as it was.
    pub fn set(&self, config: &mut C, value: &str) -> Result<(), SettingError> {
        let Some(done) = (self.place)(config).map(|mut place| place.read(value.trim())) else {
            return Err(self.misplaced(config, value));
        };
        done.ok_or_else(|| {
            let range = self.range();
            let new = renamed(value.trim()).filter(|new| range.split(" or ").any(|word| word == *new));
            let expected = new.map_or(range.clone(), |new| format!("{new}, as it is called now"));
            SettingError::new(self.name, value, expected)
        })
    }

    /// Error of a key that `config` does not have because another mode is chosen.
    fn misplaced(&self, config: &C, value: &str) -> SettingError {
        let selector = C::SELECTOR.and_then(C::key);
        let here = selector.and_then(|s| Some(format!("{}={}", s.name, s.value(config)?)));
        let there = self.section.unwrap_or_default();
        SettingError::misplaced(self.name, value, &here.unwrap_or_default(), there)
    }
}

/// The list of keys of a `Config`, for [`Keyed`](crate::Keyed): `keys! { [kinds] Config; name: Kind(range...),
/// "meaning"; ... }`, and `name(place.of.it): ...` where the key's name is not the field's. `kinds` is the module in
/// which the kinds are found: those of [`kinds`](crate::kinds), and whatever else the settings need.
///
/// Where some keys have a meaning only beside another setting they stand in sections, each with that setting, the way
/// to its part of the settings, and settings that have it: `[Some("mode=paper"), paper, Config::paper] { ... }`.
#[macro_export]
macro_rules! keys {
    ([$($kinds:tt)*] $config:ty;
     $($name:ident $(($($field:ident).+))?: $kind:ident $range:tt, $doc:literal;)*) => {
        $crate::keys! {
            [$($kinds)*]
            $config;
            [None, Some, <$config>::default] { $($name $(($($field).+))?: $kind $range, $doc;)* }
        }
    };
    ([$($kinds:tt)*] $config:ty; $([$section:expr, $part:expr, $home:expr] {
        $($name:ident $(($($field:ident).+))?: $kind:ident $range:tt, $doc:literal;)*
    })*) => {
        impl $crate::Keyed for $config {
            const KEYS: &'static [$crate::Key<Self>] = {
                use $($kinds)*::*;
                &[$($($crate::Key {
                name: stringify!($name),
                doc: $doc,
                section: $section,
                place: |c| ($part)(c).map(|c| -> Box<dyn $crate::Setting + '_> {
                    Box::new($crate::KeyedPlace($crate::place!(c, $name $(, $($field).+)?), $kind $range))
                }),
                home: $home,
            },)*)*]
            };
        }
    };
}

/// Where a key's value is.
#[doc(hidden)]
#[macro_export]
macro_rules! place {
    ($c:ident, $name:ident) => {
        &mut $c.$name
    };
    ($c:ident, $name:ident, $($field:ident).+) => {
        &mut $c.$($field).+
    };
}

/// Lists the words of an enumeration: `choices!(Mode: "default" => Default, "paper" => Paper);`.
#[macro_export]
macro_rules! choices {
    ($kind:ty: $($word:literal => $value:ident),+ $(,)?) => {
        impl $crate::kinds::Words for $kind {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn chosen(&self) -> usize {
                [$(Self::$value),+].iter().position(|v| v == self).unwrap_or(0)
            }
            fn choose(&mut self, place: usize) {
                *self = [$(Self::$value),+][place];
            }
        }
    };
}
