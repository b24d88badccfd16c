//! `narrows senders`: congestion controls of ours in the running kernel.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Subcommand;
use narrows_senders::{self as senders, Loaded, Sender, SenderPhase, Socket, SpreadingDriver};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::SUCCESS;

/// Arguments of `narrows senders`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// Folder of the BPF file system, where loaded senders are pinned
    #[arg(long, global = true, value_name = "DIR", default_value = senders::BPFFS)]
    bpffs: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// Load senders into the kernel: narrows_btcp, narrows_aaimd, narrows_is; all of them unless named
    Load(LoadArgs),
    /// Show the loaded senders, their knobs, and the connections of this network namespace that use them
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Drive a loaded narrows_is until it is unloaded; load starts this in the background
    Drive {
        /// Name under which the sender was loaded
        #[arg(default_value = "narrows_is")]
        name: String,
    },
    /// Unload senders; connections that use one keep it
    Unload {
        /// Names of the senders to unload; all unless named
        names: Vec<String>,
    },
}

#[derive(clap::Args)]
struct LoadArgs {
    /// Names of the senders to load; all unless named
    names: Vec<String>,
    /// Set a knob, as f=8; repeatable
    #[arg(long, value_name = "KNOB=VALUE")]
    set: Vec<String>,
    /// Name of the sender in the kernel, at most 15 characters; for one sender
    #[arg(long = "as", value_name = "NAME")]
    alias: Option<String>,
    /// Stay in the foreground, and unload at the end: on Ctrl-C or SIGTERM
    #[arg(long)]
    hold: bool,
}

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<u8> {
    match args.command {
        Command::Load(load_args) => load(&args.bpffs, &load_args)?,
        Command::Status { json } => status(&args.bpffs, json)?,
        Command::Unload { names } => unload(&args.bpffs, names)?,
        Command::Drive { name } => {
            let stop = signals()?;
            let done = SpreadingDriver::new(&args.bpffs, &name)?.run(&|| stop.load(Ordering::Relaxed))?;
            println!("{done}");
        }
    }
    Ok(SUCCESS)
}

/// Loaded senders; a drop of the value unloads the senders.
struct Held<'a> {
    bpffs: &'a Path,
    names: Vec<String>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            match senders::unload(self.bpffs, name) {
                Ok(()) => println!("unloaded {name}"),
                Err(e) => eprintln!("narrows: {e:#}"),
            }
        }
    }
}

/// Set by the signals that end a program.
fn signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).context("signal handler")?;
    }
    Ok(stop)
}

fn load(bpffs: &Path, args: &LoadArgs) -> anyhow::Result<()> {
    let chosen: Vec<Sender> = match &args.names[..] {
        [] => Sender::ALL.to_vec(),
        names => names.iter().map(|n| Sender::named(n)).collect::<anyhow::Result<_>>()?,
    };
    ensure!(
        args.alias.is_none() || chosen.len() == 1,
        "--as gives one sender a name: say which, as narrows senders load narrows_btcp --as mine"
    );
    let settings = senders::settings(&chosen, &args.set)?;
    // Caught before anything is loaded, so that a hasty Ctrl-C leaves nothing behind.
    let stop = signals()?;
    // Also when the second of several fails, the first goes again.
    let mut held = Held { bpffs, names: Vec::new() };
    for one in &settings {
        let name = args.alias.as_deref().unwrap_or(one.sender().name());
        senders::load(bpffs, name, one)?;
        held.names.push(name.to_owned());
        println!("loaded {name}: {}", knobs(one));
        if one.sender().needs_driver() {
            println!("driver of {name}: process {}", start_driver(bpffs, name)?);
        }
    }
    if args.hold {
        println!("Ctrl-C unloads");
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
    } else {
        held.names.clear();
    }
    Ok(())
}

/// Starts a driver that ends with its sender, waits until it lives, and gives the number of its process.
pub(super) fn start_driver(bpffs: &Path, name: &str) -> anyhow::Result<u32> {
    use std::process::{Command, Stdio};
    let program = std::env::current_exe().context("this program")?;
    let mut driver = Command::new(program)
        .args(["senders", "drive", name, "--bpffs"])
        .arg(bpffs)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // Whoever reads what we say waits for the end of it, which must not be the driver's.
        .stderr(Stdio::null())
        // Ctrl-C at this terminal is not for it.
        .process_group(0)
        .spawn()
        .context("narrows senders drive")?;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(20));
        if senders::loaded(bpffs)?.iter().any(|l| l.name == name && l.driven == Some(true)) {
            return Ok(driver.id());
        }
        if let Some(status) = driver.try_wait().context("driver")? {
            bail!("the driver of {name} ended ({status}): narrows senders drive {name} says why");
        }
    }
    bail!("the driver of {name} does not come up");
}

fn unload(bpffs: &Path, names: Vec<String>) -> anyhow::Result<()> {
    let names = if names.is_empty() { senders::names(bpffs) } else { names };
    if names.is_empty() {
        bail!("no sender is loaded (nothing under {}/narrows)", bpffs.display());
    }
    for name in names {
        senders::unload(bpffs, &name)?;
        println!("unloaded {name}");
    }
    Ok(())
}

fn knobs(settings: &senders::Settings) -> String {
    settings.shown().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// Loaded sender and the connections that use the sender, as JSON.
#[derive(Serialize)]
struct Report<'a> {
    name: &'a str,
    /// Sender of ours that this is; none if it was unloaded while connections used it.
    sender: Option<&'static str>,
    knobs: std::collections::BTreeMap<&'static str, String>,
    /// Whether the sender's driver lives; `None` for a sender that needs no driver.
    driven: Option<bool>,
    sockets: Vec<&'a Socket>,
}

fn status(bpffs: &Path, json: bool) -> anyhow::Result<()> {
    let loaded = senders::loaded(bpffs)?;
    let sockets = senders::sockets()?;
    let reports = reports(&loaded, &sockets);
    if json {
        println!("{}", serde_json::to_string_pretty(&reports)?);
        return Ok(());
    }
    if reports.is_empty() {
        println!("no sender is loaded: narrows senders load");
    }
    for report in reports {
        let knobs: Vec<_> = report.knobs.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let what = match report.sender {
            Some(sender) if sender == report.name => String::new(),
            Some(sender) => format!(" ({sender})"),
            None => " (unloaded, still in use)".to_owned(),
        };
        println!("{}{what}  {}  connections {}", report.name, knobs.join(" "), report.sockets.len());
        if report.driven == Some(false) {
            println!(
                "  NO DRIVER: new connections start as plain TCP; narrows senders drive {}",
                report.name
            );
        }
        for socket in report.sockets {
            println!("  {}", line(socket));
        }
    }
    Ok(())
}

fn reports<'a>(loaded: &'a [Loaded], sockets: &'a [Socket]) -> Vec<Report<'a>> {
    let using = |name: &str| sockets.iter().filter(|s| s.name == name).collect::<Vec<_>>();
    let mut reports: Vec<_> = loaded
        .iter()
        .map(|l| Report {
            name: &l.name,
            sender: Some(l.settings.sender().name()),
            knobs: l.settings.shown().collect(),
            driven: l.driven,
            sockets: using(&l.name),
        })
        .collect();
    let mut orphans: Vec<&str> = sockets.iter().map(|s| s.name.as_str()).collect();
    orphans.sort_unstable();
    orphans.dedup();
    orphans.retain(|name| loaded.iter().all(|l| l.name != *name));
    reports.extend(orphans.into_iter().map(|name| Report {
        name,
        sender: None,
        knobs: std::collections::BTreeMap::new(),
        driven: None,
        sockets: using(name),
    }));
    reports
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn line(s: &Socket) -> String {
    let ssthresh = s.ssthresh.map_or_else(|| "none".to_owned(), |n| n.to_string());
    let phase = match &s.phase {
        SenderPhase::Burst { window } => format!("burst, window {window:.3}"),
        SenderPhase::SlowStart => "slow start".to_owned(),
        SenderPhase::Avoidance => "congestion avoidance".to_owned(),
        SenderPhase::ToSpread { gap_ns } => format!("to be spread, {:.2} ms apart", ms(*gap_ns)),
        SenderPhase::Spreading { allowed, gap_ns } => {
            format!("spreading, {allowed} segments so far, {:.2} ms apart", ms(*gap_ns))
        }
        SenderPhase::Adaptive { beta, rttmin_us, rttmax_us } => format!(
            "beta {beta:.3}, rtt {:.1} to {:.1} ms",
            f64::from(*rttmin_us) / 1e3,
            f64::from(*rttmax_us) / 1e3
        ),
    };
    format!(
        "{} > {}  cwnd {}  ssthresh {ssthresh}  srtt {:.1} ms  {phase}",
        s.local,
        s.remote,
        s.cwnd,
        f64::from(s.srtt_us) / 1e3
    )
}
