//! Kinds of values: how each is written, read and bounded. A crate adds its own by implementing [`ValueKind`].

use narrows_units::{Bytes, Duration};

use crate::quantity::{exact_time_text, real, seconds};

/// A kind of value, with its range.
pub trait ValueKind<T> {
    /// The value, as [`ValueKind::read`] reads it.
    fn text(&self, value: &T) -> String;
    /// Values that are allowed, in words, as a message names them.
    fn range(&self) -> String;
    /// Reads a value within the range; otherwise the place keeps what it has.
    fn read(&self, place: &mut T, text: &str) -> Option<()>;
}

/// A value chosen from a few words; [`choices!`](crate::choices) implements it for an enumeration.
pub trait Words {
    /// The words.
    const WORDS: &'static [&'static str];

    /// Place of the value among [`Words::WORDS`].
    fn chosen(&self) -> usize;
    /// Sets the value to the word at `place`.
    fn choose(&mut self, place: usize);
}

impl Words for bool {
    const WORDS: &'static [&'static str] = &["on", "off"];

    fn chosen(&self) -> usize {
        usize::from(!*self)
    }
    fn choose(&mut self, place: usize) {
        *self = place == 0;
    }
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

impl<T: Words> ValueKind<T> for Choice {
    fn text(&self, value: &T) -> String {
        T::WORDS[value.chosen()].to_owned()
    }
    fn range(&self) -> String {
        T::WORDS.join(" or ")
    }
    fn read(&self, place: &mut T, text: &str) -> Option<()> {
        T::WORDS.iter().position(|word| *word == text).map(|at| place.choose(at))
    }
}

/// A number from one to another, and what it is a number of.
macro_rules! between {
    ($($doc:literal $kind:ident($number:ty) of $value:ty: $out:expr, $in:expr;)*) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub struct $kind(pub $number, pub $number);

        impl ValueKind<$value> for $kind {
            fn text(&self, value: &$value) -> String {
                ($out)(*value).to_string()
            }
            fn range(&self) -> String {
                format!("{} to {}", self.0, self.1)
            }
            fn read(&self, place: &mut $value, text: &str) -> Option<()> {
                put(place, number(text, self.0, self.1).map($in))
            }
        }
    )*};
}

between! {
    "A whole number." Number(u32) of u32: u32::from, u32::from;
    "A time, given in milliseconds." Millis(u64) of Duration: Duration::as_millis, Duration::from_millis;
    "A size, given in bytes." Size(u64) of Bytes: Bytes::get, Bytes;
}

/// A number from the one given, or the word for [`u32::MAX`].
#[derive(Clone, Copy, Debug)]
pub struct Open(pub u32, pub &'static str);

impl ValueKind<u32> for Open {
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

impl ValueKind<f64> for Real {
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

impl ValueKind<Duration> for Time {
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
