//! Links, topologies, workloads and probes in simulated time.
//!
//! A run is a pure function of a scenario and a seed: the same bytes come out on any machine. Parts of a scenario that
//! do not meet may be simulated at the same time; threads are the caller's.

#![forbid(unsafe_code)]

mod app;
mod build;
mod connection;
mod conservation;
mod drop_tail;
mod edge;
mod ends;
mod event;
pub mod figures;
mod flow_stats;
mod host_config;
mod ids;
mod link;
mod loss;
mod network;
mod own;
mod packet;
mod parts;
mod path_split;
mod port;
mod probe;
mod qlog;
mod quic;
pub mod replay;
mod request;
mod results;
mod run;
mod shaped;
mod srpt;
mod statistics;
mod tap;
mod tfrc;
mod tls;
mod transfer;
mod usage;
mod world;

pub use build::BuildError;
pub use link::LinkCounters;
pub use own::{Fate, MakeControl, Nothing, Own, OwnQueue};
pub use parts::Parts;
pub use probe::PartEnd;
pub use results::{Column, Data, Results, Table};
pub use run::{RunError, join, run, run_part, run_with};

#[cfg(test)]
mod tests;

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
