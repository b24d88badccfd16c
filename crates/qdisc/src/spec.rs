//! Disciplines named as text, the same on a command line, in a scenario and in a settings file:
//! `fifo:30`, `fifo:45000b`, `taq`, `taq:mode=paper,p_admit=0.08`.

use core::fmt;
use core::str::FromStr;

use narrows_units::Bytes;

use crate::taq::{Config, Taq};
use crate::{Fifo, Limit, Packet, Qdisc, ShaperConfig};

/// A discipline and its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Spec {
    /// Drop-tail.
    Fifo(Limit),
    /// Timeout Aware Queuing.
    Taq(Config),
}

/// Why a text names no discipline, or a setting is impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The key, or the discipline's name.
    pub key: String,
    /// What was given.
    pub value: String,
    /// What would be right.
    pub expected: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = '{}': expected {}", self.key, self.value, self.expected)
    }
}
impl std::error::Error for SpecError {}

impl Spec {
    /// The discipline's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fifo(_) => "fifo",
            Self::Taq(_) => "taq",
        }
    }

    /// Builds the discipline for a link; `seed` is for hashing and tie-breaks.
    #[must_use]
    pub fn build<P: Packet + Send + 'static>(
        &self,
        link: &ShaperConfig,
        seed: u64,
    ) -> Box<dyn Qdisc<P> + Send> {
        match self {
            Self::Fifo(limit) => Box::new(Fifo::new(*limit)),
            Self::Taq(config) => Box::new(Taq::new(*config, *link, seed)),
        }
    }
}

impl fmt::Display for Spec {
    /// As [`Spec::from_str`] reads it; settings that have their default are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo(Limit::Packets(n)) => write!(f, "fifo:{n}"),
            Self::Fifo(Limit::Bytes(b)) => write!(f, "fifo:{}b", b.get()),
            Self::Taq(config) => match config.differences().as_str() {
                "" => f.write_str("taq"),
                settings => write!(f, "taq:{settings}"),
            },
        }
    }
}

impl FromStr for Spec {
    type Err = SpecError;
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        match name.trim() {
            "fifo" => fifo_limit(settings.trim()).map(Self::Fifo),
            "taq" => taq_config(settings).map(Self::Taq),
            _ => Err(SpecError {
                key: "discipline".to_owned(),
                value: name.to_owned(),
                expected: "one of fifo, taq".to_owned(),
            }),
        }
    }
}

fn taq_config(text: &str) -> Result<Config, SpecError> {
    let mut config = Config::default();
    for setting in text.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        match setting.split_once('=') {
            Some((key, value)) => config.set(key.trim(), value)?,
            // A bare word is a mode: `taq:paper`.
            None => config.set("mode", setting)?,
        }
    }
    config.check()?;
    Ok(config)
}

fn fifo_limit(text: &str) -> Result<Limit, SpecError> {
    let wrong = || SpecError {
        key: "fifo".to_owned(),
        value: text.to_owned(),
        expected: "a limit above 0 in packets or bytes, as fifo:30 or fifo:45000b".to_owned(),
    };
    let (digits, bytes) = text.strip_suffix('b').map_or((text, false), |d| (d, true));
    match digits.parse::<u32>() {
        Ok(n) if n > 0 && bytes => Ok(Limit::Bytes(Bytes(u64::from(n)))),
        Ok(n) if n > 0 => Ok(Limit::Packets(n as usize)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_what_is_wrong_with_them() {
        assert_eq!("fifo:30".parse(), Ok(Spec::Fifo(Limit::Packets(30))));
        assert_eq!("fifo:45000b".parse(), Ok(Spec::Fifo(Limit::Bytes(Bytes(45_000)))));
        assert_eq!("taq".parse(), Ok(Spec::Taq(Config::default())));
        assert_eq!("taq:paper".parse(), Ok(Spec::Taq(Config::paper())));
        assert_eq!("taq: mode=paper ,".parse(), Ok(Spec::Taq(Config::paper())));
        for text in ["fifo:30", "fifo:45000b", "taq", "taq:mode=paper,p_admit=0.08,rtt=50ms"] {
            assert_eq!(text.parse::<Spec>().map(|s| s.to_string()).as_deref(), Ok(text));
        }
        for (wrong, key) in [("taq:papre", "mode"), ("taq:p_admit=0.5", "p_admit"), ("taq:q=1", "q")] {
            assert_eq!(wrong.parse::<Spec>().unwrap_err().key, key);
        }
        for wrong in ["fifo", "fifo:0", "fifo:-1", "fifo:x", "codle"] {
            let e = wrong.parse::<Spec>().unwrap_err();
            assert!(e.to_string().contains("expected"), "{e}");
        }
    }
}
