//! What a shaper that follows its link is at.

/// What bounds what leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FollowPhase {
    /// Nothing waits here: nothing is changed.
    #[default]
    Idle,
    /// The link has not been full yet: twice as much is tried in each round trip.
    Searching,
    /// The link is full, and what leaves follows it.
    Following,
    /// Little is sent, to see how long the way is without a queue.
    Draining,
    /// Nothing has come back for long.
    Silent,
    /// Nothing that passes will tell when it has crossed: what leaves is not held back.
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

    /// What it means, for people.
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
