//! Links, topologies, workloads and probes in simulated time.
//!
//! A run is a pure function of a scenario and a seed: the same bytes come out on any machine.

#![forbid(unsafe_code)]

mod results;

pub use results::{Column, Data, Results, Table};
