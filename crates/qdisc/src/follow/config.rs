//! Settings of a shaper that follows its link, and the rate of a link as people write it.

use core::fmt;
use core::str::FromStr;

use narrows_units::{Duration, Rate};

use crate::keys::{choices, keys};
use crate::{SettingError, Settings};

/// Setting of the place of the link whose rate is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkPlace {
    /// Packets enter the link after they leave the box: a modem for what goes up.
    Behind,
    /// Packets come out of it before they enter the box: a dish, a mast or a shared line for what comes down.
    Before,
    /// On the side, before or behind, on which a queue stands.
    #[default]
    Find,
}
choices!(LinkPlace: "behind" => Behind, "before" => Before, "find" => Find);

/// Settings of [`Follow`](super::Follow). Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FollowConfig {
    /// Place of the link, seen in the direction of the packets.
    pub place: LinkPlace,
    /// Least rate of the link, kbit/s.
    pub min: u32,
    /// Greatest rate of the link, kbit/s.
    pub max: u32,
    /// Wait in the modem that the shaper aims at, beside `packets`.
    pub target: Duration,
    /// Packets that the shaper keeps under way beyond what the link carries in its round trip.
    pub packets: f64,
    /// Time over which the link's rate is measured, in times of a full packet.
    pub span: u32,
    /// Shortest time over which the link's rate is measured.
    pub span_min: Duration,
    /// Time for which the link is taken to go on sending while acknowledgments pause.
    pub bridge: Duration,
}

/// Wait in the modem that the shaper aims at, unless the settings say otherwise.
pub(super) const DEFAULT_TARGET: Duration = Duration::from_millis(30);

impl Default for FollowConfig {
    fn default() -> Self {
        Self {
            place: LinkPlace::Find,
            min: 8,
            max: 1_000_000,
            target: DEFAULT_TARGET,
            packets: 0.5,
            span: 8,
            span_min: Duration::from_millis(100),
            bridge: Duration::from_millis(40),
        }
    }
}

keys! {
    FollowConfig;
    where(place): Choice(),
        "place of the link: packets enter it `behind` the box, or come out of it `before` the box, or `find`: where a \
         queue stands";
    min: Number(1, 10_000_000), "least rate of the link, kbit/s";
    max: Number(1, 10_000_000), "greatest rate of the link, kbit/s";
    target: Time(Duration::ZERO, Duration::from_secs(1)),
        "wait in the modem that the shaper aims at, beside `packets`. Before the box, less than 30 ms also lowers what \
         is let go while a queue stands: from half of the link's rate down to .05 at zero";
    packets: Real(0.0, 100.0), "packets that the shaper keeps under way beyond what the link carries in its round trip";
    span: Number(1, 1000), "time over which the link's rate is measured, in times of a full packet";
    span_min: Time(Duration::from_millis(1), Duration::from_secs(10)),
        "shortest time over which the link's rate is measured";
    bridge: Time(Duration::ZERO, Duration::from_secs(1)),
        "time for which the link is taken to go on sending while acknowledgments pause";
}

impl Settings for FollowConfig {
    const NAME: &'static str = "auto";

    fn check(&self) -> Result<(), SettingError> {
        if self.min > self.max {
            let expected = format!("at most max = {}", self.max);
            return Err(SettingError::new("min", self.min.to_string(), expected));
        }
        Ok(())
    }
}

impl FollowConfig {
    /// Least rate of the link.
    #[must_use]
    pub const fn floor(&self) -> Rate {
        Rate::from_kbps(self.min as u64)
    }

    /// Greatest rate of the link.
    #[must_use]
    pub const fn ceiling(&self) -> Rate {
        Rate::from_kbps(self.max as u64)
    }
}

/// Rate that a discipline is told before the link's own is measured.
const UNKNOWN: Rate = Rate::from_kbps(1000);

/// Names of controllers that `auto` once had (docs/decisions/changing-rates.md).
const LEFT: [&str; 4] = ["forecast", "window", "vegas", "rate"];

/// Rate of a link, as a shaper is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkRate {
    /// A number.
    Fixed(Rate),
    /// A rate to be found and followed.
    Auto(FollowConfig),
}

impl LinkRate {
    /// Rate that is assumed before the first packet.
    #[must_use]
    pub fn at_first(&self) -> Rate {
        match self {
            Self::Fixed(rate) => *rate,
            Self::Auto(follow) => UNKNOWN.clamp(follow.floor(), follow.ceiling()),
        }
    }

    /// Settings of the controller, if the rate is followed.
    #[must_use]
    pub const fn follow(&self) -> Option<FollowConfig> {
        match self {
            Self::Fixed(_) => None,
            Self::Auto(follow) => Some(*follow),
        }
    }
}

impl From<Rate> for LinkRate {
    fn from(rate: Rate) -> Self {
        Self::Fixed(rate)
    }
}

impl FromStr for LinkRate {
    type Err = String;
    /// Reads `600kbit`, `auto`, `auto:min=64,max=20000`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        if name.trim() != "auto" {
            return text.parse().map(Self::Fixed).map_err(|e| format!("{e}; or auto"));
        }
        let of_controller = |word: &&str| {
            let (key, value) = word.split_once('=').unwrap_or(("idea", word));
            key.trim() == "idea" && LEFT.contains(&value.trim())
        };
        if let Some(word) = settings.split(',').find(of_controller) {
            return Err(format!("'{}': auto has one controller, the forecast: write auto", word.trim()));
        }
        FollowConfig::read(settings).map(Self::Auto).map_err(|e| e.to_string())
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(rate) => rate.fmt(f),
            Self::Auto(follow) => match follow.differences() {
                same if same.is_empty() => f.write_str("auto"),
                differ => write!(f, "auto:{differ}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_auto() {
        assert_eq!("600kbit".parse(), Ok(LinkRate::Fixed(Rate::from_kbps(600))));
        let auto: LinkRate = "auto:min=64,max=512".parse().unwrap();
        let follow = auto.follow().unwrap();
        assert_eq!((follow.floor(), follow.ceiling()), (Rate::from_kbps(64), Rate::from_kbps(512)));
        assert_eq!(auto.at_first(), Rate::from_kbps(512));
        assert_eq!(auto.to_string(), "auto:min=64,max=512");
        assert_eq!("auto".parse::<LinkRate>().unwrap().to_string(), "auto");
        for (text, words) in [
            ("600", "'600' is not a rate"),
            ("autobahn", "'autobahn' is not a rate"),
            ("autobahn", "; or auto"),
            ("auto:mix=3", "mix"),
            ("auto:min=9,max=8", "at most max = 8"),
        ] {
            let error = text.parse::<LinkRate>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_controller_cannot_be_chosen() {
        for (text, said) in [
            ("auto:rate", "'rate': auto has one controller, the forecast: write auto"),
            ("auto:window,max=2000", "'window': auto has one controller, the forecast: write auto"),
            ("auto:max=2000, idea=vegas", "'idea=vegas': auto has one controller, the forecast: write auto"),
        ] {
            assert_eq!(text.parse::<LinkRate>(), Err(said.to_owned()));
        }
    }
}
