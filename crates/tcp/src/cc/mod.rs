//! Congestion control behind a seam: start-up is separate, window and pacing rate are both outputs.

use narrows_units::{Duration, Instant, Rate};

use crate::Config;

/// What one acknowledgment of new data told. Windows are in segments of [`Config::mss`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckSample {
    /// When the ACK came.
    pub now: Instant,
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub acked: u64,
    /// What this ACK counts for, in segments, after byte counting (RFC 3465).
    pub credit: f64,
    /// The RTT sample it gave, if any.
    pub rtt: Option<Duration>,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Duration,
    /// Segments in flight before the ACK.
    pub in_flight: u32,
    /// Whether the sender used its whole window: only then may it grow (RFC 7661; RFC 9438, section 5.8).
    pub window_limited: bool,
}

/// A congestion control. `cwnd` and `ssthresh` are in segments and may be fractions; what may be sent is the whole part.
pub trait CongestionControl {
    /// New data was acknowledged outside of recovery, and start-up is over (cwnd >= ssthresh).
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample);
    /// Loss was inferred from ACKs: sets ssthresh to its share of `base`, the segments of which a loss takes its share
    /// ([`crate::ReduceFrom`]). The sender cuts ssthresh to whole segments and to at least 2 (RFC 5681, equation 4), and sets
    /// cwnd as its recovery says.
    fn on_loss(&mut self, window: &mut Window, now: Instant, base: f64);
    /// The retransmission timer expired: sets ssthresh as in `on_loss`; the sender sets cwnd to the loss window.
    fn on_rto(&mut self, window: &mut Window, now: Instant, base: f64);
    /// An ECN echo: sets ssthresh as in `on_loss`; the sender sets cwnd, and sees to it that this comes at most once per
    /// round trip.
    fn on_ecn(&mut self, window: &mut Window, now: Instant, base: f64);
    /// Rate at which to pace, if it wants pacing.
    fn pacing_rate(&self, window: &Window, config: &Config) -> Option<Rate> {
        let _ = (window, config);
        None
    }
}

/// The two windows every congestion control works on, in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Congestion window.
    pub cwnd: f64,
    /// Slow start threshold.
    pub ssthresh: f64,
}
