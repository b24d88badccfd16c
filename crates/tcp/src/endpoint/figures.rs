//! Figures of an end for its driver: counters, window, estimates.

use narrows_units::Duration;

use super::{Endpoint, State};
use crate::cc::CcEstimates;
use crate::{Config, EndpointCounters, LossPhase, SegmentMarks};

impl Endpoint {
    /// Counts of the end host since the end host was made.
    #[must_use]
    pub const fn counters(&self) -> EndpointCounters {
        self.counters.told()
    }
    /// Whether the connection is established, or was and has closed in order.
    #[must_use]
    pub const fn is_established(&self) -> bool {
        matches!(self.state, State::Established | State::Closed | State::Gone)
    }
    /// Whether both directions are closed and acknowledged.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed | State::Gone)
    }
    /// Whether the connection was given up or reset.
    #[must_use]
    pub const fn is_failed(&self) -> bool {
        matches!(self.state, State::Failed)
    }
    /// The congestion window, segments.
    #[must_use]
    pub const fn cwnd(&self) -> f64 {
        self.sender.window().cwnd
    }
    /// The slow start threshold, segments.
    #[must_use]
    pub const fn ssthresh(&self) -> f64 {
        self.sender.window().ssthresh
    }
    /// The estimates of congestion control; `None` if it estimates nothing, or has not begun to.
    #[must_use]
    pub fn cc_estimates(&self) -> Option<CcEstimates> {
        self.sender.cc_estimates()
    }
    /// Bytes in the network, as far as the sender knows: the segments of its pipe (RFC 6675, section 4) as full ones,
    /// but at most what is unacknowledged.
    #[must_use]
    pub fn in_flight(&self, config: &Config) -> u64 {
        (u64::from(self.sender.in_flight(config.recovery)) * u64::from(config.mss)).min(self.sender.unacked())
    }
    /// The smoothed round-trip time; zero before the first sample.
    #[must_use]
    pub fn srtt(&self, config: &Config) -> Duration {
        self.sender.srtt(config)
    }
    /// The retransmission time-out, back-off included.
    #[must_use]
    pub fn rto(&self, config: &Config) -> Duration {
        self.sender.rto(config)
    }
    /// Phase of loss recovery.
    #[must_use]
    pub const fn loss_phase(&self) -> LossPhase {
        self.sender.loss_phase()
    }
    /// How the segments between snd_una and snd_max are marked.
    #[must_use]
    pub fn marks(&self) -> SegmentMarks {
        self.sender.marks()
    }
    /// The payload of a full segment, bytes, after the peer's MSS option.
    #[must_use]
    pub const fn segment(&self) -> u16 {
        self.sender.segment()
    }
    /// The degree of reordering seen so far, segments; [`Config::dupthresh`] at least.
    #[must_use]
    pub fn reordering(&self, config: &Config) -> u32 {
        self.sender.reordering(config)
    }
    /// Whether neither side has opened the connection.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }
    /// The factor of the RTO's back-off; 1 without one.
    #[must_use]
    pub const fn backoff(&self) -> u32 {
        self.sender.backoff()
    }
    /// Bytes sent and not acknowledged; a SYN or FIN counts as one.
    #[must_use]
    pub const fn unacked(&self) -> u64 {
        self.sender.unacked()
    }
    /// Bytes written and never sent.
    #[must_use]
    pub const fn unsent(&self) -> u64 {
        self.sender.unsent()
    }
    /// Bytes that the peer has acknowledged.
    #[must_use]
    pub fn acked(&self) -> u64 {
        self.sender.acked()
    }
    /// Bytes of the peer's that the application has received.
    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }
}
