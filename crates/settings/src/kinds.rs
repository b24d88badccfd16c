//! Kinds of values: how each is written, read and bounded. A crate adds its own by implementing [`Kind`].

use narrows_units::{Bytes, Duration};

use crate::quantity::{exact_time_text, real, seconds};

/// A kind of value, with its range.
pub trait Kind<T> {
    /// The value, as [`Kind::read`] reads it.
    fn text(&self, value: &T) -> String;
    /// What values are allowed, in words.
    fn range(&self) -> String;
    /// Reads a value within the range; otherwise the place keeps what it has.
    fn read(&self, place: &mut T, text: &str) -> Option<()>;
}

/// The range of a key; the second argument only says of what type its value is.
#[doc(hidden)]
pub fn range_of<C, T, K: Kind<T>>(kind: &K, _: impl FnOnce(&C) -> &T) -> String {
    kind.range()
}

/// A setting with one word for each value.
pub trait Words: Copy + PartialEq + 'static {
    /// The words, in the order of the documents.
    const WORDS: &'static [(&'static str, Self)];

    /// The value a word means.
    #[must_use]
    fn of(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
    }

    /// The value's word.
    #[must_use]
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("?", |(name, _)| name)
    }

    /// All words, as errors and documents list them.
    #[must_use]
    fn all() -> String {
        Self::WORDS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" or ")
    }
}

impl Words for bool {
    const WORDS: &'static [(&'static str, Self)] = &[("on", true), ("off", false)];
}

/// Puts a value into its place, if there is one.
pub fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

/// A number of some type from `low` to `high`.
pub fn number<N: core::str::FromStr + PartialOrd>(text: &str, low: N, high: N) -> Option<N> {
    text.parse().ok().filter(|n| (low..=high).contains(n))
}

/// One of a few words.
#[derive(Clone, Copy, Debug)]
pub struct Choice();

impl<T: Words> Kind<T> for Choice {
    fn text(&self, value: &T) -> String {
        value.word().to_owned()
    }
    fn range(&self) -> String {
        T::all()
    }
    fn read(&self, place: &mut T, text: &str) -> Option<()> {
        put(place, T::of(text))
    }
}

/// A whole number.
#[derive(Clone, Copy, Debug)]
pub struct Number(pub u32, pub u32);

impl Kind<u32> for Number {
    fn text(&self, value: &u32) -> String {
        value.to_string()
    }
    fn range(&self) -> String {
        format!("{} to {}", self.0, self.1)
    }
    fn read(&self, place: &mut u32, text: &str) -> Option<()> {
        put(place, number(text, self.0, self.1))
    }
}

/// A number from the one given, or the word for [`u32::MAX`].
#[derive(Clone, Copy, Debug)]
pub struct Open(pub u32, pub &'static str);

impl Kind<u32> for Open {
    fn text(&self, value: &u32) -> String {
        if *value == u32::MAX { self.1.to_owned() } else { value.to_string() }
    }
    fn range(&self) -> String {
        format!("{} and more, or {}", self.0, self.1)
    }
    fn read(&self, place: &mut u32, text: &str) -> Option<()> {
        put(place, if text == self.1 { Some(u32::MAX) } else { number(text, self.0, u32::MAX - 1) })
    }
}

/// `2` or `0.875`.
#[derive(Clone, Copy, Debug)]
pub struct Real(pub f64, pub f64);

impl Kind<f64> for Real {
    fn text(&self, value: &f64) -> String {
        value.to_string()
    }
    fn range(&self) -> String {
        format!("{} to {}", self.0, self.1)
    }
    fn read(&self, place: &mut f64, text: &str) -> Option<()> {
        put(place, real(text).filter(|n| (self.0..=self.1).contains(n)))
    }
}

/// A time, given in seconds or with a unit.
#[derive(Clone, Copy, Debug)]
pub struct Time(pub Duration, pub Duration);

impl Kind<Duration> for Time {
    fn text(&self, value: &Duration) -> String {
        exact_time_text(*value)
    }
    fn range(&self) -> String {
        format!("{} to {}", exact_time_text(self.0), exact_time_text(self.1))
    }
    fn read(&self, place: &mut Duration, text: &str) -> Option<()> {
        put(place, seconds(text).filter(|t| (self.0..=self.1).contains(t)))
    }
}

/// A time, given in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Millis(pub u64, pub u64);

impl Kind<Duration> for Millis {
    fn text(&self, value: &Duration) -> String {
        value.as_millis().to_string()
    }
    fn range(&self) -> String {
        format!("{} to {}", self.0, self.1)
    }
    fn read(&self, place: &mut Duration, text: &str) -> Option<()> {
        put(place, number(text, self.0, self.1).map(Duration::from_millis))
    }
}

/// A size, given in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub u64, pub u64);

impl Kind<Bytes> for Size {
    fn text(&self, value: &Bytes) -> String {
        value.get().to_string()
    }
    fn range(&self) -> String {
        format!("{} to {}", self.0, self.1)
    }
    fn read(&self, place: &mut Bytes, text: &str) -> Option<()> {
        put(place, number(text, self.0, self.1).map(Bytes))
    }
}
