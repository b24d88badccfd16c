//! Queues of Linux itself (cake, fq_codel, sfq, red, pie, codel, fq, netem) as peers of ours.
//!
//! A [`Peer`] joins two devices of a namespace by a bridge and queues what leaves by the first of them: the discipline
//! is the running kernel's own code. Where this machine's kernel lacks one, a lab in a virtual machine has it
//! ([`crate::machines`]). The sender's device must not offload segmentation: the queue would be handed trains of up to
//! 64 kB.

mod command;
mod stats;

pub use command::{DEFAULT_OVERHEAD, kernel_discipline, kind_of};
pub use stats::{PeerCounters, parse_tc_stats};

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use command::fill;

/// Devices to join, and the queue between them.
#[derive(Clone, Debug)]
pub struct PeerSpec {
    /// The namespace in which both devices live: a name under `/run/netns`, or a path to a namespace file.
    pub netns: String,
    /// The device towards the users: what leaves here is queued.
    pub lan: String,
    /// The device towards the servers.
    pub wan: String,
    /// `tc` commands with `{lan}` and `{wan}` where the device's name belongs; see [`kernel_discipline`].
    pub tc: Vec<String>,
}

/// Longest time for a port of the bridge to begin to forward.
const FORWARDING: Duration = Duration::from_secs(5);

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Whether the running kernel has discipline `kind` (as `cake`). Tried in a namespace that is gone afterwards.
#[must_use]
pub fn host_has(kind: &str) -> bool {
    let arguments = match kind {
        "red" => "limit 60000 min 5000 max 15000 avpkt 1000 burst 9",
        "choke" => "limit 100 bandwidth 1mbit",
        "tbf" => "rate 1mbit burst 1600 limit 15000",
        "netem" => "delay 1ms",
        _ => "",
    };
    let line = format!("unshare --net tc qdisc add dev lo root {kind} {arguments}");
    let mut words = line.split_whitespace();
    words.next().is_some_and(|program| output(Command::new(program).args(words), &line).is_ok())
}

/// Two devices joined by a bridge, with a queue of the running kernel between them.
#[derive(Debug)]
pub struct Peer {
    ns: Namespace,
    bridge: String,
    lan: String,
}

impl Peer {
    /// Whether discipline `kind` (as `cake`) can take part here.
    ///
    /// # Errors
    /// What the running kernel lacks, and the remedy.
    pub fn available(kind: &str) -> Result<(), String> {
        let shaper = if kind == "cake" { "cake" } else { "htb" };
        match [kind, shaper].into_iter().find(|kind| !host_has(kind)) {
            None => Ok(()),
            Some(lacks) => Err(format!(
                "this kernel lacks sch_{lacks}; a virtual machine has it: narrows lab --machine 6.12"
            )),
        }
    }

    /// Joins the devices of `spec` with its queue between them; packets pass when this returns.
    ///
    /// # Errors
    /// A command that failed, with its output; what was made is removed.
    pub fn start(spec: PeerSpec) -> anyhow::Result<Self> {
        let ns = Namespace::open(&spec.netns)?;
        // At most 15 characters, as the kernel wants.
        let bridge = format!("nb{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed) % 1000);
        let made = Self { ns, bridge, lan: spec.lan };
        made.add_bridge()?;
        for device in [&made.lan, &spec.wan] {
            made.join(device)?;
        }
        for line in &spec.tc {
            made.ns.run(&fill(line, &made.lan, &spec.wan))?;
        }
        for device in [&made.lan, &spec.wan] {
            made.wait_for(device)?;
        }
        Ok(made)
    }

    /// Makes a bridge that forwards at once and says nothing itself.
    fn add_bridge(&self) -> anyhow::Result<()> {
        let bridge = &self.bridge;
        self.ns.run(&format!("ip link add {bridge} type bridge forward_delay 0 mcast_snooping 0"))?;
        // Without this the bridge multicasts router solicitations into the measurement; a kernel without IPv6 refuses,
        // and then has nothing to say.
        let _ = self.ns.run(&format!("ip link set {bridge} addrgenmode none"));
        self.ns.run(&format!("ip link set {bridge} up")).map(drop)
    }

    fn join(&self, device: &str) -> anyhow::Result<()> {
        let _ = self.ns.run(&format!("ip link set {device} addrgenmode none"));
        self.ns
            .run(&format!("ip link set {device} master {}", self.bridge))
            .with_context(|| format!("joining {device}"))?;
        self.ns.run(&format!("ip link set {device} up")).map(drop)
    }

    /// Waits until frames pass a device: the kernel lets a port take part some time after its link is up.
    fn wait_for(&self, device: &str) -> anyhow::Result<()> {
        let until = Instant::now() + FORWARDING;
        loop {
            let said = self.ns.run(&format!("ip -o -d link show dev {device}"))?;
            if said.contains("state forwarding") && said.contains("state UP") {
                return Ok(());
            }
            if Instant::now() > until {
                bail!(
                    "{device}: the bridge does not forward what it carries after {} s: {}",
                    FORWARDING.as_secs(),
                    said.trim()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// `tc -s -j qdisc` of the device towards the users.
    ///
    /// # Errors
    /// If `tc` fails.
    pub fn tc_stats(&self) -> anyhow::Result<String> {
        self.ns.run(&format!("tc -s -j qdisc show dev {}", self.lan))
    }

    /// The counters of the discipline.
    ///
    /// # Errors
    /// As [`Peer::tc_stats`], or if its output has no queue in it.
    pub fn counters(&self) -> anyhow::Result<PeerCounters> {
        let text = self.tc_stats()?;
        parse_tc_stats(&text).ok_or_else(|| anyhow::anyhow!("tc printed no counters: {text:.200}"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Each may be gone with its namespace already.
        let _ = self.ns.run(&format!("tc qdisc del dev {} root", self.lan));
        let _ = self.ns.run(&format!("ip link del {}", self.bridge));
    }
}

/// Network namespace, given by the path of its file.
#[derive(Clone, Debug)]
struct Namespace(PathBuf);

impl Namespace {
    /// Opens a namespace by a name that `ip netns` knows, or by a path such as `/proc/123/ns/net`.
    fn open(name: &str) -> anyhow::Result<Self> {
        let path = if name.contains('/') { PathBuf::from(name) } else { Path::new("/run/netns").join(name) };
        if !path.exists() {
            bail!("network namespace '{name}': no {}; make it with `ip netns add {name}`", path.display());
        }
        Ok(Self(path))
    }

    /// `program` about to run inside.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.0.display())).arg("--").arg(program);
        command
    }

    /// Runs a line of words inside; no word may hold white space.
    fn run(&self, line: &str) -> anyhow::Result<String> {
        let mut words = line.split_whitespace();
        let program = words.next().context("an empty command line")?;
        let mut command = self.command(program);
        output(command.args(words), line)
    }
}

/// Standard output of a command; on failure an error with the command's error output.
fn output(command: &mut Command, line: &str) -> anyhow::Result<String> {
    let done = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{line}` did not start; needs util-linux and iproute2"))?;
    if !done.status.success() {
        bail!("`{line}` failed ({}): {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
