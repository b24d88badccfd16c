//! What the start-ups are set to; each reads its own. What they do is in `startup/`.

use narrows_units::Duration;

/// What follows B-TCP's growth once cwnd has reached the mice threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BurstAfter {
    /// Slow start up to ssthresh: the thesis to the letter.
    #[default]
    SlowStart,
    /// ssthresh is set to cwnd, so congestion avoidance: the smooth transition its text speaks of.
    Avoidance,
}

/// How B-TCP's step is rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BurstStep {
    /// The pseudo-code: the step per round trip is whole and at least 1, and there is none above the threshold.
    #[default]
    Guarded,
    /// The thesis' ns-2 code: the step per ACK is 1 where it would be 0, and negative above the threshold.
    Ns2,
}

/// Settings of the start-ups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartConfig {
    /// The round-trip time that is assumed where no handshake measures one; zero for none.
    pub rtt: Duration,
    /// The factor by which plain slow start grows in a round trip.
    pub base: f64,
    /// B-TCP's f.
    pub burst_f: u32,
    /// B-TCP's mice threshold, segments.
    pub mice_threshold: u32,
    /// B-TCP's hand-over.
    pub burst_after: BurstAfter,
    /// B-TCP's rounding.
    pub burst_step: BurstStep,
    /// Initial Spreading leaves the window whole if its segments would lie closer together.
    pub spread_floor: Duration,
    /// Limited slow start's `max_ssthresh`, segments.
    pub max_ssthresh: u32,
    /// Smooth Start begins at ssthresh / 2^depth.
    pub smooth_depth: u32,
    /// Smooth Start's parts from there to ssthresh.
    pub smooth_grain: u32,
    /// Gallop-Vegas: with more segments of its own queued start-up is over.
    pub gallop_gamma: u32,
}

impl StartConfig {
    /// As the sources have it; each number stands beside its start-up.
    pub(super) const DEFAULT: Self = Self {
        rtt: Duration::ZERO,
        base: 2.0,
        burst_f: 8,
        mice_threshold: 32,
        burst_after: BurstAfter::SlowStart,
        burst_step: BurstStep::Guarded,
        spread_floor: Duration::from_millis(1),
        max_ssthresh: 100,
        smooth_depth: 1,
        smooth_grain: 4,
        gallop_gamma: 1,
    };
}

impl Default for StartConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}
