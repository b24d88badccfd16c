//! Scenario files: one schema in TOML for the simulator and the lab.
//!
//! [`Experiment`] is what a file says: settings, sweeps, seeds, claims. [`Experiment::expand`] makes [`Run`]s of it, each
//! with a [`Scenario`] in which everything is resolved and checked: whoever runs it reads fields and never a file. What
//! cannot be is refused here, in one sentence that names the file, the key and the remedy.

#![forbid(unsafe_code)]

mod scenario;
mod size;
mod topology;
mod traffic;

pub use scenario::{LabSettings, Probes, Run, Scenario, Series, Thin};
pub use size::Size;
pub use topology::{Delays, Discipline, Hosts, Link, Loss, Spread, Topology};
pub use traffic::{Kind, LogEntry, LogSource, LogTiming, OpenedBy, Traffic};
