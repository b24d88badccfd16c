//! Scenario files: one schema in TOML for the simulator and the lab.
//!
//! [`Experiment`] is what a file says: settings, sweeps, seeds, claims. [`Experiment::expand`] makes [`Run`]s of it,
//! each with a [`Scenario`] in which everything is resolved and checked: whoever runs it reads fields and never a file.
//! What cannot be is refused here, in one sentence that names the file, the key and the remedy.
//! `docs/reference/scenarios.md` and `docs/reference/workloads.md` have every key.

#![forbid(unsafe_code)]

pub mod access_log;
mod addresses;
pub mod calls;
mod claim;
mod error;
mod experiment;
mod expr;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod load;
pub mod maths;
mod model;
mod read;
#[cfg(test)]
mod reference;
mod scenario;
mod service;
mod size;
mod sweep;
mod table;
mod timetable;
mod topology;
mod traffic;
mod web;

pub use addresses::Addresses;
pub use claim::{Bound, Claim, ClaimOutcome, Formula, Judgment, Labels, Reading, Sample};
pub use error::Error;
pub use experiment::{BeforeBox, BeforeWay, Experiment, ForLab, UpWay};
pub use narrows_settings::nearest;
pub(crate) use narrows_settings::quantity;
pub use narrows_settings::quantity::{number, time, time_text};
pub use scenario::{Group, LabSettings, Probes, Run, Scenario, Series, Thin};
pub use service::{DeliveryTrace, OPPORTUNITY, Service, Shaping};
pub use size::{LARGEST, Size, web_sizes};
pub use timetable::{Outages, Timetable};
pub use topology::{Delays, EdgeRouter, Hosts, Link, LinkDiscipline, Loss, Policy, Spacing, Topology};
pub use traffic::{LogEntry, LogSource, LogTiming, OpenedBy, Traffic, TrafficKind, Transport};
pub use web::{Http, Visits, Web};

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
