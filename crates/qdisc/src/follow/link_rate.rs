//! The rate of a link as people give it: a number, or that it is to be found.

use core::fmt;
use core::str::FromStr;

use narrows_units::Rate;

use super::FollowConfig;
use crate::Settings as _;

/// What a discipline takes a link for whose rate is still to be found.
const UNKNOWN: Rate = Rate::from_kbps(1000);

/// What a shaper is told of its link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkRate {
    /// It carries so much.
    Fixed(Rate),
    /// It is to be found and followed.
    Auto(FollowConfig),
}

impl LinkRate {
    /// What it is taken for before the first packet.
    #[must_use]
    pub fn at_first(&self) -> Rate {
        match self {
            Self::Fixed(rate) => *rate,
            Self::Auto(follow) => UNKNOWN.clamp(follow.floor(), follow.ceiling()),
        }
    }

    /// How it is followed, if it is.
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
        if name.trim() == "auto" {
            return FollowConfig::read(settings).map(Self::Auto).map_err(|e| e.to_string());
        }
        text.parse().map(Self::Fixed).map_err(|e| format!("{e}; or auto"))
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
}
