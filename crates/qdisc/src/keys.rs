//! Settings as text: what a discipline's keys need beside what `narrows-settings` has.

use core::fmt;

pub(crate) use narrows_settings::choices;
use narrows_units::{Bytes, Duration};

use crate::ShaperConfig;

/// A share or a probability in parts per million, so that no float decides about a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppm(pub u32);

impl Ppm {
    /// A share of one: the whole.
    pub const ONE: Self = Self(1_000_000);

    /// This share of `n`, rounded down.
    #[must_use]
    pub const fn of(self, n: u64) -> u64 {
        (n as u128 * self.0 as u128 / 1_000_000) as u64
    }
}

impl fmt::Display for Ppm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if part == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{part:06}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

/// Size of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// A multiple of what the link sends in one round-trip time, in thousandths.
    Rtts(u32),
    /// A buffer of the number of packets given.
    Packets(u32),
}

impl Buffer {
    /// Size in packets of `packet` bytes on `link`: B = C * RTT / (8 * S) (TAQ notes, table 2.8), never below four,
    /// because a buffer of one or two turns every pair of packets into a loss.
    #[must_use]
    pub fn packets(self, link: &ShaperConfig, rtt: Duration, packet: Bytes) -> usize {
        match self {
            Self::Packets(n) => n as usize,
            Self::Rtts(milli) => {
                let one = link.rate.bdp(rtt).get();
                (one.saturating_mul(u64::from(milli)) / (packet.get() * 1000)).clamp(4, 1_000_000) as usize
            }
        }
    }
}

/// Buffers in multiples of one round-trip time: 0.5 to 4, in thousandths (TAQ notes, table 2.8).
const BUFFER_RTTS: (u32, u32) = (500, 4000);
/// Buffers in packets: what fits in memory.
const BUFFER_PACKETS: (u32, u32) = (1, 1_000_000);

/// The kinds of values that disciplines have.
pub(crate) mod kinds {
    pub(crate) use narrows_settings::kinds::*;
    use narrows_settings::quantity::decimal;
    use narrows_units::Duration;

    use super::{BUFFER_PACKETS, BUFFER_RTTS, Ppm};

    /// A share or a probability, in parts per million.
    pub(crate) struct Part(pub(crate) u32, pub(crate) u32);

    impl ValueKind<Ppm> for Part {
        fn text(&self, value: &Ppm) -> String {
            value.to_string()
        }
        fn range(&self) -> String {
            format!("{} to {}", Ppm(self.0), Ppm(self.1))
        }
        fn read(&self, place: &mut Ppm, text: &str) -> Option<()> {
            put(place, millionths(text).filter(|n| (self.0..=self.1).contains(n)).map(Ppm))
        }
    }

    /// A time, or none.
    pub(crate) struct TimeOrOff(pub(crate) Duration, pub(crate) Duration);

    impl ValueKind<Option<Duration>> for TimeOrOff {
        fn text(&self, value: &Option<Duration>) -> String {
            value.map_or_else(|| "off".to_owned(), |time| Time(self.0, self.1).text(&time))
        }
        fn range(&self) -> String {
            format!("{}, or off", ValueKind::<Duration>::range(&Time(self.0, self.1)))
        }
        fn read(&self, place: &mut Option<Duration>, text: &str) -> Option<()> {
            if text == "off" {
                *place = None;
                return Some(());
            }
            let mut time = Duration::ZERO;
            Time(self.0, self.1).read(&mut time, text)?;
            *place = Some(time);
            Some(())
        }
    }

    /// Size of a buffer.
    pub(crate) struct Buffer();

    impl ValueKind<super::Buffer> for Buffer {
        fn text(&self, value: &super::Buffer) -> String {
            match value {
                super::Buffer::Rtts(milli) => format!("{}x", Ppm(*milli * 1000)),
                super::Buffer::Packets(n) => n.to_string(),
            }
        }
        fn range(&self) -> String {
            let part = |milli: u32| Ppm(milli * 1000);
            let ((low, high), (few, many)) = (BUFFER_RTTS, BUFFER_PACKETS);
            format!("{}x to {}x, or {few} to {many} packets", part(low), part(high))
        }
        fn read(&self, place: &mut super::Buffer, text: &str) -> Option<()> {
            let buffer = match text.strip_suffix('x') {
                Some(times) => {
                    let milli = millionths(times)? / 1000;
                    (BUFFER_RTTS.0..=BUFFER_RTTS.1).contains(&milli).then_some(super::Buffer::Rtts(milli))
                }
                None => number(text, BUFFER_PACKETS.0, BUFFER_PACKETS.1).map(super::Buffer::Packets),
            };
            put(place, buffer)
        }
    }

    fn millionths(text: &str) -> Option<u32> {
        let (whole, part) = decimal(text)?;
        u32::try_from(whole).ok()?.checked_mul(1_000_000)?.checked_add(part)
    }
}

/// The list of keys of a `Config`, with the kinds of values that disciplines have ([`narrows_settings::keys!`]).
macro_rules! keys {
    ($config:ty; $($list:tt)*) => {
        narrows_settings::keys! { [$crate::keys::kinds] $config; $($list)* }
    };
}

pub(crate) use keys;
