//! `narrows sim`: experiments in simulation, from files.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use narrows_runner::{Error, Event, Middle, RunOptions, RunPlan, RunReport, digest, execute, verdicts};
use serde_json::{Value, json};

use crate::{FAILURE, SUCCESS};

pub(crate) mod explain;
pub(crate) mod picture;
mod progress;
pub(crate) mod table;

/// Status of a program ended by Ctrl-C.
pub(super) const INTERRUPTED: u8 = 130;
/// Time after the first signal within which a second signal is ignored.
const PATIENCE: Duration = Duration::from_secs(1);

/// Arguments of `narrows sim`.
#[derive(clap::Args)]
pub struct Args {
    /// Scenario files, in TOML; --list prints those of experiments/
    files: Vec<PathBuf>,
    /// Replace a setting of the files, as duration=30s or traffic.0.users=50; a swept setting gets this one value
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seeds to run in place of the files' own: 1..10, or 1,4,9
    #[arg(long)]
    seeds: Option<String>,
    /// Folder for the results (out/sim/NAME; several files get a folder each below it)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Number of runs at a time, or of independent parts of the last runs (as many as there are cores)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Show these figures in table and picture, as jain_20s,goodput_kbps
    #[arg(long, value_name = "FIGURES", value_delimiter = ',')]
    show: Vec<String>,
    /// Print and draw means over seeds instead of medians
    #[arg(long)]
    mean: bool,
    /// Print and draw means over seeds with their 95 % intervals (Student's), in place of medians and ranges
    #[arg(long, conflicts_with = "mean")]
    ci: bool,
    /// Write the table as JSON
    #[arg(long)]
    json: bool,
    /// Repeat runs that earlier calls have finished
    #[arg(long)]
    fresh: bool,
    /// Explain what would run, and run nothing; with --out, also draw the network there
    #[arg(long)]
    explain: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
    /// End with status 1 if a claim comes out worse than its file expects
    #[arg(long)]
    strict: bool,
    /// List the scenarios below experiments/
    #[arg(long)]
    list: bool,
}

/// A file, read and checked.
struct Work {
    plan: RunPlan,
    out: PathBuf,
}

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<u8> {
    if args.list {
        return list(Path::new("experiments"));
    }
    ensure!(
        !args.files.is_empty(),
        "no scenario is named: give a file, as `narrows sim few.toml`; --list names those below experiments/, --help \
         all options"
    );
    // All files are read before any runs.
    let works = works(&args)?;
    for work in &works {
        shown(&work.plan, &args.show)?;
    }
    let jobs = args.jobs.map_or_else(cores, usize::from);
    if args.explain {
        for work in &works {
            say(&explain::text(&work.plan, &work.out, jobs));
            if args.out.is_some() {
                say(&format!("{}\n", picture::network(&work.plan, &work.out)?.display()));
            }
        }
        return Ok(SUCCESS);
    }
    let stop = stop_on_signal()?;
    let middle = match (args.mean, args.ci) {
        (_, true) => Middle::Interval,
        (true, false) => Middle::Mean,
        (false, false) => Middle::Median,
    };
    let (mut good, mut told) = (true, Vec::new());
    for work in &works {
        let options = RunOptions { out: work.out.clone(), jobs, fresh: args.fresh };
        let report = match run(&work.plan, &options, &stop, args.quiet) {
            Err(stopped @ Error::Stopped { .. }) => {
                eprintln!("{}: {stopped}", work.plan.name);
                return Ok(INTERRUPTED);
            }
            other => other.with_context(|| work.plan.name.clone())?,
        };
        good &= as_expected(&work.plan, &report);
        let pictures = picture::write(&work.plan, &report, &work.out, &args.show, middle)?;
        if args.json {
            told.push(as_json(work, &report));
        } else {
            let paths: Vec<&Path> = [work.out.as_path()].into_iter().chain(pictures.as_deref()).collect();
            let paths: Vec<String> = paths.iter().map(|p| format!("{}\n", p.display())).collect();
            say(&format!("{}{}", table::render(&work.plan, &report, &args.show, middle), paths.concat()));
        }
    }
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&told)?));
    }
    Ok(if good || !args.strict { SUCCESS } else { FAILURE })
}

/// Writes to standard output; ignores an error, because a reader may have closed the output.
pub(super) fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// True once a signal asks to stop. Another one a while later insists: some shells and tools send the first one twice.
pub(super) fn stop_on_signal() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).context("signal handler")?;
    let asked = stop.clone();
    std::thread::spawn(move || {
        let mut first: Option<Instant> = None;
        for _ in signals.forever() {
            asked.store(true, Ordering::Relaxed);
            if first.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                std::process::exit(INTERRUPTED.into());
            }
        }
    });
    Ok(stop)
}

/// Number of cores that this process may use.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn works(args: &Args) -> anyhow::Result<Vec<Work>> {
    let mut sets = args.set.clone();
    if let Some(seeds) = &args.seeds {
        let range = seeds.contains("..");
        sets.push(if range { format!("seeds={seeds}") } else { format!("seeds=[{seeds}]") });
    }
    let (mut works, mut names) = (Vec::new(), BTreeSet::new());
    for file in &args.files {
        let (plan, ignored) = RunPlan::load(file, &sets)?;
        if !args.quiet {
            ignored.iter().for_each(|why| eprintln!("{}: {why}", plan.name));
        }
        if !names.insert(plan.name.clone()) {
            bail!(
                "{}: name = '{}' is also that of another file: expected different names",
                file.display(),
                plan.name
            );
        }
        let out = match &args.out {
            Some(out) if args.files.len() == 1 => out.clone(),
            Some(out) => out.join(&plan.name),
            None => Path::new("out/sim").join(&plan.name),
        };
        works.push(Work { plan, out });
    }
    Ok(works)
}

/// Refuses figures that no run of the plan can have.
fn shown(plan: &RunPlan, asked: &[String]) -> anyhow::Result<()> {
    if asked.is_empty() {
        return Ok(());
    }
    let known: BTreeSet<String> =
        plan.jobs.iter().flat_map(|job| narrows_sim::figures::names(&job.scenario)).collect();
    if let Some(name) = asked.iter().find(|name| !known.contains(*name)) {
        let near = narrows_scenario::nearest(name, known.iter().map(String::as_str))
            .map_or_else(|| beginning(name, &known), |near| format!("did you mean '{near}'? "));
        bail!(
            "{}: --show {name}: no run has such a figure; {near}docs/reference/probes.md has all",
            plan.name
        );
    }
    Ok(())
}

/// Hint with known figures that begin with the name asked for, as `jain_20s` does with `jain`; empty if none does.
fn beginning(name: &str, known: &BTreeSet<String>) -> String {
    let found: Vec<&str> = known.iter().filter(|k| k.starts_with(name)).map(String::as_str).take(5).collect();
    if found.is_empty() { String::new() } else { format!("did you mean one of {}? ", found.join(", ")) }
}

/// Runs a plan and shows the progress of the runs.
pub(super) fn run(
    plan: &RunPlan,
    options: &RunOptions,
    stop: &AtomicBool,
    quiet: bool,
) -> Result<RunReport, Error> {
    let show = progress::Show::new(plan, options.jobs);
    let watch = |event: Event<'_>| {
        if !quiet {
            show.event(event);
        }
    };
    let report = execute(plan, options, &narrows_runner::simulate, stop, &watch);
    show.finish();
    report
}

/// Whether every claim came out as its file expects, or better.
fn as_expected(plan: &RunPlan, report: &RunReport) -> bool {
    let mut pairs = plan.claims.iter().zip(&report.verdicts);
    pairs.all(|(claim, verdict)| verdict.as_ref().is_ok_and(|v| v.outcome >= claim.expect))
}

/// Table as JSON.
fn as_json(work: &Work, report: &RunReport) -> Value {
    let plan = &work.plan;
    let coords = |values: &[String]| -> Value {
        plan.axes.iter().zip(values).map(|(axis, value)| (axis.name.clone(), json!(value))).collect()
    };
    let means = digest(plan, &report.summaries, Middle::Interval);
    let points: Vec<Value> = digest(plan, &report.summaries, Middle::Median)
        .iter()
        .zip(&means)
        .map(|(point, means)| {
            let figures: Value = point
                .figures
                .iter()
                .map(|(name, [min, median, max])| {
                    let [low, mean, high] = means.figures[name];
                    let mut told = json!({ "min": min, "median": median, "mean": mean, "max": max });
                    if point.seeds > 1 {
                        told["ci95"] = json!([low, high]);
                    }
                    (name.clone(), told)
                })
                .collect();
            json!({ "coords": coords(&point.coords), "seeds": point.seeds, "figures": figures })
        })
        .collect();
    let claims: Vec<Value> = plan
        .claims
        .iter()
        .zip(&report.verdicts)
        .map(|(claim, verdict)| match verdict {
            Ok(v) => json!({
                "text": claim.text, "source": claim.source, "sentence": claim.sentence,
                "reading": claim.reading.word(), "bound": claim.bound.to_string(),
                "outcome": verdicts::word(v.outcome), "expected": verdicts::word(claim.expect),
                "worst": v.worst.1, "at": v.worst.0,
            }),
            Err(why) => json!({ "text": claim.text, "source": claim.source, "error": why }),
        })
        .collect();
    json!({
        "name": plan.name, "out": work.out.to_string_lossy(), "hash": report.manifest.hash,
        "points": points, "claims": claims, "files": report.manifest.files,
    })
}

/// Names what can be run.
fn list(folder: &Path) -> anyhow::Result<u8> {
    let mut files = Vec::new();
    let reading = || {
        format!(
            "{}: cannot be read; expected the folder of experiments: run this at the top of the repository",
            folder.display()
        )
    };
    // Files beside the folders are lists of scenarios, not scenarios.
    for entry in std::fs::read_dir(folder).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        if path.is_dir() {
            collect(&path, &mut files).with_context(reading)?;
        }
    }
    files.sort();
    for file in files {
        let name = file.display().to_string();
        match RunPlan::load(&file, &[]) {
            Ok((plan, _)) => say(&format!("{name:44} {:5} runs  {}\n", plan.jobs.len(), plan.about)),
            Err(why) => say(&format!("{name:44} not for the simulator: {}\n", why.problem)),
        }
    }
    Ok(SUCCESS)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "toml") {
            files.push(path);
        }
    }
    Ok(())
}
