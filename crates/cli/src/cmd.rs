//! One file a command. With the feature `box` alone this is the box for a router; `terminal` adds `setup` and `top`,
//! `lab` experiments with real stacks, `diagnose` the diagnosis of captures, and `research` the simulator, the models
//! and `replay`; `explore` puts the simulator behind a page.

#[cfg(feature = "research")]
use crate::say;

#[cfg(feature = "lab")]
pub mod demo;
#[cfg(feature = "diagnose")]
pub mod diagnose;
#[cfg(feature = "box")]
pub mod doctor;
#[cfg(feature = "explore")]
pub mod explore;
#[cfg(feature = "lab")]
pub mod lab;
#[cfg(feature = "research")]
pub mod league;
#[cfg(feature = "research")]
pub mod model;
#[cfg(feature = "box")]
pub mod packaging;
#[cfg(feature = "research")]
pub mod plan;
#[cfg(all(feature = "box", feature = "diagnose", feature = "research"))]
pub mod replay;
#[cfg(feature = "research")]
pub mod reproduce;
#[cfg(feature = "box")]
pub mod run;
#[cfg(feature = "lab")]
pub mod senders;
#[cfg(feature = "terminal")]
pub mod setup;
#[cfg(feature = "research")]
pub mod sim;
#[cfg(feature = "box")]
pub mod status;
#[cfg(feature = "terminal")]
pub mod top;

/// A rate as text, in the unit that fits.
#[cfg(any(feature = "box", feature = "diagnose"))]
fn bits(bps: f64) -> String {
    match bps {
        b if b >= 1e6 => format!("{:.2} Mbit/s", b / 1e6),
        b => format!("{:.1} kbit/s", b / 1e3),
    }
}
