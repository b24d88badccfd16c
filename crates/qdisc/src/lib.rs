//! Queue disciplines that know neither clock, thread nor socket: packets and times go in, packets, verdicts and a
//! wake-up time come out. The discipline that runs live is the one that is simulated.
//!
//! The seam is one page: [`Packet`], [`Qdisc`], and beside them [`ReversePath`] and [`Manage`]. [`Driver`] joins two
//! disciplines into a box; [`Spec`] names a discipline as text (`fifo:30`, `taq`, `taq:mode=paper`) and builds it.

#![forbid(unsafe_code)]

// The crate's own name lets the harness of the integration tests also drive what is compiled for tests only.
#[cfg(test)]
extern crate self as narrows_qdisc;

mod acks;
mod boxed;
mod buckets;
mod cake;
pub mod classes;
mod codel;
mod deficit;
mod dice;
mod driver;
#[cfg(test)]
#[rustfmt::skip]
mod drop_front;
mod drr;
mod early;
mod fair_queues;
mod fifo;
mod flow_fifos;
mod flow_sizes;
mod flows_waiting;
pub mod follow;
mod fq_codel;
mod keys;
mod lanes;
mod new_flows;
mod pie;
mod record;
mod red;
mod report;
mod rio;
#[cfg(test)]
mod samples;
mod seam;
mod sfq;
mod shaper;
mod sojourn;
mod spec;
pub mod taq;
mod users;
mod verdict;

pub use buckets::Buckets;
pub use cake::{AckFilter, Cake, CakeConfig, Isolate};
pub use codel::{Codel, CodelConfig};
pub use dice::Dice;
pub use driver::{Direction, Driver, Event};
pub use drr::{Drr, DrrConfig, Queues};
pub use fifo::{Fifo, Limit};
pub use fq_codel::{FlowsOrUsers, FqCodel, FqCodelConfig, Spare};
pub use keys::{Buffer, Ppm};
pub use narrows_settings::{Key, SettingError, Settings};
pub use narrows_users::{CircuitId, Side, User};
pub use pie::{Pie, PieConfig};
pub use record::Record;
pub use red::{Red, RedConfig};
pub use report::{AdmissionReport, ClassReport, Counters, Report, WaitingPool};
pub use rio::{Rio, RioConfig, TaggedBy};
pub use seam::{Ahead, BoxedDiscipline, Discipline, Manage, Packet, Qdisc, ReversePath};
pub use sfq::{Sfq, SfqConfig};
pub use shaper::{Framing, Shaper, ShaperConfig};
pub use spec::{DisciplineSettings, Limits, Spec};
pub use users::{CircuitRates, LEVELS as SITE_LEVELS, Site};
pub use verdict::{Backlog, Reason, Verdict, Verdicts};

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
#[path = "../tests/it/harness/mod.rs"]
mod harness;
#[cfg(test)]
mod tests;
