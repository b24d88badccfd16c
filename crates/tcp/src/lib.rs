//! A TCP end host without sockets: segments and instants go in, segments, events and a wake-up time come out.
//!
//! The host knows no clock and no network. Whoever drives it (the simulator, a test, a fuzzer) gives it what arrives and
//! wakes it when it asked to be woken; see [`Endpoint`].

#![forbid(unsafe_code)]

pub mod cc;
mod config;
mod endpoint;
mod event;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod receiver;
mod rto;
mod sender;
pub mod startup;

pub use config::{
    BackoffEnds, BetaFrom, BetaRto, BurstAfter, BurstStep, ByteCounting, CcConfig, CcKind, Config,
    DelayedAck, Fade, Handshake, InitialWindow, Preset, Recovery, ReduceFrom, RtoConfig, RtoFloor,
    RtoRecovery, RttSampling, StartConfig, StartupKind,
};
pub use endpoint::{Counters, Endpoint};
pub use event::{Event, Io, Segment};
pub use narrows_settings::{Key, SettingError, Settings};
