//! Report of a shaper that follows its link, for people.

use narrows_units::Duration;

/// Cause by which the packets that leave are bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FollowPhase {
    /// Nothing waits here: nothing is changed.
    #[default]
    Idle,
    /// The link has not been full yet: twice as much is tried in each round trip.
    Searching,
    /// The link is full, and what leaves follows it.
    Following,
    /// Little is sent, to measure the round trip without a queue.
    Draining,
    /// Acknowledgments have not come for long.
    Silent,
    /// No packet under way can be acknowledged: packets are not held back.
    Blind,
}

impl FollowPhase {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Searching => "searching",
            Self::Following => "following",
            Self::Draining => "draining",
            Self::Silent => "silent",
            Self::Blind => "blind",
        }
    }

    /// The meaning, for people.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::Idle => "nothing waits here: nothing is learnt or changed",
            Self::Searching => "the link has not been full yet: more is tried in each round trip",
            Self::Following => "the link is full: what comes across lets the next packets go",
            Self::Draining => "little is sent for a round trip, to see how long the way is",
            Self::Silent => {
                "nothing comes back: an outage, or all is lost; two packets are tried now and then"
            }
            Self::Blind => "nothing that passes tells when it is across: it is not held back",
        }
    }
}

/// State of a shaper: its beliefs about the link, and the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowReport {
    /// Rate of the link, an average over some seconds; bit/s.
    pub rate_bps: u64,
    /// Cause by which the packets that leave are bounded.
    pub phase: FollowPhase,
    /// Shortest round trip behind the box, if one was seen.
    pub base: Option<Duration>,
    /// Time by which the last round trip was longer than that of its host without a queue.
    pub late: Duration,
    /// Bytes under way.
    pub in_flight: u64,
    /// Bytes that may be under way while no forecast is made.
    pub window: u64,
    /// Packets that were sent again after a loss behind the box.
    pub lost: u64,
}
