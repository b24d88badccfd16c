//! `narrows senders`: congestion controls of ours in the running kernel.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::Subcommand;
use narrows_senders::{self as senders, Loaded, Phase, Sender, Socket};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Arguments of `narrows senders`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// The BPF file system, where loaded senders are pinned
    #[arg(long, global = true, value_name = "DIR", default_value = senders::BPFFS)]
    bpffs: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// Bring senders into the kernel: narrows_btcp, narrows_aaimd; all of them unless named
    Load(LoadArgs),
    /// Show which are loaded, their knobs, and the connections of this network namespace that use them
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take senders out again; connections that use one go on with it
    Unload {
        /// Which; all unless named
        names: Vec<String>,
    },
}

#[derive(clap::Args)]
struct LoadArgs {
    /// Which; all unless named
    names: Vec<String>,
    /// Set a knob, as f=8; may be repeated
    #[arg(long, value_name = "KNOB=VALUE")]
    set: Vec<String>,
    /// The name the kernel shall know it by, at most 15 characters; for one sender
    #[arg(long = "as", value_name = "NAME")]
    alias: Option<String>,
    /// Stay, and unload at the end: on Ctrl-C or when told to terminate
    #[arg(long)]
    hold: bool,
}

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Load(load_args) => load(&args.bpffs, &load_args)?,
        Command::Status { json } => status(&args.bpffs, json)?,
        Command::Unload { names } => unload(&args.bpffs, names)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What is loaded goes when this is dropped, if it is told to.
struct Held<'a> {
    bpffs: &'a std::path::Path,
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

fn load(bpffs: &std::path::Path, args: &LoadArgs) -> anyhow::Result<()> {
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
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).context("signals")?;
    // Also when the second of several fails, the first goes again.
    let mut held = Held { bpffs, names: Vec::new() };
    for one in &settings {
        let name = args.alias.as_deref().unwrap_or(one.sender().name());
        senders::load(bpffs, name, one)?;
        held.names.push(name.to_owned());
        println!("loaded {name}: {}", knobs(one));
    }
    if args.hold {
        println!("Ctrl-C unloads");
        signals.forever().next();
    } else {
        held.names.clear();
    }
    Ok(())
}

fn unload(bpffs: &std::path::Path, names: Vec<String>) -> anyhow::Result<()> {
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

/// One loaded sender and who uses it, as JSON has it.
#[derive(Serialize)]
struct Report<'a> {
    name: &'a str,
    /// Which of ours, or nothing if it was unloaded while connections used it.
    sender: Option<&'static str>,
    knobs: std::collections::BTreeMap<&'static str, String>,
    sockets: Vec<&'a Socket>,
}

fn status(bpffs: &std::path::Path, json: bool) -> anyhow::Result<()> {
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
        sockets: using(name),
    }));
    reports
}

fn line(s: &Socket) -> String {
    let ssthresh = s.ssthresh.map_or_else(|| "none".to_owned(), |n| n.to_string());
    let phase = match &s.phase {
        Phase::Burst { window } => format!("burst, window {window:.3}"),
        Phase::SlowStart => "slow start".to_owned(),
        Phase::Avoidance => "congestion avoidance".to_owned(),
        Phase::Adaptive { beta, rttmin_us, rttmax_us } => format!(
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
