//! `xtask memory`: what a box holds in memory with so many connections, each with packets that wait.
//!
//! The box stands between namespaces of this process, as in `costs`, on a link of 25 Mbit/s down. All connections
//! open, then each gets data in turns, quicker than the link carries them, until the queue is full. The greatest
//! resident size is the kernel's own count (`VmHWM` of `/proc/PID/status`).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::case::{Case, Layer, Queue, Side, Traffic};
use super::inside::Ends;
use super::load::Load;
use super::place::Place;

/// Numbers of connections, and the most that the box may hold with each, kB: what a router with 64 and one with 128 MB
/// can spare.
const BOUNDS: [(u32, u64); 2] = [(1_000, 16_000), (10_000, 40_000)];
/// Turns of every connection beyond what the link carries: more than the queue has room for.
const ROUNDS: usize = 8;

/// Arguments of `xtask memory`.
#[derive(clap::Args)]
pub struct Args {
    /// The program, as scripts/static builds it
    program: PathBuf,
}

/// Measures with each number of connections; fails if the box holds more than it may.
pub fn run(args: &Args) -> Result<()> {
    if !nix::unistd::Uid::effective().is_root() {
        println!("SKIP memory of the box: namespaces take root, try sudo");
        return Ok(());
    }
    let program = args.program.canonicalize().with_context(|| args.program.display().to_string())?;
    // Names of namespaces and sockets of boxes live below /run: an empty one keeps them apart from the machine's.
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).context("namespaces")?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).context("private mounts")?;
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), none).context("an empty /run")?;
    let mut broken = 0;
    for (flows, most) in BOUNDS {
        let (opened, full) = measure(flows, &program).with_context(|| format!("{flows} connections"))?;
        let kept = if full <= most { "kept" } else { "BROKEN" };
        broken += u32::from(full > most);
        println!(
            "{flows} connections: {opened} kB once open, {full} kB with a full queue; at most {most}: {kept}"
        );
    }
    ensure!(broken == 0, "{broken} bounds of memory are broken");
    Ok(())
}

/// The greatest resident size in kB when all connections are open, and with a full queue.
fn measure(flows: u32, program: &Path) -> Result<(u64, u64)> {
    let queue = Queue::Box { backend: "nfqueue".to_owned(), discipline: "taq".to_owned() };
    let case = Case { layer: Layer::Routed, traffic: Traffic::Waiting, flows, queue };
    let place = Place::new(&case, program)?;
    let ends = Ends::open(case.traffic)?;
    let mut load = Load::new(flows, case.layer);
    for _ in 0..load.turns() {
        for burst in load.open() {
            ends.send(&burst)?;
        }
    }
    let opened = place.memory()?;
    for _ in 0..ROUNDS * load.turns() {
        for burst in load.exchange().iter().filter(|burst| burst.from == Side::Servers) {
            ends.send_at_once(burst)?;
        }
    }
    let full = place.memory()?;
    let handled = place.handled(Side::Servers)?.unwrap_or(0);
    ensure!(
        handled >= u64::from(flows),
        "of {flows} connections the box sent {handled} packets to the users"
    );
    Ok((opened, full))
}
