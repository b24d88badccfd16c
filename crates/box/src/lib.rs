//! The box in line: packets come in by a [`Backend`], an [`Engine`] drives the disciplines, a clock and timers keep it
//! going; around them rules, settings, a control socket, and what is needed to leave the machine as it was.

mod backend;
mod bypass;
mod channel;
mod check;
mod circuits_from;
mod clock;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod confine;
mod control;
mod decisions;
mod discover;
mod doctor;
mod engine;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod handover;
mod host_names;
mod http_503;
mod interface_names;
mod lane;
mod link_loop;
mod log;
mod nfqueue;
mod packet;
mod packet_pair;
#[cfg(feature = "http")]
mod page;
mod privilege;
mod rate_from;
mod responder;
mod rules;
mod run;
mod service;
mod settings;
mod sight;
mod sites;
mod socket_file;
mod state;
mod status;
mod sysctl;
mod users;
mod users_side;
mod watch;
mod watchdog;
mod xdp_pair;

pub use backend::{Backend, Scripted};
pub use channel::Channel;
pub use check::{Check, check};
pub use control::{fetch, fetch_text};
pub use discover::{Found, interfaces, traffic};
pub use doctor::{Finding, Need, can_run, examine};
pub use engine::{Engine, Step};
pub use lane::{LaneSettings, LinkQueue, Switch};
pub use log::Notice;
pub use narrows_netio::links::Interface;
pub use nfqueue::{KernelQueue, Nfqueue, kernel_queues};
pub use packet::{ErrorCounters, HeldPacket};
pub use packet_pair::PacketPair;
pub use rate_from::RateFrom;
pub use rules::Filter;
pub use run::run;
pub use settings::{
    BackendKind, DEFAULT_DISCIPLINE, KEYS, NamedSpec, OptionRow, Options, Reload, Scope, Settings, Shape,
    Source, TABLE,
};
pub use sight::{
    CauseJson, HistogramJson, LostJson, Mark, Sight, SightJson, StallJson, TalkerJson, UserJson,
};
pub use state::{Cleaned, clean, leftovers, living};
pub use status::{DirectionStatus, Status};
pub use watch::Watch;
pub use watchdog::main as watchdog;

/// Folder where running boxes keep their sockets and notes.
pub const RUN_DIR: &str = "/run/narrows";
