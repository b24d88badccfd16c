//! Times and shifts in few bits, as records keep them.

use narrows_units::{Duration, Instant};

/// A point in time in microseconds, modulo 2^32 (71 minutes): for spans of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Micros(u32);

impl Micros {
    /// The time `now` in few bits.
    #[must_use]
    pub const fn at(now: Instant) -> Self {
        Self((now.as_nanos() / 1_000) as u32)
    }
    /// Time since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.wrapping_sub(earlier.0) as u64)
    }
}

/// A point in time in units of 2^20 ns (about a millisecond), modulo 2^32 (52 days, of which
/// half are past and half are future).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Coarse(pub(crate) u32);

impl Coarse {
    const SHIFT: u32 = 20;
    /// The time `now` in few bits.
    #[must_use]
    pub const fn at(now: Instant) -> Self {
        Self((now.as_nanos() >> Self::SHIFT) as u32)
    }
    /// Time since `earlier`, to a millisecond; zero if that lies in the future.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        let units = self.0.wrapping_sub(earlier.0);
        Duration::from_nanos(if units > u32::MAX / 2 { 0 } else { (units as u64) << Self::SHIFT })
    }
}

/// A window scale of 0 to 14 (RFC 7323, section 2.2), kept so that an `Option` of it is one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct WindowScale(core::num::NonZeroU8);

impl WindowScale {
    pub(crate) fn new(shift: u8) -> Option<Self> {
        core::num::NonZeroU8::new(shift.min(14) + 1).map(Self)
    }
    pub(crate) const fn shift(self) -> u8 {
        self.0.get() - 1
    }
}

/// Nanoseconds in 32 bits, at most 4.3 s.
pub(crate) const fn nanos32(d: Duration) -> u32 {
    let ns = d.as_nanos();
    if ns > u32::MAX as u64 { u32::MAX } else { ns as u32 }
}
