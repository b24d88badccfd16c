//! The same arrivals through ns-3's queue disciplines and ours, a row for each: docs/simulator-peers.md.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::peers::programs;

#[path = "../../crates/datapath/tests/queue_peer/arrivals.rs"]
mod arrivals;

use arrivals::{FLOWS, RATE, Sent, agreement, by_flow, ours, plan};

/// What to compare.
#[derive(clap::Args)]
pub struct Args {
    /// Seed of PIE's dice in both
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A class of ns-3 and what it is here. ns-3 allows `CoDel` a minimum of one packet of 1500 bytes per queue.
const ROWS: [(&str, &str); 3] =
    [("CoDelQueueDisc", "codel"), ("FqCoDelQueueDisc", "fq_codel"), ("PieQueueDisc", "pie")];

/// What the program prints.
#[derive(Deserialize)]
struct Printed {
    arrived: usize,
    dropped: usize,
    sent: Vec<usize>,
}

/// Prints the table.
pub fn run(args: &Args) -> Result<()> {
    let (program, _) = programs::compile_ns3("peers/ns3/queue.cc")?;
    let arrivals: Vec<Sent> = numbered();
    println!(
        "| ns-3 | ours | arrived | dropped by ns-3 | by ours | served by flow, ns-3 | ours | order alike |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (kind, spec) in ROWS {
        let theirs = ask(&program, kind, args.seed, &arrivals)?;
        ensure!(
            theirs.arrived == arrivals.len(),
            "{kind} saw {} of {} packets",
            theirs.arrived,
            arrivals.len()
        );
        let served: Vec<(usize, u32)> = theirs.sent.iter().map(|&flow| (flow, 0)).collect();
        let ours = ours(spec, 0, args.seed, &arrivals);
        println!(
            "| {kind} | {spec} | {} | {} | {} | {:?} | {:?} | {:.1} % |",
            theirs.arrived,
            theirs.dropped,
            arrivals.len() - ours.len(),
            by_flow(&served),
            by_flow(&ours),
            100.0 * agreement(&served, &ours),
        );
    }
    Ok(())
}

fn numbered() -> Vec<Sent> {
    let mut numbers = [0; FLOWS.len()];
    plan()
        .into_iter()
        .map(|(at, flow)| {
            numbers[flow] += 1;
            Sent { flow, number: numbers[flow] - 1, at }
        })
        .collect()
}

fn ask(program: &std::path::Path, kind: &str, seed: u64, arrivals: &[Sent]) -> Result<Printed> {
    let mut child = Command::new(program)
        .args([format!("--kind={kind}"), format!("--bps={}", RATE.as_bps()), format!("--seed={seed}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let text: String =
        arrivals.iter().map(|s| format!("{} {} {}\n", s.at.as_nanos(), s.flow, FLOWS[s.flow].0)).collect();
    // It reads all before it prints anything. Dropping its input ends it.
    child.stdin.take().context("its input")?.write_all(text.as_bytes()).context("writing arrivals")?;
    let output = child.wait_with_output().context("waiting for ns-3")?;
    ensure!(output.status.success(), "{kind} in ns-3 ended with {}", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("reading what {kind} printed"))
}
