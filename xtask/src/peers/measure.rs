//! One program, pinned to one core, timed, its memory taken: a process of its own, since the system tells the peak of a
//! child's memory only as the greatest of all children.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// Program to run, and the core to run it on.
#[derive(clap::Args)]
pub struct Args {
    /// The core, counted among those this process may use.
    #[arg(long)]
    core: usize,
    /// Program and arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Cost of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Time from start to end, seconds.
    pub wall_s: f64,
    /// Processor time, user and system, seconds: what a busy machine spoils less.
    pub cpu_s: f64,
    /// Peak resident memory, kB.
    pub rss_kb: i64,
}

/// Output of a program, and the cost of the program.
#[derive(Serialize, Deserialize)]
struct Measured {
    cost: Cost,
    text: String,
}

/// Number of cores that this process may use.
pub fn cores() -> usize {
    sched_getaffinity(Pid::this()).map_or(1, |set| usable(&set).count())
}

/// Runs `command` through a process of its own, pinned to the `core`-th usable core; what it printed, and the cost.
pub fn measured(core: usize, command: &[String]) -> Result<(String, Cost)> {
    let this = std::env::current_exe().context("finding this program")?;
    let output = Command::new(this)
        .args(["measure", "--core", &core.to_string(), "--"])
        .args(command)
        .env("RUST_BACKTRACE", "0")
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("starting {}", command[0]))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("{}\n{}", command.join(" "), message.trim_end());
    }
    let measured: Measured = serde_json::from_slice(&output.stdout).context("reading a measurement")?;
    Ok((measured.text, measured.cost))
}

/// The other side of [`measured`].
pub fn run(args: &Args) -> Result<()> {
    let set = sched_getaffinity(Pid::this()).context("sched_getaffinity")?;
    let core = usable(&set).nth(args.core).context("no such core")?;
    let mut one = CpuSet::new();
    one.set(core).context("CPU_SET")?;
    sched_setaffinity(Pid::this(), &one).context("sched_setaffinity")?;

    let start = Instant::now();
    let output = Command::new(&args.command[0])
        .args(&args.command[1..])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", args.command[0]))?;
    let wall_s = start.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!("ended with {}", output.status);
    }
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?;
    let cpu_s = (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let cost = Cost { wall_s, cpu_s, rss_kb: usage.max_rss() };
    println!("{}", serde_json::to_string(&Measured { cost, text })?);
    Ok(())
}

fn usable(set: &CpuSet) -> impl Iterator<Item = usize> {
    (0..CpuSet::count()).filter(|&core| set.is_set(core).unwrap_or(false))
}
