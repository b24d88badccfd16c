//! Congestion control behind a seam: start-up is separate, window and pacing rate are both outputs.

use narrows_units::{Duration, Instant, Rate};

mod adaptive;
mod aimd;
mod cubic;
mod htcp;
mod reno;
mod rounds;
mod vegas;
mod westwood;

pub use adaptive::AdaptiveAimd;
pub use aimd::Aimd;
pub use cubic::Cubic;
pub use htcp::Htcp;
pub use reno::Reno;
pub use vegas::Vegas;
pub use westwood::Westwood;

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

/// What an acknowledgment told that acknowledged data for the first time, cumulatively or selectively, in whatever phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivery {
    /// When the ACK came.
    pub now: Instant,
    /// Segments newly acknowledged.
    pub segments: u32,
    /// The RTT sample it gave, if it is one of data that was sent only once; above zero.
    pub rtt: Option<Duration>,
    /// No loss is known of: neither a recovery nor what follows a time-out is under way.
    pub open: bool,
}

/// A congestion control. `cwnd` and `ssthresh` are in segments and may be fractions; what may be sent is the whole part.
pub trait CongestionControl {
    /// Data was acknowledged, also below ssthresh and in recovery; comes before what else the ACK leads to.
    fn on_delivery(&mut self, window: &mut Window, config: &Config, delivery: &Delivery) {
        let _ = (window, config, delivery);
    }
    /// New data was acknowledged outside of recovery, and start-up is over (cwnd >= ssthresh).
    fn on_ack(&mut self, window: &mut Window, config: &Config, sample: &AckSample);
    /// Loss was inferred from ACKs, at most once per window of data: sets ssthresh to its share of `base`, the segments of
    /// which a loss takes its share ([`crate::ReduceFrom`]). The sender cuts ssthresh to whole segments and to at least 2
    /// (RFC 5681, equation 4), and sets cwnd as its recovery says.
    fn on_loss(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64);
    /// The retransmission timer expired: sets ssthresh as in `on_loss`; the sender sets cwnd to the loss window.
    fn on_rto(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64);
    /// An ECN echo: sets ssthresh as in `on_loss`; the sender sets cwnd, and sees to it that this comes at most once per
    /// round trip. A mark is a loss unless it says otherwise (RFC 3168, section 5).
    fn on_ecn(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64) {
        self.on_loss(window, config, now, base);
    }
    /// Rate at which to pace, if it wants pacing.
    fn pacing_rate(&self, window: &Window, config: &Config) -> Option<Rate> {
        let _ = (window, config);
        None
    }
    /// What it has learnt, for probes; `None` if it learns nothing of the kind.
    fn learnt(&self) -> Option<Learnt> {
        None
    }
}

/// What a congestion control that adapts its increase and decrease has learnt of the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Learnt {
    /// Segments the window grows by in a round trip.
    pub alpha: f64,
    /// What the last loss left of the window.
    pub beta: f64,
    /// Least round-trip time; zero before the first sample.
    pub rtt_min: Duration,
    /// Greatest round-trip time as the control counts it.
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

/// The congestion control of a connection, chosen by [`Config::congestion`]. What it keeps is made when it is first asked:
/// an end that only takes data has none.
#[derive(Clone, Debug, PartialEq)]
pub enum Cc {
    /// [`CcKind::Reno`].
    Reno(Reno),
    /// [`CcKind::Aimd`].
    Aimd(Aimd),
    /// [`CcKind::AdaptiveAimd`].
    AdaptiveAimd(Option<Box<AdaptiveAimd>>),
    /// [`CcKind::Htcp`].
    Htcp(Option<Box<Htcp>>),
    /// [`CcKind::Westwood`].
    Westwood(Option<Box<Westwood>>),
    /// [`CcKind::Vegas`].
    Vegas(Option<Box<Vegas>>),
    /// [`CcKind::Cubic`].
    Cubic(Option<Box<Cubic>>),
}

impl Cc {
    /// As the settings say.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        match config.congestion {
            CcKind::Reno => Self::Reno(Reno::default()),
            CcKind::Aimd => Self::Aimd(Aimd::default()),
            CcKind::AdaptiveAimd => Self::AdaptiveAimd(None),
            CcKind::Htcp => Self::Htcp(None),
            CcKind::Westwood => Self::Westwood(None),
            CcKind::Vegas => Self::Vegas(None),
            CcKind::Cubic => Self::Cubic(None),
        }
    }
}

/// Calls whichever it is, made now if need be; with `else` what to do if it is not made yet.
macro_rules! each {
    ($self:ident, $cc:ident => $call:expr) => {
        each!(@ $self, $cc => $call, Aimd Reno; AdaptiveAimd Htcp Westwood Vegas Cubic;
            { let $cc = $cc.get_or_insert_default(); $call })
    };
    ($self:ident, $cc:ident => $call:expr, else $none:expr) => {
        each!(@ $self, $cc => $call, Aimd Reno; AdaptiveAimd Htcp Westwood Vegas Cubic;
            $cc.as_deref().map_or($none, |$cc| $call))
    };
    (@ $self:ident, $cc:ident => $call:expr, $($bare:ident)*; $($boxed:ident)*; $get:expr) => {
        match $self {
            $(Cc::$bare($cc) => $call,)*
            $(Cc::$boxed($cc) => $get,)*
        }
    };
}

impl CongestionControl for Cc {
    #[inline]
    fn on_delivery(&mut self, window: &mut Window, config: &Config, delivery: &Delivery) {
        if !matches!(self, Self::Reno(_) | Self::Aimd(_)) {
            // Those two do not listen.
            self.on_delivery_told(window, config, delivery);
        }
    }
    #[inline]
    fn on_ack(&mut self, window: &mut Window, config: &Config, sample: &AckSample) {
        if let Self::Reno(reno) = self {
            reno.on_ack(window, config, sample);
        } else {
            self.on_ack_told(window, config, sample);
        }
    }
    fn on_loss(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64) {
        each!(self, cc => cc.on_loss(window, config, now, base));
    }
    fn on_rto(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64) {
        each!(self, cc => cc.on_rto(window, config, now, base));
    }
    fn on_ecn(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64) {
        each!(self, cc => cc.on_ecn(window, config, now, base));
    }
    fn pacing_rate(&self, window: &Window, config: &Config) -> Option<Rate> {
        each!(self, cc => cc.pacing_rate(window, config), else None)
    }
    fn learnt(&self) -> Option<Learnt> {
        each!(self, cc => cc.learnt(), else None)
    }
}

/// What is done for every acknowledgment is in line for the plainest of them only.
impl Cc {
    fn on_delivery_told(&mut self, window: &mut Window, config: &Config, delivery: &Delivery) {
        each!(self, cc => cc.on_delivery(window, config, delivery));
    }
    fn on_ack_told(&mut self, window: &mut Window, config: &Config, sample: &AckSample) {
        each!(self, cc => cc.on_ack(window, config, sample));
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

    /// An ACK at `ms` of so many segments with this RTT, in the open phase.
    pub(crate) fn delivery(ms: u64, segments: u32, rtt_ms: u64) -> Delivery {
        let now = Instant::ZERO + Duration::from_millis(ms);
        Delivery { now, segments, rtt: Some(Duration::from_millis(rtt_ms)), open: true }
    }
}
