//! Links whose rate changes: how much a link carries at which time, and the shaper at its entrance.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use narrows_qdisc::follow::{FollowConfig, LinkRate};
use narrows_units::{Bytes, Duration, Rate};

/// Bytes that may pass at an opportunity of a trace.
pub const OPPORTUNITY: Bytes = Bytes(1500);
/// Most opportunities of a trace: a day at 10 Mbit/s.
const MOST: usize = 80_000_000;

/// When a link's transmitter sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Always, at the link's rate.
    #[default]
    Constant,
    /// Rates, each from its time on; the first also before its time. 1 bit/s stands for nothing.
    Steps(Arc<[(Duration, Rate)]>),
    /// Opportunities of a trace.
    Trace(Arc<DeliveryTrace>),
}

/// Times at which a packet may leave, as mahimahi records them: a line is a millisecond at which 1500 bytes may pass,
/// lines repeat, and what is told begins again at the last line's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryTrace {
    /// Name of the file, as in the scenario.
    pub name: String,
    /// Milliseconds, ascending.
    opportunities: Box<[u32]>,
}

impl DeliveryTrace {
    /// Reads a trace; an error is the end of a sentence about the file.
    ///
    /// # Errors
    /// Names the line and what was expected there.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut opportunities: Vec<u32> = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |expected: &str| format!("line {number} is '{}': expected {expected}", line.trim());
            let at = line.trim().parse().map_err(|_| wrong("a time in milliseconds, as 1250"))?;
            if opportunities.last().is_some_and(|last| *last > at) {
                return Err(wrong("times that do not decrease"));
            }
            if opportunities.len() == MOST {
                return Err(wrong("at most 80 million lines"));
            }
            opportunities.push(at);
        }
        if opportunities.last().is_none_or(|last| *last == 0) {
            return Err("it has no time above 0: expected milliseconds, one a line".to_owned());
        }
        Ok(Self { name: name.to_owned(), opportunities: opportunities.into() })
    }

    /// The times of one round, milliseconds, ascending.
    #[must_use]
    pub fn opportunities(&self) -> &[u32] {
        &self.opportunities
    }

    /// Duration of a round.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_millis(u64::from(self.opportunities.last().copied().unwrap_or(1)))
    }

    /// Mean rate over a round.
    #[must_use]
    pub fn mean(&self) -> Rate {
        let bits = self.opportunities.len() as u64 * OPPORTUNITY.get() * 8;
        Rate::from_bps(bits.saturating_mul(1000) / self.period().as_millis().max(1))
    }
}

/// Shaper at the entrance of a link, before the queue's discipline.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Shaping {
    /// No shaper.
    #[default]
    None,
    /// A fixed rate.
    Static(Rate),
    /// Static rate in hundredths of the mean of the trace, or of the first rate, of the link behind.
    Mean(u32),
    /// The rate of the link behind in each second, known beforehand.
    Known,
    /// A part, in hundredths, of the rate that the link behind had a loop's delay ago.
    Late(u32),
    /// A rate that a controller sets, which follows the rate of the link behind ([`narrows_qdisc::follow`]).
    Auto(Box<FollowConfig>),
    /// A rate by the rule of cake-autorate, which knows the delay of a ping through the queue of the link behind.
    Autorate,
}

const SHAPINGS: &str = "none, a rate, mean or mean/2 of the link behind, known, late or late:90, auto, \
                         auto:SETTINGS, or cake-autorate";

impl FromStr for Shaping {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(part) = text.strip_prefix("late:") {
            let hundredths = part.parse().ok().filter(|h| (1..=200).contains(h)).map(Self::Late);
            return hundredths.ok_or_else(|| "late: expected hundredths, 1 to 200, as late:90".to_owned());
        }
        match text {
            "none" => Ok(Self::None),
            "mean" => Ok(Self::Mean(100)),
            "mean/2" => Ok(Self::Mean(50)),
            "known" => Ok(Self::Known),
            "late" => Ok(Self::Late(100)),
            "cake-autorate" => Ok(Self::Autorate),
            _ => match text.parse() {
                Ok(LinkRate::Fixed(rate)) => Ok(Self::Static(rate)),
                Ok(LinkRate::Auto(follow)) => Ok(Self::Auto(Box::new(follow))),
                Err(problem) if text.starts_with("auto:") => Err(problem),
                Err(_) => Err(SHAPINGS.to_owned()),
            },
        }
    }
}

impl fmt::Display for Shaping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Static(rate) => rate.fmt(f),
            Self::Mean(50) => f.write_str("mean/2"),
            Self::Mean(_) => f.write_str("mean"),
            Self::Known => f.write_str("known"),
            Self::Late(hundredths) => write!(f, "late:{hundredths}"),
            Self::Auto(config) => LinkRate::Auto(**config).fmt(f),
            Self::Autorate => f.write_str("cake-autorate"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_by_hand() {
        // Four opportunities in 100 ms: 6000 B, 480 kbit/s.
        let trace = DeliveryTrace::parse("t", "10\n10\n50\n100\n").unwrap();
        assert_eq!(trace.opportunities(), [10, 10, 50, 100]);
        assert_eq!((trace.mean(), trace.period()), (Rate::from_kbps(480), Duration::from_millis(100)));
        for (text, problem) in [
            ("", "no time above 0"),
            ("0\n", "no time above 0"),
            ("5\n4\n", "line 2 is '4': expected times that do not decrease"),
            ("5\nx\n", "line 2 is 'x': expected a time in milliseconds"),
        ] {
            let error = DeliveryTrace::parse("t", text).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn shapings_read_what_they_write() {
        for text in
            ["none", "600kbit", "mean", "mean/2", "known", "late:80", "auto", "auto:where=before,target=60ms"]
        {
            let shaping: Shaping = text.parse().unwrap();
            assert_eq!(shaping.to_string().parse(), Ok(shaping), "{text}");
        }
    }

    #[test]
    fn shapings_as_text() {
        assert_eq!("600kbit".parse(), Ok(Shaping::Static(Rate::from_kbps(600))));
        assert_eq!("mean/2".parse(), Ok(Shaping::Mean(50)));
        assert_eq!("late".parse(), Ok(Shaping::Late(100)));
        assert_eq!("late:80".parse::<Shaping>().unwrap().to_string(), "late:80");
        assert!("late:0".parse::<Shaping>().unwrap_err().contains("1 to 200"));
        assert!(matches!("auto".parse(), Ok(Shaping::Auto(_))));
        assert!("auto:zzz=1".parse::<Shaping>().unwrap_err().contains("zzz"));
        assert_eq!("autobahn".parse::<Shaping>(), Err(SHAPINGS.to_owned()));
    }
}
