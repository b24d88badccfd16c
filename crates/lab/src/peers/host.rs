//! A discipline of the running kernel: a bridge with a `tc` queue on the device towards the users.
//!
//! The sender's device must not offload segmentation: the queue would be handed trains of up to 64 kB. (The guest of
//! [`super::UmlBox`] never sees such trains; its tap splits them.)

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

use super::UmlSpec;
use super::command::fill;
use super::namespace::{Namespace, output};

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

/// A name for a device of ours that no other process or box uses; at most 15 characters, as the kernel wants.
pub(super) fn device_name(role: &str) -> String {
    format!("{role}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed) % 1000)
}

/// Makes a bridge that forwards at once and says nothing itself.
pub(super) fn add_bridge(ns: &Namespace, bridge: &str) -> anyhow::Result<()> {
    ns.run(&format!("ip link add {bridge} type bridge forward_delay 0 mcast_snooping 0"))?;
    // Without this the bridge multicasts router solicitations into the measurement; a kernel without IPv6 refuses,
    // and then has nothing to say.
    let _ = ns.run(&format!("ip link set {bridge} addrgenmode none"));
    ns.run(&format!("ip link set {bridge} up")).map(drop)
}

/// Puts a device into a bridge.
pub(super) fn join(ns: &Namespace, bridge: &str, device: &str) -> anyhow::Result<()> {
    let _ = ns.run(&format!("ip link set {device} addrgenmode none"));
    ns.run(&format!("ip link set {device} master {bridge}")).with_context(|| format!("joining {device}"))?;
    ns.run(&format!("ip link set {device} up")).map(drop)
}

/// Two devices joined by a bridge, with a queue of this kernel between them.
#[derive(Debug)]
pub struct HostBox {
    ns: Namespace,
    bridge: String,
    lan: String,
}

impl HostBox {
    /// Joins the devices of `spec` and installs its queue.
    ///
    /// # Errors
    /// Any command that failed, with its output; what was made is removed.
    pub fn start(spec: UmlSpec) -> anyhow::Result<Self> {
        let ns = Namespace::open(&spec.netns)?;
        let made = Self { ns, bridge: device_name("nb"), lan: spec.lan };
        add_bridge(&made.ns, &made.bridge)?;
        for device in [&made.lan, &spec.wan] {
            join(&made.ns, &made.bridge, device)?;
        }
        for line in &spec.tc {
            made.ns.run(&fill(line, &made.lan, &spec.wan))?;
        }
        Ok(made)
    }

    /// `tc -s -j qdisc` of the device towards the users.
    ///
    /// # Errors
    /// If `tc` fails.
    pub fn tc_stats(&self) -> anyhow::Result<String> {
        self.ns.run(&format!("tc -s -j qdisc show dev {}", self.lan))
    }

    /// Removes queue and bridge.
    pub fn stop(self) {}
}

impl Drop for HostBox {
    fn drop(&mut self) {
        // Each may be gone with its namespace already.
        let _ = self.ns.run(&format!("tc qdisc del dev {} root", self.lan));
        let _ = self.ns.run(&format!("ip link del {}", self.bridge));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_fit_and_differ() {
        let (a, b) = (device_name("nbl"), device_name("nbl"));
        assert!(a != b && a.len() <= 15 && b.len() <= 15, "{a} {b}");
        // The longest process id Linux gives is 4194304.
        assert!("nbl4194304-999".len() <= 15);
    }
}
