//! Sizes and rates, and the three products of them that mean something.
//!
//! Sums and differences of sizes saturate, as those of times do: a size is never negative, and a total that is too
//! large stays at the greatest number there is. Neither wraps round to a size that nobody ever counted.

use core::fmt;
use core::ops::{Sub, SubAssign};
use core::str::FromStr;

use crate::Duration;

/// A size in bytes. `+` and `-` saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bytes(pub u64);

/// A rate in bits per second. A rate is never zero, because nothing could be sent at such a rate in any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

const NANOS: u128 = 1_000_000_000;

impl Bytes {
    /// Size of no bytes.
    pub const ZERO: Self = Self(0);
    /// The number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Subtracts as `self - other` does, zero at the least, where a constant is computed.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

saturating_sum!(Bytes);
impl Sub for Bytes {
    type Output = Self;
    /// The difference, or zero where `o` is larger.
    fn sub(self, o: Self) -> Self {
        self.saturating_sub(o)
    }
}
impl SubAssign for Bytes {
    fn sub_assign(&mut self, o: Self) {
        *self = *self - o;
    }
}

impl Rate {
    /// Makes a rate from bits per second; a rate of zero becomes one bit per second.
    #[must_use]
    pub const fn from_bps(bps: u64) -> Self {
        Self(if bps == 0 { 1 } else { bps })
    }
    /// Makes a rate from kilobits per second (1000 bits).
    #[must_use]
    pub const fn from_kbps(kbps: u64) -> Self {
        Self::from_bps(kbps.saturating_mul(1_000))
    }
    /// Bits per second.
    #[must_use]
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Time to send `size`, rounded up, so that nothing ever leaves early.
    #[must_use]
    pub const fn time_to_send(self, size: Bytes) -> Duration {
        // 64 bits suffice up to 2 GB, so for every packet; a division of 128 bits takes several times as long.
        if let Some(bits) = size.0.checked_mul(8 * NANOS as u64) {
            return Duration::from_nanos(bits.div_ceil(self.0));
        }
        let ns = (size.0 as u128 * 8 * NANOS).div_ceil(self.0 as u128);
        Duration::from_nanos(if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 })
    }
    /// How many bytes can be sent in `time`, rounded down.
    #[must_use]
    pub const fn bytes_in(self, time: Duration) -> Bytes {
        let b = self.0 as u128 * time.as_nanos() as u128 / (8 * NANOS);
        Bytes(if b > u64::MAX as u128 { u64::MAX } else { b as u64 })
    }
    /// The bandwidth-delay product of a path with round-trip time `rtt`, rounded down.
    #[must_use]
    pub const fn bdp(self, rtt: Duration) -> Bytes {
        self.bytes_in(rtt)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b if b >= 1_000_000_000 && b % 1_000_000_000 == 0 => write!(f, "{}gbit", b / 1_000_000_000),
            b if b >= 1_000_000 && b % 1_000_000 == 0 => write!(f, "{}mbit", b / 1_000_000),
            b if b >= 1_000 && b % 1_000 == 0 => write!(f, "{}kbit", b / 1_000),
            b => write!(f, "{b}bit"),
        }
    }
}

/// The text is not a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRateError(String);

/// Splits a text into its number and its unit.
fn split(text: &str) -> (&str, &str) {
    let (number, unit) =
        text.split_at(text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len()));
    (number, unit.trim())
}

impl fmt::Display for ParseRateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.trim();
        write!(f, "'{text}' is not a rate: ")?;
        let lower = text.to_ascii_lowercase();
        let (number, unit) = split(&lower);
        match number.parse::<f64>() {
            Ok(0.0) => f.write_str("nothing is sent at 0: leave it out where nothing is to be shaped"),
            Ok(_) if unit.is_empty() => {
                write!(f, "expected a unit: {number}kbit, as sqm means it, {number}mbit or {number}bit")
            }
            // With tc `bps` is bytes; contracts and MikroTik mean bits by it.
            Ok(_) if matches!(unit, "bps" | "kbps" | "mbps" | "gbps") => {
                let meant = unit.trim_end_matches("bps");
                write!(f, "tc reads {unit} as bytes: write {number}{meant}bit if bits are meant")
            }
            Ok(_) if matches!(unit, "kb" | "mb" | "gb" | "kb/s" | "mb/s" | "gb/s") => {
                write!(f, "bits or bytes? Write {number}{}bit if bits are meant", &unit[..1])
            }
            Ok(_) if unit.starts_with(',') => {
                write!(f, "expected a point for the comma: {number}.{}", unit[1..].trim_start())
            }
            _ => {
                f.write_str("expected a number above 0 and a unit, as in 600kbit, 2mbit, 1.5mbit or 64000bit")
            }
        }
    }
}
impl std::error::Error for ParseRateError {}

impl FromStr for Rate {
    type Err = ParseRateError;
    /// Reads `600kbit`, `2mbit`, `1.5mbit`, `64000bit`, `1gbit` as `tc` writes them, `2 Mbit/s` as contracts do and
    /// `2M` as MikroTik does.
    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let wrong = || ParseRateError(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let (number, unit) = split(&lower);
        let scale = match unit.strip_suffix("/s").filter(|bits| bits.contains("bit")).unwrap_or(unit) {
            "bit" | "bits" => 1.0,
            "k" | "kbit" | "kbits" => 1e3,
            "m" | "mbit" | "mbits" => 1e6,
            "g" | "gbit" | "gbits" => 1e9,
            _ => return Err(wrong()),
        };
        let bps = number.parse::<f64>().map_err(|_| wrong())? * scale;
        // 1 Tbit/s: beyond any link this is for, and far inside u64.
        if !(1.0..=1e12).contains(&bps) {
            return Err(wrong());
        }
        Ok(Self::from_bps(bps.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_on_a_thin_link_by_hand() {
        // 1500 B at 600 kbit/s: 12 000 bit / 600 000 bit/s = 20 ms.
        let rate = Rate::from_kbps(600);
        assert_eq!(rate.time_to_send(Bytes(1500)), Duration::from_millis(20));
        // 1 B at 3 bit/s: 8/3 s, rounded up to the next nanosecond.
        assert_eq!(Rate::from_bps(3).time_to_send(Bytes(1)).as_nanos(), 2_666_666_667);
        assert_eq!(rate.bdp(Duration::from_millis(200)), Bytes(15_000));
        assert_eq!(Rate::from_bps(3).bytes_in(Duration::from_nanos(2_666_666_666)), Bytes(0));
    }

    #[test]
    fn what_is_sent_in_the_time_to_send_is_the_size() {
        // Up to one byte per nanosecond; above it the clock is coarser than a byte.
        for bps in [1, 7, 64_000, 600_000, 1_000_000_007, 8_000_000_000] {
            for size in [1u64, 40, 577, 1500, 65_535] {
                let rate = Rate::from_bps(bps);
                assert_eq!(rate.bytes_in(rate.time_to_send(Bytes(size))), Bytes(size), "{bps} {size}");
            }
        }
    }

    #[test]
    fn sums_and_differences_of_sizes_saturate() {
        let (small, large) = (Bytes(40), Bytes(1500));
        assert_eq!((large + small, large - small), (Bytes(1540), Bytes(1460)));
        assert_eq!(small - large, Bytes::ZERO);
        assert_eq!(Bytes(u64::MAX - 1) + large, Bytes(u64::MAX));
        let mut size = small;
        size -= large;
        assert_eq!(size, Bytes::ZERO);
        size += Bytes(u64::MAX);
        size += small;
        assert_eq!(size, Bytes(u64::MAX));
        assert_eq!(small.saturating_sub(large), small - large);
    }

    #[test]
    fn rates_as_tc_writes_them() {
        assert_eq!("600kbit".parse(), Ok(Rate::from_kbps(600)));
        assert_eq!("1.5Mbit".parse(), Ok(Rate::from_kbps(1500)));
        assert_eq!(
            "2mbps".parse::<Rate>().map(Rate::as_bps).ok(),
            None,
            "tc reads mbps as bytes; we refuse to guess"
        );
        for wrong in [
            "",
            "600",
            "kbit",
            "0kbit",
            "-1mbit",
            "1e99gbit",
            "nanbit",
            "9999999gbit",
            "1e3kbit",
            "2ms",
            "2mbps",
            "2M/s",
        ] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
        assert_eq!(Rate::from_kbps(1500).to_string(), "1500kbit");
    }

    #[test]
    fn rates_as_people_write_them() {
        for text in ["2mbit", "2 Mbit", "2Mbit/s", "2 mbits/s", "2.0 MBIT", "2M", "2000k", " 2000 kbit "] {
            assert_eq!(text.parse(), Ok(Rate::from_kbps(2000)), "{text}");
        }
        for (text, remedy) in [
            ("600", "expected a unit: 600kbit, as sqm means it, 600mbit or 600bit"),
            ("0", "nothing is sent at 0: leave it out"),
            ("0kbit", "nothing is sent at 0: leave it out"),
            ("1,5mbit", "expected a point for the comma: 1.5mbit"),
            ("2Mbps", "tc reads mbps as bytes: write 2mbit if bits are meant"),
            ("2 MB/s", "bits or bytes? Write 2mbit if bits are meant"),
            ("999999gbit", "expected a number above 0 and a unit"),
            ("fast", "expected a number above 0 and a unit, as in 600kbit"),
        ] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains(&format!("'{text}' is not a rate: {remedy}")), "{error}");
        }
    }
}
