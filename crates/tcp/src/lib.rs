//! A TCP end host without sockets: segments and instants go in; segments, events and a wake-up time come out.
//!
//! The host knows neither clock nor network. The driver of an end, which may be the simulator, a test or a fuzzer,
//! gives it the segments that arrive and wakes it when it asked to be woken; see [`Endpoint`].

#![forbid(unsafe_code)]

pub mod cc;
mod config;
mod dispatch;
mod endpoint;
mod event;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod receiver;
mod sender;
pub mod startup;

pub use config::{
    BackoffEnds, BetaFrom, BetaRto, BurstAfter, BurstStep, ByteCounting, CcConfig, CcKind, Config,
    DelayedAck, Fade, Handshake, InitialWindow, Preset, PrrBound, Recovery, ReduceFrom, RestartTimer,
    RtoConfig, RtoFloor, RtoRecovery, RtoVariance, RttSampling, StartConfig, StartupKind, SwsAvoidance,
};
pub use endpoint::{Endpoint, EndpointCounters};
pub use event::{Io, Segment, TcpEvent};
pub use narrows_settings::{Key, SettingError, Settings};
pub use sender::{LossPhase, SegmentMarks};

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
