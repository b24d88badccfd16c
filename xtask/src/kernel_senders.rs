//! How well `narrows diagnose` tells why real kernel senders sent again: downloads that last in `narrows lab`, their
//! retransmissions as the kernel traces them, and what is said of the captures at both ends of the link.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

mod instance;
mod record;
mod score;
mod table;
mod truth;

use record::{Lab, Recording};

const BASE: &str = include_str!("../../experiments/diagnosis/kernel-senders.toml");

/// Arguments of `xtask kernel-senders`.
#[derive(clap::Args)]
pub struct Args {
    /// Variants, by name [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Duration of each recording
    #[arg(long, default_value = "90s")]
    duration: String,
    /// The program [default: $NARROWS_BIN, or narrows beside this one]
    #[arg(long)]
    program: Option<PathBuf>,
    /// Folder for recordings and the table
    #[arg(long, default_value = "out/kernel-senders")]
    out: PathBuf,
    /// Take the recordings that are there already, however long they are
    #[arg(long)]
    keep: bool,
}

/// Senders that are recorded.
struct Variant {
    /// Name of the variant's folder, and of the variant for `--only`.
    name: &'static str,
    title: &'static str,
    flows: u32,
    congestion_control: &'static str,
    sysctl: Option<(&'static str, &'static str)>,
    /// Discipline that replaces the scenario's.
    discipline: Option<&'static str>,
}

const CUBIC_30: Variant = Variant {
    name: "cubic-30",
    title: "30 CUBIC",
    flows: 30,
    congestion_control: "cubic",
    sysctl: None,
    discipline: None,
};

const NO_TIMESTAMPS: Option<(&str, &str)> = Some(("net.ipv4.tcp_timestamps", "0"));

const VARIANTS: [Variant; 7] = [
    CUBIC_30,
    Variant { name: "cubic-200", title: "200 CUBIC", flows: 200, ..CUBIC_30 },
    Variant { name: "bbr-30", title: "30 BBR", congestion_control: "bbr", ..CUBIC_30 },
    Variant { name: "bbr-200", title: "200 BBR", flows: 200, congestion_control: "bbr", ..CUBIC_30 },
    Variant {
        name: "cubic-30-no-sack",
        title: "30 CUBIC without SACK",
        sysctl: Some(("net.ipv4.tcp_sack", "0")),
        ..CUBIC_30
    },
    Variant {
        name: "cubic-30-no-timestamps",
        title: "30 CUBIC without timestamps",
        sysctl: NO_TIMESTAMPS,
        ..CUBIC_30
    },
    Variant {
        name: "cubic-200-no-timestamps",
        title: "200 CUBIC without timestamps",
        flows: 200,
        sysctl: NO_TIMESTAMPS,
        ..CUBIC_30
    },
];

/// Records what is missing, then prints and writes the table. Without what recording needs it ends with status 2.
pub fn run(args: &Args) -> Result<()> {
    for name in &args.only {
        ensure!(
            VARIANTS.iter().any(|v| v.name == name),
            "--only: no variant {name}; there are {}",
            VARIANTS.map(|v| v.name).join(" ")
        );
    }
    let chosen: Vec<&Variant> =
        VARIANTS.iter().filter(|v| args.only.is_empty() || args.only.iter().any(|n| n == v.name)).collect();
    let kept = |variant: &Variant| -> Result<Option<Recording>> {
        if args.keep { Recording::found(&args.out.join(variant.name)) } else { Ok(None) }
    };
    let missing = chosen.iter().map(|v| kept(v)).collect::<Result<Vec<_>>>()?.iter().any(Option::is_none);
    let program = match program(args.program.as_deref()).and_then(|program| {
        // An instance that goes away at once: what is missing shows before anything is recorded.
        if missing { instance::Instance::start().map(|_| program) } else { Ok(program) }
    }) {
        Ok(program) => program,
        Err(error) => {
            eprintln!("kernel-senders: {error:#}");
            std::process::exit(2);
        }
    };
    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    let lab = Lab { program: &program, base: BASE, duration: &args.duration };
    let mut lines: Vec<table::Line> = Vec::new();
    let mut failed = Vec::new();
    for variant in chosen {
        match figures(&lab, variant, kept(variant)?, &args.out) {
            Ok(score) => lines.push((variant.title, score)),
            Err(error) => {
                eprintln!("kernel-senders: {} is left out: {error:#}", variant.name);
                failed.push(variant.name);
            }
        }
    }
    print!("{}", table::markdown(&lines));
    table::write(&lines, &args.out)?;
    if !failed.is_empty() {
        bail!("left out, for the reasons above: {}", failed.join(" "));
    }
    Ok(())
}

/// Scores a variant's recording; records first if `kept` is `None`.
fn figures(lab: &Lab, variant: &Variant, kept: Option<Recording>, out: &Path) -> Result<score::Score> {
    let recording = match kept {
        Some(recording) => recording,
        None => {
            eprintln!("kernel-senders: {}, {}", variant.name, lab.duration);
            lab.record(variant, &out.join(variant.name))?
        }
    };
    eprintln!("kernel-senders: {}: diagnosing", variant.name);
    let score = score::score(lab.program, &recording)?;
    if score.strangers > 0 {
        eprintln!(
            "kernel-senders: {}: the kernel also told of {} connections that are not in the capture: another lab \
             ran on this machine, and slowed this one",
            variant.name, score.strangers
        );
    }
    Ok(score)
}

/// The program that records and diagnoses.
fn program(asked: Option<&Path>) -> Result<PathBuf> {
    let path = match asked.map(Path::to_owned).or_else(|| std::env::var_os("NARROWS_BIN").map(PathBuf::from))
    {
        Some(path) => path,
        None => std::env::current_exe().context("where this program is")?.with_file_name("narrows"),
    };
    ensure!(path.is_file(), "{} is missing: cargo build -p narrows-cli, or --program PATH", path.display());
    Ok(path)
}
