//! Real Linux disciplines (cake, fq_codel, sfq, red, pie, codel, fq, netem) as peers of ours.
//!
//! A peer joins two devices of a namespace at layer 2 and queues what leaves by the first of them. Where the running
//! kernel has the discipline, [`HostBox`] is a bridge with a `tc` queue; where it has not, [`UmlBox`] boots a second
//! kernel as a user process (User-mode Linux, `Documentation/virt/uml/user_mode_linux_howto_v2.rst`) that bridges the
//! two and queues in between. [`Peer`] picks. Either way the discipline is the kernel's own code.

mod command;
mod guest;
mod host;
mod namespace;
mod program;
mod stats;
mod uml;

pub use command::{DEFAULT_OVERHEAD, kernel_discipline, kind_of};
pub use host::{HostBox, host_has};
pub use program::Registers;
pub use stats::{PeerCounters, parse_tc_stats};
pub use uml::{DeviceCounters, UmlBox};

use std::path::PathBuf;

/// Which devices to join, and the queue between them.
#[derive(Clone, Debug)]
pub struct UmlSpec {
    /// The namespace in which both devices live: a name under `/run/netns`, or a path to a namespace file.
    pub netns: String,
    /// The device towards the users: what leaves here is queued.
    pub lan: String,
    /// The device towards the servers.
    pub wan: String,
    /// `tc` commands with `{lan}` and `{wan}` where the device's name belongs; see [`kernel_discipline`].
    pub tc: Vec<String>,
    /// Where scripts and sockets may be written; made if missing. No white space in its path.
    pub workdir: PathBuf,
}

/// Whether this kernel has the discipline and the shaper above it.
fn host_can(kind: &str) -> bool {
    host_has(kind) && (kind == "cake" || host_has("htb"))
}

/// A kernel discipline in line between two devices, by whichever kernel has it.
#[derive(Debug)]
pub enum Peer {
    /// This machine's kernel.
    Host(HostBox),
    /// A kernel in a process of its own.
    Uml(Box<UmlBox>),
}

impl Peer {
    /// Whether discipline `kind` (as `cake`) can take part here.
    ///
    /// # Errors
    /// Why not, and what to install.
    pub fn available(kind: &str) -> Result<(), String> {
        if host_can(kind) {
            return Ok(());
        }
        UmlBox::available()
            .map_err(|why| format!("this kernel lacks sch_{kind} or sch_htb, and User-mode Linux: {why}"))?;
        if UmlBox::has(kind) {
            Ok(())
        } else {
            Err(format!("neither this kernel nor User-mode Linux has sch_{kind}; try another discipline"))
        }
    }

    /// Joins the devices of `spec` with discipline `kind` between them; returns when packets pass.
    ///
    /// # Errors
    /// A device, command or module that failed, with its output.
    pub fn start(kind: &str, spec: UmlSpec) -> anyhow::Result<Self> {
        if host_can(kind) {
            HostBox::start(spec).map(Self::Host)
        } else {
            UmlBox::start(spec).map(Box::new).map(Self::Uml)
        }
    }

    /// `tc -s -j qdisc` of the device towards the users.
    ///
    /// # Errors
    /// If `tc` fails or the guest does not answer.
    pub fn tc_stats(&mut self) -> anyhow::Result<String> {
        match self {
            Self::Host(host) => host.tc_stats(),
            Self::Uml(uml) => uml.tc_stats(),
        }
    }

    /// The counters of the discipline.
    ///
    /// # Errors
    /// As [`Peer::tc_stats`], or if its output has no queue in it.
    pub fn counters(&mut self) -> anyhow::Result<PeerCounters> {
        let text = self.tc_stats()?;
        parse_tc_stats(&text).ok_or_else(|| anyhow::anyhow!("tc printed no counters: {text:.200}"))
    }

    /// Whose kernel queues, for the table.
    #[must_use]
    pub fn kernel(&self) -> String {
        match self {
            Self::Host(_) => "this kernel".into(),
            Self::Uml(uml) => format!("User-mode Linux {}", uml.version()),
        }
    }

    /// Takes the join apart.
    pub fn stop(self) {
        match self {
            Self::Host(host) => host.stop(),
            Self::Uml(uml) => uml.stop(),
        }
    }
}
