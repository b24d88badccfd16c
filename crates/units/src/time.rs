//! Points in time and spans of time, in nanoseconds. Sums, differences and products of times saturate.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub};

/// A point in time: nanoseconds since an epoch that the caller chooses. There is no `now()`, because time is an
/// argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Instant(u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Duration(u64);

impl Instant {
    /// The epoch.
    pub const ZERO: Self = Self(0);
    /// Later than any event.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// Makes an instant from nanoseconds since the epoch.
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }
    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Seconds since the epoch, for display.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// How long ago `earlier` was; zero if it lies in the future.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// Span of no time.
    pub const ZERO: Self = Self(0);
    /// The longest span there is.
    pub const MAX: Self = Self(u64::MAX);

    /// Makes a span from nanoseconds.
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }
    /// Makes a span from microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }
    /// Makes a span from milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }
    /// Makes a span from seconds.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
    /// Nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Whole milliseconds, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// Seconds, for display.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// `self - other`, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// Moves `self` one part in `2^shift` of the way to `sample`: the exponential average of RFC 6298 with
    /// weight 1/8 at `shift = 3`.
    #[must_use]
    pub const fn ewma(self, sample: Self, shift: u32) -> Self {
        let old = self.0 - (self.0 >> shift);
        Self(old.saturating_add(sample.0 >> shift))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}
impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}
impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(d.0))
    }
}
saturating_sum!(Duration);
impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, k: u64) -> Self {
        Self(self.0.saturating_mul(k))
    }
}
impl Div<u64> for Duration {
    type Output = Self;
    fn div(self, k: u64) -> Self {
        Self(self.0 / k)
    }
}
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..=9_999 => write!(f, "{} ns", self.0),
            10_000..=9_999_999 => write!(f, "{} us", self.0 / 1_000),
            10_000_000..=9_999_999_999 => write!(f, "{} ms", self.0 / 1_000_000),
            _ => write!(f, "{:.1} s", self.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_of_rfc_6298_by_hand() {
        // srtt = 7/8 * 800 ms + 1/8 * 1600 ms = 900 ms.
        let srtt = Duration::from_millis(800).ewma(Duration::from_millis(1600), 3);
        assert_eq!(srtt, Duration::from_millis(900));
        assert_eq!(Duration::MAX.ewma(Duration::MAX, 3).as_nanos() >> 4, u64::MAX >> 4);
    }

    #[test]
    fn time_never_runs_backwards_or_wraps() {
        let t = Instant::from_nanos(5);
        assert_eq!(t.since(Instant::from_nanos(9)), Duration::ZERO);
        assert_eq!(Instant::FAR_FUTURE + Duration::from_secs(1), Instant::FAR_FUTURE);
        assert_eq!(t - Duration::from_secs(1), Instant::ZERO);
    }
}
