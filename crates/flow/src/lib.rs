//! Follows TCP flows from the middle of their paths.
//!
//! A [`Tracker`] keeps one bounded record per flow of one direction of a link. It is told of arrivals, departures and
//! drops of that direction and, where the box sees it, of the other direction too; it says which packets are
//! retransmissions, how long the flow's round trip (epoch) is, and in which of seven phases its sender is. The idea and
//! the names are those of TAQ (Chen, Subramanian, Iyengar, Ford: "TAQ: Enhancing Fairness and Performance
//! Predictability in Small Packet Regimes", EuroSys 2014, sections 3 and 4).
//!
//! [`Pools`] groups flows by the address of the user who opened them.
//!
//! No clock, no floating point, no unbounded memory: time and the hash seed come in as arguments.

#![forbid(unsafe_code)]

mod active;
mod calls;
mod census;
mod config;
mod epoch;
mod flags;
mod flow;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod handover;
mod handshake;
mod packets;
mod phase;
mod pools;
mod ranges;
mod round_trip;
mod sequence;
mod table;
#[cfg(test)]
mod tests;
mod times;
mod tracker;
mod wheel;

pub use census::Census;
pub use config::{ConfigError, TrackerConfig};
pub use flow::Flow;
pub use packets::PacketKind;
pub use phase::Phase;
pub use pools::{Inserted, Pool, Pools};
pub use ranges::{Range, Ranges};
pub use sequence::MOST_UNDER_WAY;
pub use table::{Expected, Likely};
pub use times::{Coarse, Micros};
pub use tracker::{FlowId, Observation, Tracker};

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
