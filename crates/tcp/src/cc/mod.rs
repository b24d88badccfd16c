//! Congestion control behind a seam: start-up is separate, window and pacing rate are both outputs.

use narrows_units::{Duration, Instant, Rate};

mod cubic;
mod reno;

pub use cubic::Cubic;
pub use reno::Reno;

use crate::{CcKind, Config};

/// What one acknowledgment of new data told. Windows are in segments of [`Config::mss`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckSample {
    /// When the ACK came.
    pub now: Instant,
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub acked: u64,
    /// What this ACK counts for, in segments, after byte counting (RFC 3465).
    pub credit: f64,
    /// Whether the credit counts bytes.
    pub by_bytes: bool,
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

/// The congestion control of a connection, chosen by [`Config::congestion`]. What it keeps is made when it is first asked:
/// an end that only takes data has none.
#[derive(Clone, Debug, PartialEq)]
pub enum Cc {
    /// [`CcKind::Reno`].
    Reno(Reno),
    /// [`CcKind::Cubic`].
    Cubic(Option<Box<Cubic>>),
}

impl Cc {
    /// As the settings say.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        match config.congestion {
            CcKind::Reno => Self::Reno(Reno::default()),
            CcKind::Cubic => Self::Cubic(None),
        }
    }
}

macro_rules! each {
    ($self:ident, $cc:ident => $call:expr) => {
        match $self {
            Cc::Reno($cc) => $call,
            Cc::Cubic($cc) => {
                let $cc = $cc.get_or_insert_default();
                $call
            }
        }
    };
}

impl CongestionControl for Cc {
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample) {
        each!(self, cc => cc.on_ack(window, sample));
    }
    fn on_loss(&mut self, window: &mut Window, now: Instant, base: f64) {
        each!(self, cc => cc.on_loss(window, now, base));
    }
    fn on_rto(&mut self, window: &mut Window, now: Instant, base: f64) {
        each!(self, cc => cc.on_rto(window, now, base));
    }
    fn on_ecn(&mut self, window: &mut Window, now: Instant, base: f64) {
        each!(self, cc => cc.on_ecn(window, now, base));
    }
    fn pacing_rate(&self, window: &Window, config: &Config) -> Option<Rate> {
        match self {
            Self::Reno(cc) => cc.pacing_rate(window, config),
            Self::Cubic(cc) => cc.as_deref().unwrap_or(&Cubic::default()).pacing_rate(window, config),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An ACK at `ms` with an RTT of 100 ms.
    pub(crate) fn sample(ms: u64, credit: f64) -> AckSample {
        let rtt = Duration::from_millis(100);
        AckSample {
            now: Instant::ZERO + Duration::from_millis(ms),
            acked: 1000,
            credit,
            by_bytes: false,
            rtt: Some(rtt),
            srtt: rtt,
            in_flight: 10,
            window_limited: true,
        }
    }
}
