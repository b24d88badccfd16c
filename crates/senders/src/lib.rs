//! Congestion controls of ours in the running kernel: B-TCP, adaptive AIMD and Initial Spreading, as BPF `struct_ops`.
//!
//! The programs are in `bpf/` at the top of the repository, written from the papers and compiled when this crate is
//! built, if clang is there. [`load`] and [`unload`] bring them in and out; any program then chooses one by
//! `setsockopt(TCP_CONGESTION)`, the sysctl, or a route's `congctl`. `docs/how-to/senders.md` is the manual.

mod borrow;
mod driver;
mod knobs;
mod layout;
mod libbpf;
mod load;
mod objects {
    //! The compiled programs, or why there are none.
    #![allow(missing_docs, reason = "made by the build script")]
    include!(concat!(env!("OUT_DIR"), "/objects.rs"));
}
mod pace;
mod scan;
mod watch;

pub use driver::{Driven, SpreadingDriver};
pub use knobs::{Knob, Sender, Settings, settings};
pub use layout::{SenderPhase, Socket};
pub use load::{BPFFS, Loaded, load, loaded, names, possible, sockets, unload};
pub use pace::spread;
pub use watch::{Call, CallStep, WatchedSender};
