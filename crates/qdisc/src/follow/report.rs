//! Report of a shaper that follows its link, for status and pages.

use narrows_units::Duration;

use super::sides::LinkSide;

/// Cause by which the packets that leave are bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "json::Told", from = "json::Said"))]
pub enum FollowPhase {
    /// Nothing waits here: nothing is changed.
    #[default]
    Idle,
    /// No queue stands on either side yet: the side of the slow link is not known.
    Finding,
    /// The link has not been full yet: twice as much is tried in each round trip.
    Searching,
    /// The link is full, and the packets that leave follow the link's rate.
    Following,
    /// Little is sent, to measure the round trip without a queue.
    Draining,
    /// Acknowledgments have not come for long.
    Silent,
    /// The queue before the link does not get shorter by what is held back: packets are not held back.
    Open,
    /// No packet under way can be acknowledged: packets are not held back.
    Blind,
}

#[cfg(feature = "serde")]
mod json {
    use super::FollowPhase;

    /// Words of a report.
    #[derive(serde::Serialize)]
    pub struct Told {
        phase: &'static str,
        why: &'static str,
    }

    /// The part of them that is read.
    #[derive(serde::Deserialize)]
    pub struct Said {
        phase: String,
    }

    impl From<FollowPhase> for Told {
        fn from(phase: FollowPhase) -> Self {
            Self { phase: phase.name(), why: phase.why() }
        }
    }

    impl From<Said> for FollowPhase {
        /// A phase of another version reads as idle.
        fn from(said: Said) -> Self {
            Self::ALL.into_iter().find(|phase| phase.name() == said.phase).unwrap_or_default()
        }
    }
}

impl FollowPhase {
    /// All phases.
    pub const ALL: [Self; 8] = [
        Self::Idle,
        Self::Finding,
        Self::Searching,
        Self::Following,
        Self::Draining,
        Self::Silent,
        Self::Open,
        Self::Blind,
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Finding => "finding",
            Self::Searching => "searching",
            Self::Following => "following",
            Self::Draining => "draining",
            Self::Silent => "silent",
            Self::Open => "open",
            Self::Blind => "blind",
        }
    }

    /// Meaning of the state, in a sentence for status and pages.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::Idle => "nothing waits here: nothing is learnt or changed",
            Self::Finding => "no queue stands before the box or behind it: nothing is held back",
            Self::Searching => "the link has not been full yet: more is tried in each round trip",
            Self::Following => "the link is full: what comes across lets the next packets go",
            Self::Draining => "little is sent for a round trip, to see how long the way is",
            Self::Silent => {
                "nothing comes back: an outage, or all is lost; two packets are tried now and then"
            }
            Self::Open => {
                "the queue before the link stays whatever is held back, as where others share it: nothing is held back"
            }
            Self::Blind => "nothing that passes tells when it is across: it is not held back",
        }
    }
}

/// Packets that told how long the queue before the box is, where the link is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FollowSignals {
    /// Packets by which a round trip on the far side ended.
    pub round_trips: u64,
    /// Packets that told by the clocks of their senders.
    pub clocks: u64,
}

/// State of a shaper: the shaper's beliefs about the link, and the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FollowReport {
    /// Rate of the link, an average over some seconds, or that of the settings until one is found; bit/s.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub rate_bps: u64,
    /// Rate of the link as found; `None` before the first round trip; bit/s.
    #[cfg_attr(feature = "serde", serde(rename = "rate_bps"))]
    pub found_bps: Option<u64>,
    /// Side of the box on which the link lies; `None` while the side is unknown.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub side: Option<LinkSide>,
    /// Cause by which the packets that leave are bounded.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub phase: FollowPhase,
    /// Shortest round trip behind the box, or on the far side of a link before it, if one was seen.
    #[cfg_attr(feature = "serde", serde(rename = "base_s", with = "crate::report::json::maybe_seconds"))]
    pub base: Option<Duration>,
    /// Time by which the last round trip was longer than that of its host without a queue; time in the queue of a link
    /// before the box.
    #[cfg_attr(feature = "serde", serde(rename = "late_s", with = "crate::report::json::seconds"))]
    pub late: Duration,
    /// Bytes under way behind the box; of a link before it, those let go that servers have not answered.
    #[cfg_attr(feature = "serde", serde(rename = "in_flight_bytes"))]
    pub in_flight: u64,
    /// Bytes that may be under way while no forecast is made.
    #[cfg_attr(feature = "serde", serde(rename = "window_bytes"))]
    pub window: u64,
    /// Packets that were sent again after a loss behind the box.
    pub lost: u64,
    /// Signals of the link's queue; `None` where the link is behind the box.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub signals: Option<FollowSignals>,
}
