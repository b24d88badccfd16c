//! `narrows lab`: an experiment with real kernel TCP, from a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use narrows_lab::worker::{Say, say};
use narrows_lab::{
    GuestJob, Machines, Outcome, Release, RunFiles, Scenario, Suite, SuiteOptions, picture, report, run_one,
    table, worker,
};

use progress::Show;

use crate::{FAILURE, SUCCESS};

mod progress;
mod sender;

/// Arguments of `narrows lab`.
#[derive(clap::Args)]
pub struct Args {
    /// Scenario file, in TOML
    file: PathBuf,
    /// Run this discipline alone; repeatable, and may name one that the file does not list
    #[arg(long, value_name = "DISCIPLINE")]
    only: Vec<String>,
    /// Replace a setting of the file, as duration=30s or traffic.0.users=50
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run this seed alone
    #[arg(long)]
    seed: Option<u64>,
    /// Folder for the JSON, the picture and a page for the browser
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Write the packets of both ends to pcap files beside the results
    #[arg(long)]
    capture: bool,
    /// Number of objects with the longest stalls to list for each discipline, after the table
    #[arg(long, value_name = "N", default_value_t = 0)]
    worst: usize,
    /// Run in virtual machines with this kernel, as 6.12, whose clock no busy host disturbs; needs qemu and no root
    #[arg(long, value_name = "KERNEL")]
    machine: Option<Release>,
    /// Number of runs at a time, each in namespaces of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    jobs: u16,
}

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<u8> {
    let mut scenario = Scenario::load(&args.file, &args.set)?;
    for line in &scenario.ignored {
        eprintln!("{line}");
    }
    let machines = args.machine.as_ref().map(machines).transpose()?;
    let options = SuiteOptions {
        machines,
        only: args.only,
        seed: args.seed,
        jobs: usize::from(args.jobs),
        files: Some(RunFiles { folder: args.out.clone(), capture: args.capture }),
        command: std::env::args().collect::<Vec<_>>().join(" "),
    };
    // Caught before anything is loaded, so that a hasty Ctrl-C leaves nothing behind.
    let stop = stopped_by_signals()?;
    let outcome = if options.machines.is_some() {
        run_until(&Suite::new(scenario, options)?, &stop)?
    } else {
        let chosen = scenario.congestion_control.clone();
        let _lent = lend(&mut scenario)?;
        let mut outcome = run_until(&Suite::new(scenario, options)?, &stop)?;
        outcome.scenario.congestion_control = chosen;
        outcome
    };
    if outcome.disciplines.iter().all(|d| d.runs.is_empty()) {
        // Why has been said as it happened.
        return Ok(FAILURE);
    }
    print!("{}{}", table::render(&outcome), table::worst(&outcome, args.worst));
    for path in write(&outcome, &[], &args.out)? {
        println!("{}", path.display());
    }
    Ok(SUCCESS)
}

/// Machines with a kernel of this series, in which this very program runs.
pub fn machines(release: &Release) -> anyhow::Result<Machines> {
    eprintln!("narrows lab: kernel {release}: looking for it, or fetching it");
    Machines::new(release, std::env::current_exe().context("the path of this program")?)
}

/// Loads the sender of ours that a scenario asks for, and names it in its place.
fn lend(scenario: &mut Scenario) -> anyhow::Result<Option<sender::Lent>> {
    let lent = sender::lend(Path::new(narrows_senders::BPFFS), &scenario.congestion_control)?;
    if let Some(lent) = &lent {
        lent.name().clone_into(&mut scenario.congestion_control);
    }
    Ok(lent)
}

/// Runs one job of the lab inside a virtual machine, and leaves its record for the host.
pub fn guest_main() -> anyhow::Result<u8> {
    let work = || -> anyhow::Result<()> {
        let mut job = GuestJob::read()?;
        let lent = lend(&mut job.scenario)?;
        let stop = AtomicBool::new(false);
        let progress = |tick| say(&Say::<()>::Tick(tick));
        let files = job.files();
        let record = run_one(&job.scenario, &job.discipline, job.seed, Some(&files), &progress, &stop)?;
        drop(lent);
        GuestJob::leave(&record)
    };
    match work() {
        Ok(()) => Ok(SUCCESS),
        Err(e) => {
            say(&Say::<()>::Failed(format!("{e:#}")));
            Ok(FAILURE)
        }
    }
}

/// Runs a suite with live progress; Ctrl-C and SIGTERM end it cleanly.
pub fn run(suite: &Suite) -> anyhow::Result<Outcome> {
    run_until(suite, &*stopped_by_signals()?)
}

fn stopped_by_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).context("signal handler")?;
    }
    Ok(stop)
}

fn run_until(suite: &Suite, stop: &AtomicBool) -> anyhow::Result<Outcome> {
    let show = Show::new(suite.scenario());
    suite.run(&|event| show.event(event), stop)
}

/// Writes what came of a suite and gives the paths: the JSON, the picture, and a page with all that, which `verdict`
/// leads.
pub fn write(outcome: &Outcome, verdict: &[String], out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let json = outcome.write_json(out)?;
    let (drawing, no_png) = picture::write(outcome, out)?;
    if let Some(why) = no_png {
        eprintln!("no PNG: {why}");
    }
    Ok(vec![json, drawing, report::write(outcome, verdict, out)?])
}

/// Arguments of the hidden `narrows lab-worker`.
#[derive(clap::Args)]
pub struct WorkerArgs {
    /// Role of this process: client, server or emulator
    role: String,
    /// Instructions for the role, in JSON
    spec: String,
}

/// Runs a part of the lab inside a namespace.
pub fn worker_main(args: WorkerArgs) -> anyhow::Result<u8> {
    worker::main(&args.role, &args.spec).map(|()| SUCCESS)
}
