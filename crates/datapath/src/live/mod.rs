//! The box in line: packets come in by a [`Backend`], an [`Engine`] drives the disciplines, a clock and timers keep it
//! going; around them rules, settings, a control socket, and what is needed to leave the machine as it was.

mod backend;
mod control;
mod engine;
mod lane;
mod mmsg;
mod netlink;
mod nfqueue;
mod packet;
mod rules;
mod run;
mod status;

pub use backend::{Backend, Scripted};
pub use control::{default_path, fetch, fetch_text};
pub use engine::{Engine, Step};
pub use lane::{Lane, LaneSettings, Switch};
pub use nfqueue::{KernelQueue, Nfqueue, kernel_queues};
pub use packet::HeldPacket;
pub use run::{Settings, run};
pub use status::{
    BacklogJson, ClassJson, CountersJson, DirectionStatus, DoorJson, PlaceJson, ReportJson, Status,
};

/// Where running boxes keep their sockets and notes.
pub const RUN_DIR: &str = "/run/narrows";
