//! Settings of the start-ups. Each start-up reads its own; what they do is in `startup/`.

use narrows_units::Duration;

/// Growth of the window once B-TCP's cwnd has reached the mice threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BurstAfter {
    /// Slow start up to ssthresh, as in the dissertation.
    #[default]
    SlowStart,
    /// Congestion avoidance, as ssthresh is set to cwnd: the smooth transition of which the dissertation speaks.
    Avoidance,
}

/// How B-TCP's step is rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BurstStep {
    /// The pseudo-code: the step per round trip is whole and at least 1. Above the threshold, where the pseudo-code
    /// would shrink the window, each ACK adds a segment, as in slow start.
    #[default]
    Guarded,
    /// The dissertation's ns-2 code: a step per ACK of 0 becomes 1, and above the threshold steps are negative.
    Ns2,
}

/// Settings of the start-ups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartConfig {
    /// The round-trip time to assume if no handshake measures one; zero for none.
    pub rtt: Duration,
    /// The factor by which the window grows per round trip in plain slow start.
    pub base: f64,
    /// B-TCP's f.
    pub burst_f: u32,
    /// B-TCP's mice threshold, segments.
    pub mice_threshold: u32,
    /// Growth of the window once B-TCP's cwnd has reached the mice threshold.
    pub burst_after: BurstAfter,
    /// How B-TCP's step is rounded.
    pub burst_step: BurstStep,
    /// Initial Spreading sends the window at once if its segments would leave closer together than this.
    pub spread_floor: Duration,
    /// Limited slow start's `max_ssthresh`, segments.
    pub max_ssthresh: u32,
    /// Smooth Start begins at ssthresh / 2^depth.
    pub smooth_depth: u32,
    /// The number of Smooth Start's parts from there to ssthresh.
    pub smooth_grain: u32,
    /// Gallop-Vegas ends start-up with more segments of its own in the queue.
    pub gallop_gamma: u32,
}

impl StartConfig {
    /// The values of the sources; each value stands beside the start-up that has it.
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
