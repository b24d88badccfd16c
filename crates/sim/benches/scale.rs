//! How run time and memory grow with the number of flows. `cargo bench -p narrows-sim --bench scale`; a number after
//! `--` is the most flows to run.
//!
//! Run time: files of ten packets that begin within 20 s over 10 Gbit/s, so that more flows also means more of them at
//! the same time. Memory: connections that stand and carry nothing; what one takes is the slope between two numbers of
//! them. Each case runs in a process of its own, because the peak of a process never falls.

use core::ops::ControlFlow;
use std::process::Command;

use narrows_scenario::Experiment;
use narrows_testing::cpu_time_ns;

type Error = Box<dyn std::error::Error>;

/// One class of traffic over a link that is wide enough.
fn scenario(rate: &str, duration: &str, jitter: &str, traffic: &str) -> String {
    format!(
        r#"
name = "scale"
rate = "{rate}"
rtt = "20ms"
mtu = 1500
overhead = 0
discipline = "fifo:10000"
duration = "{duration}"
jitter = "{jitter}"
[tcp]
recovery = "sack"
[[traffic]]
flows = 1
opened_by = "sender"
{traffic}
"#
    )
}

fn files() -> String {
    scenario("10gbit", "30s", "20s", "kind = 'files'\nsize = '14480B'")
}

fn idle() -> String {
    scenario("1gbit", "12s", "10s", "kind = 'telnet'\ninterval = '100000s'\nbytes = 100")
}

/// Largest memory this process has had, in bytes; 0 if the kernel does not report it.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}

/// Runs one case, the fewer flows the more often, and prints its mean time and the peak of memory. Not the least time:
/// the kernel accounts a processor's time in ticks, which the shortest runs fall between.
fn case(text: &str, preset: &str, flows: u64) -> Result<(), Error> {
    let sets = [format!("traffic.0.flows={flows}"), format!("tcp.preset={preset}")];
    let runs = Experiment::parse(text, &sets)?.expand()?;
    let times = (300_000 / flows).clamp(1, 100);
    let start = cpu_time_ns();
    for run in (0..times).flat_map(|_| &runs) {
        narrows_sim::run(&run.scenario, run.seed, &mut |_| ControlFlow::Continue(()))?;
    }
    let seconds = (cpu_time_ns() - start) / 1e9;
    println!("{} {}", seconds / (times * runs.len() as u64) as f64, peak_bytes());
    Ok(())
}

/// Runs one case in a process of its own; returns seconds of processor time per run and peak memory in bytes.
fn measure(kind: &str, preset: &str, flows: u64) -> Result<(f64, u64), Error> {
    let flows = flows.to_string();
    let out = Command::new(std::env::current_exe()?).args(["--case", kind, preset, &flows]).output()?;
    let text = String::from_utf8(out.stdout)?;
    let told = text.split_once(' ').and_then(|(s, b)| Some((s.parse().ok()?, b.trim().parse().ok()?)));
    Ok(told.ok_or_else(|| format!("{kind} {flows}: {}", String::from_utf8_lossy(&out.stderr)))?)
}

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [_, kind, preset, flows] = args.as_slice() {
        return case(&if kind == "idle" { idle() } else { files() }, preset, flows.parse()?);
    }
    let most: u64 = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(1_000_000);
    let n_log_n = |n: u64| n as f64 * (n as f64).log2();
    println!("{:>9} {:>9} {:>11} {:>14} {:>10}", "flows", "seconds", "us a flow", "of n log n", "peak, MB");
    let mut first = None;
    for flows in [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|flows| *flows <= most) {
        let (seconds, bytes) = measure("files", "ns2", flows)?;
        let unit: f64 = *first.get_or_insert(seconds / n_log_n(flows));
        let (each, grown) = (seconds * 1e6 / flows as f64, seconds / n_log_n(flows) / unit);
        println!("{flows:>9} {seconds:>9.3} {each:>11.2} {grown:>14.2} {:>10.1}", bytes as f64 / 1e6);
    }
    for preset in ["ns2", "linux"] {
        let (few, many) = (100_000.min(most), 300_000.min(3 * most));
        let [less, more] = [measure("idle", preset, few)?.1, measure("idle", preset, many)?.1];
        let each = (more as f64 - less as f64) / (many - few) as f64;
        println!(
            "{preset}: {few} idle flows {:.1} MB, {many} {:.1} MB: {each:.0} B each",
            less as f64 / 1e6,
            more as f64 / 1e6
        );
    }
    Ok(())
}
