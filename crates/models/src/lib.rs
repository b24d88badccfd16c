//! The mathematics: one paper, one module. Chains, recursions and closed forms of what happens on a thin link, and the
//! yardsticks of the field. No model knows the simulator: where the two agree is evidence, and it is looked for in
//! `tests/`.
//!
//! Quantities that are parameters of a link are of [`narrows_units`]; what an equation is written in is `f64`, and its
//! unit is in the name (`rtt_s`) or in the documents of the item. A parameter outside its domain is an [`Error`] that
//! states the domain.

#![forbid(unsafe_code)]

pub mod aimd;
pub mod buffers;
pub mod burst;
pub mod control;
pub mod declared;
mod domain;
pub mod fairness;
pub mod latency;
pub mod operating;
pub mod plan;
pub mod sharing;
pub mod spreading;
pub mod taq_chain;
pub mod throughput;

pub use domain::{Error, Result};

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
