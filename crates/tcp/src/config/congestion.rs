//! Settings of the congestion controls. If only one of them uses a setting, the comment says which.

/// The congestion controls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CcKind {
    /// RFC 5681.
    #[default]
    Reno,
    /// Additive increase, multiplicative decrease with any two constants.
    Aimd,
    /// A loss leaves as much of the window as empties the queue, which the flow measures (Shorten and Leith).
    AdaptiveAimd,
    /// H-TCP (Leith and Shorten, draft-leith-tcp-htcp-06).
    Htcp,
    /// Westwood+ (Mascolo, Grieco and others).
    Westwood,
    /// Vegas (Brakmo and Peterson 1995).
    Vegas,
    /// RFC 9438.
    Cubic,
    /// A control that the caller brings, by the caller's own number
    /// ([`Endpoint::with_control`](crate::Endpoint::with_control)). Text `own:0`.
    Own(u16),
}

/// Quantity from which adaptive AIMD computes its back-off factor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BetaFrom {
    /// The least and the greatest round-trip time, equation 4.
    #[default]
    Rtt,
    /// Throughput before and after a back-off, equation 10.
    Throughput,
}

/// Towards which round-trip time adaptive AIMD lets the greatest one fade at each back-off (equation 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fade {
    /// Least round-trip time.
    #[default]
    Rttmin,
    /// Smoothed round-trip time.
    Srtt,
}

/// The share of the window that adaptive AIMD keeps when the retransmission timer expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BetaRto {
    /// Half, as in RFC 5681.
    #[default]
    Half,
    /// The share that any other loss leaves.
    Beta,
}

/// Settings of the congestion controls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CcConfig {
    /// AIMD: by how many segments the window grows per round trip.
    pub alpha: f64,
    /// AIMD: the share of the window that a loss leaves.
    pub beta: f64,
    /// Adaptive AIMD: the least factor; 0.5 is that of standard TCP.
    pub beta_lo: f64,
    /// Adaptive AIMD: the greatest factor. 0.8 fills a link with a quarter of a bandwidth-delay product of buffer.
    pub beta_hi: f64,
    /// Adaptive AIMD: where the factor comes from.
    pub beta_from: BetaFrom,
    /// Adaptive AIMD: the factor of a time-out.
    pub beta_rto: BetaRto,
    /// Adaptive AIMD: towards which round-trip time RTTmax fades.
    pub fade: Fade,
    /// Adaptive AIMD: the share of its distance from there that each back-off leaves; 7/8 remembers as long as SRTT
    /// does.
    pub gamma: f64,
    /// Adaptive AIMD: how many samples of the round-trip time it needs before it uses them.
    pub min_samples: u32,
    /// H-TCP: the window grows in proportion to the round-trip time, so that flows with different ones get the same
    /// rate.
    pub rtt_scaling: bool,
    /// Vegas: the window grows with fewer segments of its own in the queue.
    pub vegas_alpha: u32,
    /// Vegas: the window shrinks with more segments of its own in the queue.
    pub vegas_beta: u32,
    /// Vegas: slow start ends with more segments of its own in the queue.
    pub vegas_gamma: u32,
}

impl CcConfig {
    /// The values that the papers suggest.
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
