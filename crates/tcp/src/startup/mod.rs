//! Start-ups: what the window does before congestion avoidance. They compose with any congestion control.

use narrows_units::Instant;

mod hystart;
mod slow_start;

pub use hystart::HyStart;
pub use slow_start::SlowStart;

use crate::cc::{AckSample, Window};
use crate::{Config, StartupKind};

/// A start-up.
pub trait Startup {
    /// The first window, in segments.
    fn initial_window(&self, config: &Config) -> f64 {
        config.initial_window.segments(config.mss)
    }
    /// New data was acknowledged while cwnd < ssthresh.
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample);
    /// A loss was seen: some start-ups switch off for good.
    fn on_loss(&mut self) {}
    /// When the `index`-th segment of the first window may leave; `None` for at once.
    fn release_at(&self, first: Instant, index: u32) -> Option<Instant> {
        let _ = (first, index);
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
}

impl Start {
    /// As the settings say.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        match config.startup {
            StartupKind::SlowStart => Self::SlowStart(SlowStart),
            StartupKind::HyStart => Self::HyStart(None),
        }
    }
}

impl Startup for Start {
    fn initial_window(&self, config: &Config) -> f64 {
        match self {
            Self::SlowStart(start) => start.initial_window(config),
            Self::HyStart(start) => start.as_deref().unwrap_or(&HyStart::default()).initial_window(config),
        }
    }
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample) {
        match self {
            Self::SlowStart(start) => start.on_ack(window, sample),
            Self::HyStart(start) => start.get_or_insert_default().on_ack(window, sample),
        }
    }
    fn on_loss(&mut self) {
        match self {
            Self::SlowStart(start) => start.on_loss(),
            Self::HyStart(start) => start.get_or_insert_default().on_loss(),
        }
    }
    fn release_at(&self, first: Instant, index: u32) -> Option<Instant> {
        match self {
            Self::SlowStart(start) => start.release_at(first, index),
            Self::HyStart(start) => start.as_deref().unwrap_or(&HyStart::default()).release_at(first, index),
        }
    }
}
