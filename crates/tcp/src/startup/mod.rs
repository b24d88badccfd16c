//! Start-ups: what the window does before congestion avoidance, and when the first segments leave. They compose with any
//! congestion control; `docs/reference/startups.md` has a section for each.

use narrows_units::{Duration, Instant};

mod adaptive;
mod burst;
mod gallop;
mod hystart;
mod limited;
mod paced;
mod slow_start;
mod small_segments;
mod smooth;
mod spreading;

pub use adaptive::Adaptive;
pub use burst::Burst;
pub use gallop::Gallop;
pub use hystart::HyStart;
pub use limited::Limited;
pub use paced::Paced;
pub use slow_start::SlowStart;
pub use small_segments::SmallSegments;
pub use smooth::Smooth;
pub use spreading::{Slots, Spreading};

use crate::cc::{AckSample, Window};
use crate::{Config, StartupKind};

/// What is known of the round-trip time when a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstRtt {
    /// The handshake's, or [`crate::StartConfig::rtt`] where there is none.
    Is(Duration),
    /// Nothing measured it.
    Unknown,
    /// Our SYN or SYN-ACK was sent more than once: nothing but that the path loses.
    SynLost,
}

/// A start-up.
pub trait Startup {
    /// The first window, in segments.
    fn initial_window(&self, config: &Config) -> f64 {
        config.initial_window.segments(config.mss)
    }
    /// The connection exists. The window is the initial one, or what follows a lost SYN (RFC 5681, section 3.1).
    /// [`FirstRtt::SynLost`] may come before that, and stands whatever comes then.
    fn on_established(&mut self, window: &mut Window, first: FirstRtt, config: &Config) {
        let _ = (window, first, config);
    }
    /// New data was acknowledged while cwnd < ssthresh.
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample, config: &Config);
    /// New data was acknowledged, whatever cwnd is; the window has grown by it.
    fn after_ack(&mut self, window: &mut Window, sample: &AckSample, config: &Config) {
        let _ = (window, sample, config);
    }
    /// The third duplicate ACK, a time-out or an ECN echo: some start-ups switch off for good.
    fn on_loss(&mut self) {}
    /// When the next segment of new data may leave, if not at once; asked again whenever one could.
    fn release_at(&mut self, now: Instant) -> Option<Instant> {
        let _ = now;
        None
    }
    /// A segment of new data left.
    fn on_sent(&mut self, now: Instant, config: &Config) {
        let _ = (now, config);
    }
    /// Whether segments leave SRTT / cwnd apart.
    fn is_paced(&self, window: &Window) -> bool {
        let _ = window;
        false
    }
    /// Payload of a segment of new data, bytes, where it is less than `mss`. The window then counts bytes.
    fn segment(&self, window: &Window, mss: u16) -> Option<u16> {
        let _ = (window, mss);
        None
    }
}

/// The start-up of a connection, chosen by [`Config::startup`]. What it keeps is made when it is first asked: an end that
/// only takes data has none.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// [`StartupKind::SlowStart`].
    SlowStart(SlowStart),
    /// [`StartupKind::HyStart`].
    HyStart(Option<Box<HyStart>>),
    /// [`StartupKind::Burst`].
    Burst(Burst),
    /// [`StartupKind::Spreading`].
    Spreading(Spreading),
    /// [`StartupKind::PacedStart`] and [`StartupKind::Paced`].
    Paced(Paced),
    /// [`StartupKind::Limited`].
    Limited(Limited),
    /// [`StartupKind::Smooth`].
    Smooth(Smooth),
    /// [`StartupKind::Adaptive`].
    Adaptive(Option<Box<Adaptive>>),
    /// [`StartupKind::Gallop`].
    Gallop(Option<Box<Gallop>>),
    /// [`StartupKind::SmallSegments`].
    SmallSegments(SmallSegments),
}

impl Start {
    /// As the settings say.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        match config.startup {
            StartupKind::SlowStart => Self::SlowStart(SlowStart),
            StartupKind::HyStart => Self::HyStart(None),
            StartupKind::Burst => Self::Burst(Burst::default()),
            StartupKind::Spreading => Self::Spreading(Spreading::default()),
            StartupKind::PacedStart => Self::Paced(Paced::new(false)),
            StartupKind::Paced => Self::Paced(Paced::new(true)),
            StartupKind::Limited => Self::Limited(Limited),
            StartupKind::Smooth => Self::Smooth(Smooth::default()),
            StartupKind::Adaptive => Self::Adaptive(None),
            StartupKind::Gallop => Self::Gallop(None),
            StartupKind::SmallSegments => Self::SmallSegments(SmallSegments::default()),
        }
    }
}

macro_rules! each {
    ($self:ident, $start:ident => $call:expr) => {
        match $self {
            Start::SlowStart($start) => $call,
            Start::HyStart($start) => {
                let $start = $start.get_or_insert_default();
                $call
            }
            Start::Burst($start) => $call,
            Start::Spreading($start) => $call,
            Start::Paced($start) => $call,
            Start::Limited($start) => $call,
            Start::Smooth($start) => $call,
            Start::Adaptive($start) => {
                let $start = $start.get_or_insert_default();
                $call
            }
            Start::Gallop($start) => {
                let $start = $start.get_or_insert_default();
                $call
            }
            Start::SmallSegments($start) => $call,
        }
    };
}

/// What only some start-ups do costs the others a comparison.
impl Startup for Start {
    fn initial_window(&self, config: &Config) -> f64 {
        match self {
            Self::Spreading(start) => start.initial_window(config),
            Self::Gallop(_) => Gallop::default().initial_window(config),
            _ => SlowStart.initial_window(config),
        }
    }
    fn on_established(&mut self, window: &mut Window, first: FirstRtt, config: &Config) {
        match self {
            Self::Burst(start) => start.on_established(window, first, config),
            Self::Spreading(start) => start.on_established(window, first, config),
            _ => {}
        }
    }
    #[inline]
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample, config: &Config) {
        each!(self, start => start.on_ack(window, sample, config));
    }
    #[inline]
    fn after_ack(&mut self, window: &mut Window, sample: &AckSample, config: &Config) {
        if let Self::Adaptive(start) = self {
            start.get_or_insert_default().after_ack(window, sample, config);
        }
    }
    fn on_loss(&mut self) {
        each!(self, start => start.on_loss());
    }
    #[inline]
    fn release_at(&mut self, now: Instant) -> Option<Instant> {
        if let Self::Spreading(start) = self { start.release_at(now) } else { None }
    }
    #[inline]
    fn on_sent(&mut self, now: Instant, config: &Config) {
        if let Self::Spreading(start) = self {
            start.on_sent(now, config);
        }
    }
    #[inline]
    fn is_paced(&self, window: &Window) -> bool {
        if let Self::Paced(start) = self { start.is_paced(window) } else { false }
    }
    #[inline]
    fn segment(&self, window: &Window, mss: u16) -> Option<u16> {
        if let Self::SmallSegments(start) = self { start.segment(window, mss) } else { None }
    }
}
