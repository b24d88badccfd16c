//! What the box may do: asked for before anything is touched, given up when it is no longer needed.

use anyhow::{Context, bail};
use caps::{CapSet, Capability, CapsHashSet};
use narrows_netio::priority;

/// Packets and rules: CAP_NET_ADMIN for queues, rules and interface settings, CAP_NET_RAW for packet sockets and
/// because `iptables` opens a raw socket to speak to the kernel.
const NEEDED: [(Capability, &str); 2] = [
    (Capability::CAP_NET_ADMIN, "queues, packet filter rules and interface settings"),
    (
        Capability::CAP_NET_RAW,
        "packet sockets, and the raw socket through which iptables speaks to the kernel",
    ),
];

/// Checks that we may do what a box does.
///
/// # Errors
/// Names the capability that is missing and the remedy.
pub fn check() -> anyhow::Result<()> {
    for (capability, why) in NEEDED {
        if !caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false) {
            bail!(
                "no permission: {capability} is missing, needed for {why}. Run as root (sudo narrows run ...)"
            );
        }
    }
    Ok(())
}

/// Gives up all other capabilities, in this thread and whatever it starts from now on.
///
/// # Errors
/// If the kernel refuses.
pub fn keep_only_needed() -> anyhow::Result<()> {
    let keep: CapsHashSet = NEEDED.iter().map(|n| n.0).collect();
    // Without CAP_SETPCAP the bounding set stays as it is; a child that is not root gains nothing from it.
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP).unwrap_or(false) {
        for capability in caps::all().difference(&keep) {
            // One this kernel does not know is not there to be given up.
            let _ = caps::drop(None, CapSet::Bounding, *capability);
        }
    }
    // Inheritable and ambient, so that iptables can still take the rules out where we are not root.
    caps::set(None, CapSet::Inheritable, &keep).context("cannot set inheritable capabilities")?;
    // Effective first: it may never hold more than permitted.
    caps::set(None, CapSet::Effective, &keep).context("cannot give up capabilities (effective)")?;
    caps::set(None, CapSet::Permitted, &keep).context("cannot give up capabilities (permitted)")?;
    if !nix::unistd::Uid::effective().is_root() {
        for capability in &keep {
            caps::raise(None, CapSet::Ambient, *capability).context("cannot set ambient capabilities")?;
        }
    }
    Ok(())
}

/// Gives up every capability of this thread: it talks to people only.
pub fn give_up_all() {
    for set in [CapSet::Bounding, CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted]
    {
        // What is refused was not to be had, or can do no harm alone.
        let _ = caps::clear(None, set);
    }
}

/// Asks for the CPU a little before others (nice -10), where we may: on a machine that has other work a timer is
/// otherwise late by that work's time slice, some milliseconds. At load 3 on two cores 10 Mbit/s fell 0.3 % short
/// without.
pub fn prefer() {
    // Where it is refused we do without.
    let _ = priority::set_nice(-10);
}

/// Puts this thread before ordinary programs (SCHED_FIFO, priority 10), but not the threads and programs it starts.
///
/// # Errors
/// If the kernel refuses: CAP_SYS_NICE is missing.
pub fn realtime() -> anyhow::Result<()> {
    priority::realtime(10, true).context(
        "cannot run in real time (SCHED_FIFO): CAP_SYS_NICE is missing; leave --realtime out, or run as root",
    )
}
