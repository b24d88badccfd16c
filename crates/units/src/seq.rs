//! TCP sequence numbers, compared modulo 2^32 (RFC 9293, section 3.4).

use core::ops::{Add, AddAssign, Sub};

/// A sequence number. There is no total order: of two numbers that lie 2^31 apart, neither comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SeqNum(pub u32);

impl SeqNum {
    /// Signed distance from `other` to `self`.
    #[must_use]
    #[expect(clippy::cast_possible_wrap, reason = "the wrap is the point: RFC 9293 arithmetic modulo 2^32")]
    pub const fn distance_from(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }
    /// Whether `self` comes before `other`.
    #[must_use]
    pub const fn before(self, other: Self) -> bool {
        self.distance_from(other) < 0
    }
    /// Whether `self` comes before `other` or is the same.
    #[must_use]
    pub const fn at_or_before(self, other: Self) -> bool {
        self.distance_from(other) <= 0
    }
    /// The later of the two.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }
}

impl Add<u32> for SeqNum {
    type Output = Self;
    fn add(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }
}
impl AddAssign<u32> for SeqNum {
    fn add_assign(&mut self, n: u32) {
        *self = *self + n;
    }
}
impl Sub<SeqNum> for SeqNum {
    type Output = u32;
    /// How far `self` lies beyond `other`, modulo 2^32.
    fn sub(self, other: SeqNum) -> u32 {
        self.0.wrapping_sub(other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        let (a, b) = (SeqNum(u32::MAX - 9), SeqNum(10));
        assert!(a.before(b) && !b.before(a));
        assert_eq!(b - a, 20);
        assert_eq!(a + 20, b);
        assert_eq!(a.max(b), b);
        assert!(a.at_or_before(a) && !a.before(a));
    }
}
