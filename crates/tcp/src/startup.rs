//! Start-ups decide what the window does before congestion avoidance, and when the first segments leave. Each works
//! with any congestion control; `docs/reference/startups.md` has a section for each.

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

pub use burst::Burst;
pub use slow_start::SlowStart;
pub use spreading::InitialSpreading;

use crate::cc::{AckSample, Window};
use crate::dispatch::dispatched;
use crate::{Config, StartupKind};
use adaptive::Adaptive;
use gallop::Gallop;
use hystart::HyStart;
use limited::Limited;
use paced::Paced;
use small_segments::SmallSegments;
use smooth::Smooth;

/// Knowledge of the round-trip time when a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstRtt {
    /// The handshake's, or [`crate::StartConfig::rtt`] where there is none.
    Is(Duration),
    /// The round-trip time was not measured.
    Unknown,
    /// Our SYN or SYN-ACK was sent more than once, so only one thing is known: the path loses packets.
    SynLost,
}

dispatched! {
    /// A start-up.
    pub trait Startup for AnyStartup {
        in place: SlowStart Burst Spreading Paced Limited Smooth SmallSegments;
        boxed(when_changed): HyStart Adaptive Gallop;
    }

    required {
        /// New data was acknowledged while cwnd < ssthresh.
        fn on_ack(&mut self, window: &mut Window, sample: &AckSample, config: &Config);
    }

    provided {
        /// The first window, in segments.
        fn initial_window(&self, config: &Config) -> f64 {
            config.initial_window.segments(config.mss)
        }

        /// The connection exists. The window is the initial one, or what follows a lost SYN (RFC 5681, section 3.1).
        /// [`FirstRtt::SynLost`] may come before that; then it holds, whatever comes later.
        fn on_established(&mut self, window: &mut Window, first: FirstRtt, config: &Config) {}

        /// New data was acknowledged, whatever cwnd is, and the window has grown by it.
        fn after_ack(&mut self, window: &mut Window, sample: &AckSample, config: &Config) {}

        /// The third duplicate ACK, a time-out or an ECN echo came. Some start-ups end then for good.
        fn on_loss(&mut self) {}

        /// Time at which the next segment of new data may leave, if not at once. The sender asks whenever one could
        /// leave.
        fn release_at(&mut self, now: Instant) -> Option<Instant> { None }

        /// A segment of new data leaves.
        fn on_sent(&mut self, now: Instant, config: &Config) {}

        /// Whether segments leave SRTT / cwnd apart.
        fn is_paced(&self, window: &Window) -> bool { false }

        /// The payload of a segment of new data, bytes, if it is less than `mss`. The window then counts bytes.
        fn segment(&self, window: &Window, mss: u16) -> Option<u16> { None }
    }
}

/// The start-up of a connection, chosen by [`Config::startup`]. The larger ones are on the heap, once they differ
/// from the default, so that an end which only receives data has none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AnyStartup {
    SlowStart(SlowStart),
    HyStart(Option<Box<HyStart>>),
    Burst(Burst),
    Spreading(InitialSpreading),
    /// [`StartupKind::PacedStart`] and [`StartupKind::Paced`].
    Paced(Paced),
    Limited(Limited),
    Smooth(Smooth),
    Adaptive(Option<Box<Adaptive>>),
    Gallop(Option<Box<Gallop>>),
    SmallSegments(SmallSegments),
}

impl AnyStartup {
    /// Makes the start-up that the settings name.
    pub(crate) fn new(config: &Config) -> Self {
        match config.startup {
            StartupKind::SlowStart => Self::SlowStart(SlowStart),
            StartupKind::HyStart => Self::HyStart(None),
            StartupKind::Burst => Self::Burst(Burst::default()),
            StartupKind::Spreading => Self::Spreading(InitialSpreading::default()),
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
