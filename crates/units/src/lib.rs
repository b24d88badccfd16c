//! Quantities as types: time in nanoseconds, size in bytes, rate in bits per second, TCP sequence numbers.
//!
//! All of them are integers, so that a run gives the same result on every machine. Each rounding is decided here, once:
//! the time to send a packet rounds **up**, so that it never leaves early; the number of bytes sent in a time rounds
//! **down**, so that there are never too many. Sums and differences of sizes and times saturate; sequence numbers wrap.

#![forbid(unsafe_code)]

/// `+` and `+=` of a quantity.
macro_rules! saturating_sum {
    ($quantity:ident) => {
        impl core::ops::Add for $quantity {
            type Output = Self;
            /// The sum, at most `u64::MAX`.
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }
        impl core::ops::AddAssign for $quantity {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
    };
}

mod calendar;
mod rate;
mod seq;
mod time;

pub use calendar::{date_of, days_since_1970};
pub use rate::{Bytes, ParseRateError, Rate};
pub use seq::SeqNum;
pub use time::{Duration, Instant};

/// The two ECN bits of an IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable: only a drop can signal congestion.
    #[default]
    NotEct = 0,
    /// ECN-capable, ECT(1).
    Ect1 = 1,
    /// ECN-capable, ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// The codepoint in the low two bits of a traffic class byte.
    #[must_use]
    pub const fn from_bits(tos: u8) -> Self {
        match tos & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Whether a router may mark instead of dropping.
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// The differentiated services codepoint of an IP header: the upper six bits of the traffic class byte (RFC 2474,
/// section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dscp(u8);

impl Dscp {
    /// Best effort (RFC 2474, section 4.1).
    pub const DEFAULT: Self = Self(0);

    /// The codepoint of this number; `None` above 63.
    #[must_use]
    pub const fn new(codepoint: u8) -> Option<Self> {
        if codepoint < 64 { Some(Self(codepoint)) } else { None }
    }

    /// The codepoint in a traffic class byte.
    #[must_use]
    pub const fn from_bits(tos: u8) -> Self {
        Self(tos >> 2)
    }

    /// The number, 0 to 63.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
