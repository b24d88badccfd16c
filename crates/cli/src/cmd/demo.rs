//! `narrows demo`: a thin link getting better, with real kernel TCP: drop-tail, then TAQ, then a kernel peer.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use narrows_lab::peers::{Peer, kind_of};
use narrows_lab::suite::DisciplineOutcome;
use narrows_lab::{Machines, Outcome, Release, Scenario, Suite, SuiteOptions, bench, table};

use super::lab;
use crate::{FAILURE, SUCCESS};

/// The workload of the demonstration is an experiment like any other.
const SCENARIO: &str = include_str!("../../../../experiments/taq/lab/objects-200ms.toml");
/// What is compared, in this order.
const BEFORE: &str = "fifo:30";
const OURS: &str = "taq";
const PEER: &str = "kernel:cake";
/// The kernel of the virtual machines in which all three run where this machine's own kernel lacks the peer.
const KERNEL: &str = "6.12";

/// Arguments of `narrows demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds per discipline; three of them take a little more than three times as long
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u64).range(5..=600))]
    seconds: u64,
    /// Where the JSON, the picture and a page for the browser go
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Seed of sizes and starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run in virtual machines with this kernel, as 6.12, whose clock a busy host cannot disturb; needs qemu, no root
    #[arg(long, value_name = "KERNEL")]
    machine: Option<Release>,
}

/// The machines to run in: those asked for, or some where this kernel lacks the peer and machines can be had.
fn machines(args: &Args) -> anyhow::Result<Option<Machines>> {
    if let Some(release) = &args.machine {
        return lab::machines(release).map(Some);
    }
    let kind = PEER.strip_prefix("kernel:").map_or(PEER, kind_of);
    let Err(why) = Peer::available(kind) else { return Ok(None) };
    let release: Release = KERNEL.parse().map_err(anyhow::Error::msg)?;
    match lab::machines(&release) {
        Ok(machines) => Ok(Some(machines)),
        Err(obstacle) => {
            eprintln!("narrows demo: {PEER} takes no part: {why} ({obstacle:#})");
            Ok(None)
        }
    }
}

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<u8> {
    let machines = machines(&args)?;
    if let (None, Err(why)) = (&machines, bench::available()) {
        eprintln!("narrows demo: {why:#}.");
        eprintln!(
            "What works without: 'narrows doctor' (what this machine can do, and the remedy for each \"no\"), and \
             from the source 'make test' (the disciplines under a scripted clock)."
        );
        return Ok(FAILURE);
    }
    let scenario = Scenario::parse(
        SCENARIO,
        &[
            "name=demo".to_owned(),
            format!("duration={}s", args.seconds),
            format!("seeds=[{}]", args.seed),
            format!("disciplines=[\"{BEFORE}\", \"{OURS}\", \"{PEER}\"]"),
        ],
    )?;
    println!(
        "100 users fetch small objects over {} with {} of propagation: real Linux TCP between namespaces of {}.\n\
         Each discipline for {} s.",
        scenario.rate,
        scenario.rtt,
        machines.as_ref().map_or_else(
            || "this machine".to_owned(),
            |m| format!("virtual machines (kernel {}), whose clock no busy host disturbs", m.version())
        ),
        args.seconds
    );
    let options = SuiteOptions {
        // Machines do not disturb each other; what runs here would.
        jobs: if machines.is_some() { 2 } else { 1 },
        machines,
        command: std::env::args().collect::<Vec<_>>().join(" "),
        ..Default::default()
    };
    let begun = Instant::now();
    let outcome = lab::run(&Suite::new(scenario, options)?)?;
    println!("\n{}", table::render(&outcome));
    let verdict = verdict(&outcome);
    let paths = lab::write(&outcome, Some(&verdict), &args.out)?;
    paths.iter().for_each(|path| println!("{}", path.display()));
    println!("\n{verdict}");
    if let Some(page) = paths.last().and_then(|page| page.canonicalize().ok()) {
        println!("To look at, in a browser: file://{}", page.display());
    }
    println!("({} s)", begun.elapsed().max(Duration::from_secs(1)).as_secs());
    Ok(SUCCESS)
}

fn find<'a>(outcome: &'a Outcome, name: &str) -> Option<&'a DisciplineOutcome> {
    outcome.disciplines.iter().find(|d| d.discipline == name && !d.runs.is_empty())
}

fn value(d: &DisciplineOutcome, key: &str) -> f64 {
    d.summary.get(key).map_or(0.0, |s| s.median)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// One sentence from the numbers, whichever way they fall.
fn verdict(outcome: &Outcome) -> String {
    let (Some(before), Some(ours)) = (find(outcome, BEFORE), find(outcome, OURS)) else {
        return "No verdict: drop-tail and TAQ did not both run.".to_owned();
    };
    let spoiled = outcome.disciplines.iter().flat_map(|d| &d.runs).any(|r| r.spoiled.is_some());
    let stalls = |d: &DisciplineOutcome| value(d, "stall_over_5s");
    let peer = find(outcome, PEER);
    let beside = |f: &dyn Fn(&DisciplineOutcome) -> String| {
        peer.map_or_else(String::new, |p| format!(" (CAKE: {})", f(p)))
    };
    let change =
        if stalls(ours) < stalls(before) { "Verdict: with TAQ" } else { "Verdict: TAQ did not help here:" };
    format!(
        "{change} {} of objects stalled for more than 5 s, behind drop-tail {}{}; the worst stall in a hundred is \
         {:.1} s instead of {:.1} s{}, at {:.0} instead of {:.0} kbit/s of goodput{}, with {} of packets dropped \
         instead of {}{}.{}",
        percent(stalls(ours)),
        percent(stalls(before)),
        beside(&|p| percent(stalls(p))),
        value(ours, "stall_p99_s"),
        value(before, "stall_p99_s"),
        beside(&|p| format!("{:.1} s", value(p, "stall_p99_s"))),
        value(ours, "goodput_kbps"),
        value(before, "goodput_kbps"),
        beside(&|p| format!("{:.0} kbit/s", value(p, "goodput_kbps"))),
        percent(value(ours, "dropped")),
        percent(value(before, "dropped")),
        beside(&|p| percent(value(p, "dropped"))),
        if spoiled { " The machine was too busy, though: do not quote these numbers." } else { "" },
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use narrows_lab::metrics::Spread;

    use super::*;

    fn column(name: &str, stalls: f64) -> DisciplineOutcome {
        let one = |v: f64| Spread { median: v, min: v, max: v };
        DisciplineOutcome {
            discipline: name.to_owned(),
            summary: BTreeMap::from([("stall_over_5s".to_owned(), one(stalls))]),
            ..DisciplineOutcome::default()
        }
    }

    #[test]
    fn the_scenario_inside_is_sound() {
        let s = Scenario::parse(SCENARIO, &[]).unwrap();
        assert_eq!((s.users(), s.rate.as_bps(), s.rtt.secs()), (100, 600_000, 0.2));
    }

    #[test]
    fn no_verdict_without_both() {
        let outcome = Outcome {
            version: String::new(),
            command: String::new(),
            kernel: String::new(),
            scenario: Scenario::parse(SCENARIO, &[]).unwrap(),
            disciplines: vec![column(BEFORE, 0.3), column(OURS, 0.0)],
        };
        // Neither has a run.
        assert!(verdict(&outcome).starts_with("No verdict"));
    }
}
