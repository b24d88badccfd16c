//! Experiments with real kernel TCP in namespaces this program makes.
//!
//! ```text
//!   cli ──veth── box ──veth── emu ──veth── srv
//!   users        routes,      a delay      senders
//!   10.77/16     queues       each way
//! ```
//!
//! All users live in one namespace, each behind an address of its own, because a box pools flows by source address.
//! The box is the real `narrows run`, or a kernel discipline as its peer. Delay is made by a program of ours in the
//! `emu` namespace, so that an experiment needs no module a kernel may lack, and so that its lateness can be known.
//!
//! A [`Scenario`] says what to run, [`Suite`] runs it for each discipline and seed, [`table`] shows what came of it.

pub mod bench;
pub mod browser;
pub mod column;
mod doctor;
pub mod machines;
pub mod metrics;
mod middle;
pub mod peers;
pub mod picture;
pub mod record;
pub mod report;
pub mod run;
pub mod scenario;
pub mod suite;
pub mod table;
pub mod worker;

pub use bench::{Bench, sweep};
pub use doctor::examine;
pub use machines::{GuestJob, Machines};
pub use narrows_machine::Release;
pub use narrows_scenario::Transport;
pub use record::RunRecord;
pub use run::{RunFiles, run_one};
pub use scenario::{Scenario, Traffic};
pub use suite::{Outcome, Suite, SuiteOptions};
