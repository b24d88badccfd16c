//! Start-ups: what the window does before congestion avoidance, and when the first segments leave. They compose with any
//! congestion control; `docs/startups.md` has a section for each.

use narrows_units::{Duration, Instant};

mod burst;
mod hystart;
mod slow_start;
mod spreading;

pub use burst::Burst;
pub use hystart::HyStart;
pub use slow_start::SlowStart;
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
        }
    };
}

impl Startup for Start {
    fn initial_window(&self, config: &Config) -> f64 {
        match self {
            Self::Spreading(start) => start.initial_window(config),
            _ => SlowStart.initial_window(config),
        }
    }
    fn on_established(&mut self, window: &mut Window, first: FirstRtt, config: &Config) {
        match self {
            Self::Burst(start) => start.on_established(window, first, config),
            Self::Spreading(start) => start.on_established(window, first, config),
            Self::SlowStart(_) | Self::HyStart(_) => {}
        }
    }
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample, config: &Config) {
        each!(self, start => start.on_ack(window, sample, config));
    }
    fn on_loss(&mut self) {
        each!(self, start => start.on_loss());
    }
    fn release_at(&mut self, now: Instant) -> Option<Instant> {
        if let Self::Spreading(start) = self { start.release_at(now) } else { None }
    }
    fn on_sent(&mut self, now: Instant, config: &Config) {
        if let Self::Spreading(start) = self {
            start.on_sent(now, config);
        }
    }
}
