//! Congestion controls. Congestion controls are separate from start-ups, and each has two outputs: a window and a
//! pacing rate.

use narrows_units::{Duration, Instant, Rate};

mod adaptive;
mod aimd;
mod cubic;
mod htcp;
mod own;
mod reno;
mod rounds;
mod vegas;
mod westwood;

pub use adaptive::AdaptiveAimd;
pub use own::OwnControl;
pub use reno::Reno;

use aimd::Aimd;
use cubic::Cubic;
use htcp::Htcp;
use own::Own;
use vegas::Vegas;
use westwood::Westwood;

use crate::dispatch::dispatched;
use crate::{CcKind, Config, Preset};

/// One acknowledgment of new data. Windows are in segments of [`Config::mss`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckSample {
    /// Time at which the ACK came.
    pub now: Instant,
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub acked: u64,
    /// Number of segments that the ACK counts for, after byte counting (RFC 3465).
    pub credit: f64,
    /// Whether the credit is computed from bytes.
    pub by_bytes: bool,
    /// The RTT sample of the ACK; `None` if the ACK gives none.
    pub rtt: Option<Duration>,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Duration,
    /// Segments in flight before the ACK.
    pub in_flight: u32,
    /// Whether the sender used its whole window. Only then may the window grow (RFC 7661; RFC 9438, section 5.8).
    pub window_limited: bool,
}

/// One acknowledgment of data that was not acknowledged before, cumulatively or selectively, in any phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeliverySample {
    /// Time at which the ACK came.
    pub now: Instant,
    /// Segments newly acknowledged.
    pub segments: u32,
    /// The RTT sample of the delivery, if the sample comes from data that was sent only once; above zero.
    pub rtt: Option<Duration>,
    /// Whether no loss is known: no recovery is under way, neither fast recovery nor that after a time-out.
    pub open: bool,
}

dispatched! {
    /// A congestion control. `cwnd` and `ssthresh` are in segments and may be fractions; as many whole segments may
    /// be sent.
    pub trait CongestionControl for AnyCc {
        in place: Reno Aimd Own;
        boxed(at_first_event): AdaptiveAimd Htcp Westwood Vegas Cubic;
    }

    required {
        /// New data was acknowledged outside of recovery, and start-up is over (cwnd >= ssthresh).
        fn on_ack(&mut self, window: &mut Window, config: &Config, sample: &AckSample);

        /// ACKs have shown a loss; this comes at most once per window of data. Sets ssthresh to a share of `base`,
        /// the number of segments from which to reduce ([`crate::ReduceFrom`]). The sender then rounds ssthresh down
        /// to whole segments, at least 2 (RFC 5681, equation 4), and sets cwnd as its recovery demands.
        fn on_loss(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64);

        /// The retransmission timer has expired. Sets ssthresh as `on_loss` does; the sender sets cwnd to the loss
        /// window.
        fn on_rto(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64);
    }

    provided {
        /// Data was acknowledged, in any phase, also below ssthresh. This call comes before those to which the ACK
        /// leads.
        fn on_delivery(&mut self, window: &mut Window, config: &Config, delivery: &DeliverySample) {}

        /// An ECN echo came; the sender passes on at most one per round trip. Sets ssthresh as `on_loss` does; the
        /// sender sets cwnd. By default a mark counts as a loss (RFC 3168, section 5).
        fn on_ecn(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64) {
            self.on_loss(window, config, now, base);
        }

        /// The rate at which to pace; `None` for a congestion control that wants no pacing.
        fn pacing_rate(&self, window: &Window, config: &Config) -> Option<Rate> { None }

        /// The estimates of the congestion control, for probes; `None` if it estimates nothing, or has not begun to.
        fn estimates(&self) -> Option<CcEstimates> { None }
    }
}

/// Congestion avoidance by itself, for an end host of another transport: it keeps its own window and start-up.
#[derive(Debug)]
pub struct Avoidance {
    cc: AnyCc,
    config: Box<Config>,
}

impl Avoidance {
    /// Makes a control of kind `congestion` with the settings of the RFCs, for packets of `mss` bytes.
    #[must_use]
    pub fn new(congestion: CcKind, mss: u32) -> Self {
        let config = Config { congestion, mss, ..Config::preset(Preset::Rfc) };
        Self { cc: AnyCc::new(&config), config: Box::new(config) }
    }
    /// Grows the window by the data that an ACK acknowledges, as [`CongestionControl::on_ack`].
    pub fn on_ack(&mut self, window: &mut Window, sample: &AckSample) {
        self.cc.on_ack(window, &self.config, sample);
    }
    /// Reduces the window after a loss that is no time-out, as [`CongestionControl::on_loss`].
    pub fn on_loss(&mut self, window: &mut Window, now: Instant, base: f64) {
        self.cc.on_loss(window, &self.config, now, base);
    }
    /// Sets the threshold after a time-out, as [`CongestionControl::on_rto`].
    pub fn on_rto(&mut self, window: &mut Window, now: Instant, base: f64) {
        self.cc.on_rto(window, &self.config, now, base);
    }
}

/// Estimates of a congestion control that adapts its increase and decrease.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CcEstimates {
    /// Segments by which the window grows per round trip.
    pub alpha: f64,
    /// The share of the window that the last loss left.
    pub beta: f64,
    /// The least round-trip time; zero before the first sample.
    pub rtt_min: Duration,
    /// The greatest round-trip time, as the congestion control defines it.
    pub rtt_max: Duration,
}

/// The two windows every congestion control works on, in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Congestion window.
    pub cwnd: f64,
    /// Slow start threshold.
    pub ssthresh: f64,
}

/// The congestion control of a connection, chosen by [`Config::congestion`]. The larger ones are on the heap, from
/// their first event on, so that an end which only receives data has none.
#[derive(Debug)]
pub(crate) enum AnyCc {
    Reno(Reno),
    Aimd(Aimd),
    AdaptiveAimd(Option<Box<AdaptiveAimd>>),
    Htcp(Option<Box<Htcp>>),
    Westwood(Option<Box<Westwood>>),
    Vegas(Option<Box<Vegas>>),
    Cubic(Option<Box<Cubic>>),
    Own(Box<Own>),
}

impl AnyCc {
    /// Makes the congestion control that the settings name.
    pub(crate) fn new(config: &Config) -> Self {
        match config.congestion {
            CcKind::Reno => Self::Reno(Reno::default()),
            CcKind::Aimd => Self::Aimd(Aimd::default()),
            CcKind::AdaptiveAimd => Self::AdaptiveAimd(None),
            CcKind::Htcp => Self::Htcp(None),
            CcKind::Westwood => Self::Westwood(None),
            CcKind::Vegas => Self::Vegas(None),
            CcKind::Cubic => Self::Cubic(None),
            CcKind::Own(_) => Self::Own(Box::default()),
        }
    }

    /// Takes a control of the caller's, where the settings ask for one.
    pub(crate) fn bring(&mut self, control: OwnControl) {
        if let Self::Own(own) = self {
            **own = Own::new(control);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

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

    /// An ACK at `ms` of `segments` segments with this RTT, in the open phase.
    pub(crate) fn delivery(ms: u64, segments: u32, rtt_ms: u64) -> DeliverySample {
        let now = Instant::ZERO + Duration::from_millis(ms);
        DeliverySample { now, segments, rtt: Some(Duration::from_millis(rtt_ms)), open: true }
    }
}
