//! Settings of the congestion controls. Where only one of them heeds a setting, it says which.

/// Which congestion avoidance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CcKind {
    /// RFC 5681.
    #[default]
    Reno,
    /// Additive increase, multiplicative decrease with any two constants.
    Aimd,
    /// A flow measures how much of its window empties the queue, and takes that (Shorten and Leith).
    AdaptiveAimd,
    /// H-TCP (Leith and Shorten, draft-leith-tcp-htcp-06).
    Htcp,
    /// Westwood+ (Mascolo, Grieco and others).
    Westwood,
    /// Vegas (Brakmo and Peterson 1995).
    Vegas,
    /// RFC 9438.
    Cubic,
}

/// What adaptive AIMD learns its back-off factor from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BetaFrom {
    /// The least and the greatest round-trip time, equation 4.
    #[default]
    Rtt,
    /// Throughput before and after a back-off, equation 10.
    Throughput,
}

/// Towards what adaptive AIMD lets the greatest round-trip time fade at each back-off (equation 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fade {
    /// The least one.
    #[default]
    Rttmin,
    /// The smoothed one.
    Srtt,
}

/// What adaptive AIMD keeps of its window when the retransmission timer expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BetaRto {
    /// Half, as RFC 5681.
    #[default]
    Half,
    /// As much as after any other loss.
    Beta,
}

/// Settings of the congestion controls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CcConfig {
    /// AIMD: segments a window grows by in a round trip.
    pub alpha: f64,
    /// AIMD: what a loss leaves of the window.
    pub beta: f64,
    /// Adaptive AIMD: the least factor; 0.5 is that of standard TCP.
    pub beta_lo: f64,
    /// Adaptive AIMD: the greatest factor. 0.8 fills a link with a quarter of a bandwidth-delay product of buffer.
    pub beta_hi: f64,
    /// Adaptive AIMD: where the factor comes from.
    pub beta_from: BetaFrom,
    /// Adaptive AIMD: the factor of a time-out.
    pub beta_rto: BetaRto,
    /// Adaptive AIMD: towards what RTTmax fades.
    pub fade: Fade,
    /// Adaptive AIMD: what of the distance stays at each back-off; 7/8 remembers as long as SRTT does.
    pub gamma: f64,
    /// Adaptive AIMD: samples of the round-trip time before they are believed.
    pub min_samples: u32,
    /// H-TCP: growth in proportion to the round-trip time, so that flows of different ones get the same.
    pub rtt_scaling: bool,
    /// Vegas: with fewer segments of its own in the queue the window grows.
    pub vegas_alpha: u32,
    /// Vegas: with more it shrinks.
    pub vegas_beta: u32,
    /// Vegas: with more slow start ends.
    pub vegas_gamma: u32,
}

impl CcConfig {
    /// What the papers suggest.
    pub(super) const PAPERS: Self = Self {
        alpha: 1.0,
        beta: 0.5,
        beta_lo: 0.5,
        beta_hi: 0.8,
        beta_from: BetaFrom::Rtt,
        beta_rto: BetaRto::Half,
        fade: Fade::Rttmin,
        gamma: 0.875,
        min_samples: 8,
        rtt_scaling: true,
        vegas_alpha: 2,
        vegas_beta: 4,
        vegas_gamma: 1,
    };
    /// ns-2.35: `v_alpha_` 1, `v_beta_` 3, `v_gamma_` 1.
    pub(super) const NS2: Self = Self { vegas_alpha: 1, vegas_beta: 3, ..Self::PAPERS };
}
