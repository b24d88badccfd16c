//! Settings as text: each discipline lists its keys once, with place, range and meaning, and command line, TOML,
//! scenario files and documents read that list.

use core::fmt::{self, Write as _};

use narrows_units::{Bytes, Duration};

use crate::{ShaperConfig, SpecError};

/// A share or a probability in parts per million, so that no float decides about a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppm(pub u32);

impl Ppm {
    /// One: all of it.
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
    /// This many packets.
    Packets(u32),
}

impl Buffer {
    /// In packets of `packet` bytes on `link`: B = C * RTT / (8 * S) (TAQ notes, table 2.8), never below four, because a
    /// buffer of one or two turns every pair of packets into a loss.
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

/// The settings of one discipline.
pub trait Settings: Clone + Default + PartialEq + fmt::Debug + 'static {
    /// The discipline's name.
    const NAME: &'static str;
    /// The key a bare word sets, as in `taq:paper`.
    const BARE: &'static str;

    /// Every key, in the order of the documents.
    fn keys() -> &'static [Key<Self>];

    /// Combinations that make no sense although each value is within its range.
    ///
    /// # Errors
    /// Names the key to change.
    fn check(&self) -> Result<(), SpecError> {
        Ok(())
    }

    /// The key of this name.
    #[must_use]
    fn key(name: &str) -> Option<&'static Key<Self>> {
        Self::keys().iter().find(|k| k.name == name)
    }

    /// Sets one key from text.
    ///
    /// # Errors
    /// If there is no such key, or the value is outside its range; the setting is then as it was.
    fn set(&mut self, key: &str, value: &str) -> Result<(), SpecError> {
        let known = Self::key(key).ok_or_else(|| {
            let names: Vec<_> = Self::keys().iter().map(|k| k.name).collect();
            SpecError {
                key: key.to_owned(),
                value: value.to_owned(),
                expected: format!("a key of {}: {}", Self::NAME, names.join(", ")),
            }
        })?;
        known.set(self, value)
    }

    /// The settings in `text`, as `key=value,key=value`; the rest have their defaults.
    ///
    /// # Errors
    /// If a key is unknown, a value is outside its range, or they do not go together.
    fn read(text: &str) -> Result<Self, SpecError> {
        let mut config = Self::default();
        for setting in text.split(',').map(str::trim).filter(|s| !s.is_empty()) {
            match setting.split_once('=') {
                Some((key, value)) => config.set(key.trim(), value)?,
                None => config.set(Self::BARE, setting)?,
            }
        }
        config.check()?;
        Ok(config)
    }

    /// The keys that differ from their defaults, as `key=value,key=value`.
    #[must_use]
    fn differences(&self) -> String {
        let plain = Self::default();
        let changed: Vec<_> = Self::keys()
            .iter()
            .filter(|k| k.value(self) != k.value(&plain))
            .map(|k| format!("{}={}", k.name, k.value(self)))
            .collect();
        changed.join(",")
    }

    /// The keys as `--help` shows them.
    #[must_use]
    fn help() -> String {
        let plain = Self::default();
        Self::keys().iter().fold(String::new(), |mut text, k| {
            let _ = writeln!(text, "  {:<20} {} [{}; {}]", k.name, k.doc, k.value(&plain), k.range());
            text
        })
    }

    /// The keys as a table in Markdown, for the documents.
    #[must_use]
    fn markdown() -> String {
        let plain = Self::default();
        let mut text = String::from("| key | default | range | meaning |\n|---|---|---|---|\n");
        for k in Self::keys() {
            text += &format!("| `{}` | {} | {} | {} |\n", k.name, k.value(&plain), k.range(), k.doc);
        }
        text
    }
}

/// One key of the settings `C`.
pub struct Key<C> {
    /// Its name, the same on a command line, in TOML and in scenario files.
    pub name: &'static str,
    /// What it means, in one line.
    pub doc: &'static str,
    pub(crate) slot: for<'a> fn(&'a mut C) -> Slot<'a>,
}

impl<C> fmt::Debug for Key<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A value chosen from a few words.
pub(crate) trait Choice {
    /// The words.
    fn words(&self) -> &'static [&'static str];
    /// Which of them it is.
    fn chosen(&self) -> usize;
    /// Makes it the one at `place`.
    fn choose(&mut self, place: usize);
}

/// Lists the words of an enumeration: `choices!(Mode: "default" => Default, "paper" => Paper);`.
macro_rules! choices {
    ($kind:ty: $($word:literal => $value:ident),+ $(,)?) => {
        impl $crate::keys::Choice for $kind {
            fn words(&self) -> &'static [&'static str] {
                &[$($word),+]
            }
            fn chosen(&self) -> usize {
                [$(Self::$value),+].iter().position(|v| v == self).unwrap_or(0)
            }
            fn choose(&mut self, place: usize) {
                *self = [$(Self::$value),+][place];
            }
        }
    };
}
pub(crate) use choices;

impl Choice for bool {
    fn words(&self) -> &'static [&'static str] {
        &["on", "off"]
    }
    fn chosen(&self) -> usize {
        usize::from(!*self)
    }
    fn choose(&mut self, place: usize) {
        *self = place == 0;
    }
}

/// Where a key's value lives, with its range.
pub(crate) enum Slot<'a> {
    /// One of a few words.
    Choice(&'a mut dyn Choice),
    Number(&'a mut u32, u32, u32),
    Part(&'a mut Ppm, u32, u32),
    /// Given in seconds, or with a unit.
    Time(&'a mut Duration, Duration, Duration),
    /// Given in milliseconds.
    Millis(&'a mut Duration, u64, u64),
    Size(&'a mut Bytes, u64, u64),
    Buffer(&'a mut Buffer),
}

/// Buffers in multiples of one round-trip time: 0.5 to 4, in thousandths (TAQ notes, table 2.8).
const BUFFER_RTTS: (u32, u32) = (500, 4000);
/// Buffers in packets: what fits in memory.
const BUFFER_PACKETS: (u32, u32) = (1, 1_000_000);

/// The list of keys of a `Config`: `keys! { Config; name: Kind(range...), "meaning"; ... }`.
macro_rules! keys {
    ($config:ty; $($name:ident: $kind:ident($($range:expr),*), $doc:literal;)*) => {
        static KEYS: &[$crate::keys::Key<$config>] = &[
            $($crate::keys::Key {
                name: stringify!($name),
                doc: $doc,
                slot: |c| $crate::keys::Slot::$kind(&mut c.$name, $($range),*),
            },)*
        ];
    };
}
pub(crate) use keys;

impl<C: Settings> Key<C> {
    /// The value in `config`, as [`Settings::set`] reads it.
    #[must_use]
    pub fn value(&self, config: &C) -> String {
        let mut c = config.clone();
        match (self.slot)(&mut c) {
            Slot::Choice(v) => v.words()[v.chosen()].to_owned(),
            Slot::Number(v, ..) => v.to_string(),
            Slot::Part(v, ..) => v.to_string(),
            Slot::Time(v, ..) => time(*v),
            Slot::Millis(v, ..) => v.as_millis().to_string(),
            Slot::Size(v, ..) => v.get().to_string(),
            Slot::Buffer(Buffer::Rtts(milli)) => format!("{}x", Ppm(*milli * 1000)),
            Slot::Buffer(Buffer::Packets(n)) => n.to_string(),
        }
    }

    /// What values are allowed, in words.
    #[must_use]
    pub fn range(&self) -> String {
        let mut c = C::default();
        match (self.slot)(&mut c) {
            Slot::Choice(v) => v.words().join(" or "),
            Slot::Number(_, low, high) => format!("{low} to {high}"),
            Slot::Part(_, low, high) => format!("{} to {}", Ppm(low), Ppm(high)),
            Slot::Time(_, low, high) => format!("{} to {}", time(low), time(high)),
            Slot::Millis(_, low, high) => format!("{low} to {high}"),
            Slot::Size(_, low, high) => format!("{low} to {high}"),
            Slot::Buffer(_) => {
                let part = |milli: u32| Ppm(milli * 1000);
                format!(
                    "{}x to {}x, or {} to {} packets",
                    part(BUFFER_RTTS.0),
                    part(BUFFER_RTTS.1),
                    BUFFER_PACKETS.0,
                    BUFFER_PACKETS.1
                )
            }
        }
    }

    pub(crate) fn set(&self, config: &mut C, value: &str) -> Result<(), SpecError> {
        let text = value.trim();
        let done = match (self.slot)(config) {
            Slot::Choice(v) => v.words().iter().position(|w| *w == text).map(|at| v.choose(at)),
            Slot::Number(v, low, high) => put(v, text.parse().ok().filter(|n| (low..=high).contains(n))),
            Slot::Part(v, low, high) => {
                put(v, millionths(text).filter(|n| (low..=high).contains(n)).map(Ppm))
            }
            Slot::Time(v, low, high) => put(v, read_time(text).filter(|t| (low..=high).contains(t))),
            Slot::Millis(v, low, high) => {
                let ms = text.parse().ok().filter(|n| (low..=high).contains(n));
                put(v, ms.map(Duration::from_millis))
            }
            Slot::Size(v, low, high) => {
                put(v, text.parse().ok().filter(|n| (low..=high).contains(n)).map(Bytes))
            }
            Slot::Buffer(v) => put(v, read_buffer(text)),
        };
        done.ok_or_else(|| SpecError {
            key: self.name.to_owned(),
            value: value.to_owned(),
            expected: self.range(),
        })
    }
}

fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

/// A decimal number of at most six places, in millionths.
fn millionths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && part.is_empty()) || !digits(whole) || !digits(part) || part.len() > 6 {
        return None;
    }
    let whole: u32 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: u32 = format!("{part:0<6}").parse().ok()?;
    whole.checked_mul(1_000_000)?.checked_add(part)
}

/// `3`, `3s`, `0.2`, `200ms`.
fn read_time(text: &str) -> Option<Duration> {
    let (number, micros) = match text.strip_suffix("ms") {
        Some(n) => (n, 1_000),
        None => (text.strip_suffix('s').unwrap_or(text), 1_000_000),
    };
    let n = u64::from(millionths(number)?);
    Some(Duration::from_nanos(n.checked_mul(micros)? / 1_000))
}

fn time(t: Duration) -> String {
    let (ms, part) = (t.as_millis(), t.as_nanos() % 1_000_000);
    match (ms % 1000, part) {
        (0, 0) => format!("{}s", ms / 1000),
        (_, 0) => format!("{ms}ms"),
        _ => format!("{ms}.{}ms", format!("{part:06}").trim_end_matches('0')),
    }
}

fn read_buffer(text: &str) -> Option<Buffer> {
    if let Some(times) = text.strip_suffix('x') {
        let milli = millionths(times)? / 1000;
        return (BUFFER_RTTS.0..=BUFFER_RTTS.1).contains(&milli).then_some(Buffer::Rtts(milli));
    }
    let n: u32 = text.parse().ok()?;
    (BUFFER_PACKETS.0..=BUFFER_PACKETS.1).contains(&n).then_some(Buffer::Packets(n))
}
