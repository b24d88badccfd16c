//! One key, and the list of them.

use core::fmt;

use crate::SettingError;

/// One key of the settings `C`.
pub struct Key<C> {
    /// Its name, the same on a command line, in TOML and in scenario files.
    pub name: &'static str,
    /// What it means, in one line.
    pub doc: &'static str,
    value: fn(&C) -> String,
    range: fn() -> String,
    read: fn(&mut C, &str) -> Option<()>,
}

impl<C> fmt::Debug for Key<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<C> Key<C> {
    /// A key, made by [`keys!`](crate::keys).
    #[doc(hidden)]
    #[must_use]
    pub const fn new(
        name: &'static str,
        doc: &'static str,
        value: fn(&C) -> String,
        range: fn() -> String,
        read: fn(&mut C, &str) -> Option<()>,
    ) -> Self {
        Self { name, doc, value, range, read }
    }

    /// The value in `config`, as [`Key::set`] reads it.
    #[must_use]
    pub fn value(&self, config: &C) -> String {
        (self.value)(config)
    }

    /// What values are allowed, in words.
    #[must_use]
    pub fn range(&self) -> String {
        (self.range)()
    }

    /// Sets the key from text.
    ///
    /// # Errors
    /// If the value is outside its range; the setting is then as it was.
    pub fn set(&self, config: &mut C, value: &str) -> Result<(), SettingError> {
        (self.read)(config, value.trim()).ok_or_else(|| SettingError {
            key: self.name.to_owned(),
            value: value.to_owned(),
            expected: self.range(),
        })
    }
}

/// The list of keys of a `Config`, as a static `KEYS`: `keys! { [kinds] Config; name: Kind(range...), "meaning"; ... }`, and
/// `name(place.of.it): ...` where the key's name is not the field's. `kinds` is the module in which the kinds are found, those
/// of [`kinds`](crate::kinds) and whatever else the settings need.
#[macro_export]
macro_rules! keys {
    ([$($kinds:tt)*] $config:ty;
     $($name:ident $(($($place:ident).+))?: $kind:ident($($range:expr),*), $doc:literal;)*) => {
        static KEYS: &[$crate::Key<$config>] = {
            use $($kinds)*::*;
            &[$($crate::Key::new(
                stringify!($name),
                $doc,
                |c: &$config| $crate::kinds::Kind::text(
                    &$kind($($range),*),
                    &$crate::place!(c, $name $(, $($place).+)?),
                ),
                || $crate::kinds::range_of(
                    &$kind($($range),*),
                    |c: &$config| &$crate::place!(c, $name $(, $($place).+)?),
                ),
                |c: &mut $config, text| $crate::kinds::Kind::read(
                    &$kind($($range),*),
                    &mut $crate::place!(c, $name $(, $($place).+)?),
                    text,
                ),
            ),)*]
        };
    };
}

/// Where a key's value is.
#[doc(hidden)]
#[macro_export]
macro_rules! place {
    ($c:ident, $name:ident) => {
        $c.$name
    };
    ($c:ident, $name:ident, $($place:ident).+) => {
        $c.$($place).+
    };
}

/// Lists the words of an enumeration: `choices!(Mode: "default" => Default, "paper" => Paper);`.
#[macro_export]
macro_rules! choices {
    ($kind:ty: $($word:literal => $value:ident),+ $(,)?) => {
        impl $crate::kinds::Words for $kind {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$value)),+];
        }
    };
}
