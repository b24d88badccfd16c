//! Comparison of ns-3's queue disciplines, ns-2's SFQ, and ours on the same arrivals, a row for each:
//! docs/explanation/simulator-peers.md.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::peers::programs;

#[path = "../../crates/lab/tests/it/queue_peer/arrivals.rs"]
mod arrivals;
mod limits;

use arrivals::{FLOWS, RATE, Sent, agreement, by_flow, ours, plan};

use limits::under_ns2s_limits;

/// Arguments of `xtask queues`.
#[derive(clap::Args)]
pub struct Args {
    /// Seed of PIE's dice in both
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A class of ns-3 and what it is here. ns-3 allows `CoDel` a minimum of one packet of 1500 bytes per queue.
const ROWS: [(&str, &str); 3] =
    [("CoDelQueueDisc", "codel"), ("FqCoDelQueueDisc", "fq_codel:spare=queue"), ("PieQueueDisc", "pie")];

/// Output of the program for ns-3.
#[derive(Deserialize)]
struct Printed {
    arrived: usize,
    dropped: usize,
    sent: Vec<usize>,
}

/// Prints the tables.
pub fn run(args: &Args) -> Result<()> {
    let arrivals: Vec<Sent> = numbered();
    let (program, _) = programs::compile_ns3("peers/ns3/queue.cc")?;
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
    sfq_of_ns2(&arrivals)
}

/// Places and buckets of ns-2's SFQ: as in the TCP scenarios, and with about as many buckets as flows.
const SFQS: [(usize, usize); 3] = [(30, 1024), (30, 16), (120, 16)];

fn sfq_of_ns2(arrivals: &[Sent]) -> Result<()> {
    println!(
        "\n| ns-2's SFQ: places, buckets | dropped by ns-2 | by ours under its limits | by ours | \
         served by flow, ns-2 | ours under its limits | ours | order alike under its limits |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (places, buckets) in SFQS {
        let theirs = ask_ns2(places, buckets, arrivals)?;
        let behind = under_ns2s_limits(places, buckets, arrivals);
        let ours = ours(&format!("sfq:{places}"), 0, 1, arrivals);
        let dropped = |served: &[(usize, u32)]| arrivals.len() - served.len();
        println!(
            "| {places}, {buckets} | {} | {} | {} | {:?} | {:?} | {:?} | {:.1} % |",
            dropped(&theirs),
            dropped(&behind),
            dropped(&ours),
            by_flow(&theirs),
            by_flow(&behind),
            by_flow(&ours),
            100.0 * agreement(&theirs, &behind),
        );
    }
    Ok(())
}

/// Packets that ns-2's SFQ serves, in order.
fn ask_ns2(places: usize, buckets: usize, arrivals: &[Sent]) -> Result<Vec<(usize, u32)>> {
    let mut command = Command::new("ns");
    command.arg(programs::root().join("peers/ns2/queue.tcl"));
    command.args(
        [format!("-places {places} -buckets {buckets} -bps {}", RATE.as_bps())]
            .iter()
            .flat_map(|t| t.split(' ')),
    );
    let trace = fed(&mut command, arrivals).context("ns-2 (Debian: apt-get install ns2)")?;
    let trace = String::from_utf8(trace).context("ns-2's trace")?;
    let flows = |what: &str| -> Vec<usize> {
        let of = |line: &str| line.strip_prefix(what)?.split_whitespace().nth(6)?.parse().ok();
        trace.lines().filter_map(of).collect()
    };
    ensure!(
        flows("+ ").len() == arrivals.len(),
        "ns-2 saw {} of {} packets",
        flows("+ ").len(),
        arrivals.len()
    );
    Ok(flows("- ").into_iter().map(|flow| (flow, 0)).collect())
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
    let mut command = Command::new(program);
    command.args([format!("--kind={kind}"), format!("--bps={}", RATE.as_bps()), format!("--seed={seed}")]);
    let printed = fed(&mut command, arrivals).with_context(|| format!("{kind} in ns-3"))?;
    serde_json::from_slice(&printed).with_context(|| format!("reading what {kind} printed"))
}

/// Output of a program that is given the arrivals.
fn fed(command: &mut Command, arrivals: &[Sent]) -> Result<Vec<u8>> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("starting it")?;
    let text: String =
        arrivals.iter().map(|s| format!("{} {} {}\n", s.at.as_nanos(), s.flow, FLOWS[s.flow].0)).collect();
    // The program reads all input before it prints anything. Dropping the input ends it.
    child.stdin.take().context("its input")?.write_all(text.as_bytes()).context("writing arrivals")?;
    let output = child.wait_with_output().context("waiting for it")?;
    ensure!(output.status.success(), "it ended with {}", output.status);
    Ok(output.stdout)
}
