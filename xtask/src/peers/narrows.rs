//! Our own simulator, called as anybody would call it: `narrows sim FILE --set key=value ... --json`. The only file
//! that knows its settings' and figures' names.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::metrics::Metrics;
use super::plan::{Job, Settings, Simulator, style};
use super::programs::{Program, root, target};
use super::store::digest;

/// Program `narrows`, if it can simulate; results go below `out`.
pub fn program(path: Option<&Path>, out: &Path) -> Result<Program> {
    let path = path.map_or_else(|| target().join("release/narrows"), Path::to_owned);
    let binary = std::fs::read(&path)
        .with_context(|| format!("{} (make build, or --narrows PATH)", path.display()))?;
    let help = Command::new(&path).args(["sim", "--help"]).output();
    let help = help.with_context(|| format!("starting {}", path.display()))?;
    ensure!(help.status.success(), "{} has no `sim`", path.display());
    let file = root().join("peers/narrows/dumbbell.toml");
    let text = std::fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    // The settings, and the reading of results, are part of the program that made them.
    let digest = digest(&[&binary[..], &text, include_bytes!("narrows.rs")].concat());
    let out = out.join("narrows");
    Ok(Program { digest, command: Box::new(move |job| command(&path, &file, &out, job)), metrics })
}

fn command(program: &Path, file: &Path, out: &Path, job: &Job) -> Vec<String> {
    let folder = format!("{}-{}-{}", job.case.id(), job.flavour, job.settings.seed);
    let folder: PathBuf = out.join(folder.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
    let mut command = vec![program.display().to_string(), "sim".to_owned(), file.display().to_string()];
    for set in sets(job) {
        command.extend(["--set".to_owned(), set]);
    }
    let seed = job.settings.seed.to_string();
    let rest = ["--seeds", &seed, "--jobs", "1", "--json", "--quiet", "--fresh", "--out"];
    command.extend(rest.map(str::to_owned));
    command.push(folder.display().to_string());
    command
}

/// Settings in the words of a scenario file.
fn sets(job: &Job) -> Vec<String> {
    let s = &job.settings;
    let as_ns3 = style(job) == Simulator::Ns3;
    // ns-3's packets have two bytes of PPP.
    let overhead = if as_ns3 { 2 } else { 0 };
    let mtu = s.wire_bytes - overhead;
    // ns-2's `ts_option_size_` is 10.
    let option = if as_ns3 || job.case.timed() { 12 } else { 10 };
    let mss = mtu - 40 - option * s.timestamps;
    let duration_s = s.warmup_s + s.duration_s;
    let slice_s = if s.slice_s > 0 { s.slice_s } else { duration_s };
    let one_way_us = [s.rtt_min_ms, s.rtt_max_ms].map(|rtt_ms| rtt_ms * 500);
    let mut sets = vec![
        format!("mtu={mtu}"),
        format!("overhead={overhead}"),
        format!("jitter={}s", s.start_s),
        format!("warmup={}s", s.warmup_s),
        format!("duration={duration_s}s"),
        format!("dephase={}ms", s.dephase_ms),
        format!("link.0.rate={}", s.rate_bps),
        format!("link.0.discipline={}", discipline(s)),
        format!("hosts.0.rate={}", 100 * s.rate_bps),
        format!("hosts.1.rate={}", 100 * s.rate_bps),
        format!("hosts.1.delay={}us..{}us", one_way_us[0], one_way_us[1]),
        format!("traffic.0.flows={}", s.flows),
        format!("tcp.initial_ssthresh={}", s.window_packets),
        format!("tcp.receive_window={}", s.window_packets * mss),
        format!("tcp.rto_min={}ms", s.rto_min_ms),
        format!("probes.slice={slice_s}s"),
    ];
    let tcp: &[&str] = match (as_ns3, s.tcp) {
        (true, _) => &AS_NS3,
        (false, "newreno") => &["recovery=newreno"],
        (false, _) => &["recovery=sack"],
    };
    sets.extend(tcp.iter().map(|set| format!("tcp.{set}")));
    if job.case.timed() {
        // The whole of TCP where time is what counts.
        sets.push("tcp.handshake=three_way".to_owned());
    }
    if s.timestamps > 0 {
        sets.extend(["tcp.timestamps=on", "tcp.backoff_ends=new_ack"].map(str::to_owned));
    }
    sets
}

/// The packet in service does not count here.
fn discipline(s: &Settings) -> String {
    let limit = s.buffer_packets - 1;
    match s.queue {
        "red" => format!("red:{limit},gentle=off,packet={}", s.wire_bytes),
        // In ns-2 every flow has a bucket of its own.
        "sfq" => format!("sfq:{limit},buckets=65536"),
        _ => format!("fifo:{limit}"),
    }
}

/// Settings that dumbbell.cc gives ns-3, in the words of docs/reference/tcp.md.
const AS_NS3: [&str; 6] = [
    "preset=ns3",
    "congestion=reno",
    "startup=slow_start",
    "delayed_ack=off",
    "syn_retries=never",
    "retries=never",
];

/// From what `--json` prints: of one point and one seed, median and value are the same.
fn metrics(job: &Job, text: &str) -> Result<Metrics> {
    let told: Value = serde_json::from_str(text).context("reading what narrows printed")?;
    let figures = &told[0]["points"][0]["figures"];
    let figure = |name: &str| figures[name]["median"].as_f64();
    let must = |name: &str| figure(name).with_context(|| format!("narrows told no {name}"));
    let s = &job.settings;
    let sliced = |name: &str| if s.slice_s > 0 { must(name).map(Some) } else { Ok(None) };
    Ok(Metrics {
        jfi_slice: sliced(&format!("jain_{}s", s.slice_s))?,
        jfi_long: figure("jain_long"),
        utilisation: must("utilisation")?,
        loss: must("loss")?,
        timeouts_per_flow_s: must("timeouts")? / f64::from(s.flows * s.duration_s),
        zero_share: sliced("zero_slices")?,
        goodput_bps: must("goodput_bps")?,
        departed_packets: departed(s, must("utilisation")?),
    })
}

/// Full packets a link so busy has sent; SYNs are few.
fn departed(s: &Settings, utilisation: f64) -> u64 {
    let bits = utilisation * s.rate_bps as f64 * f64::from(s.duration_s);
    (bits / (8.0 * f64::from(s.wire_bytes))).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::plan::{Wish, jobs};

    /// The scenario crate reads the file under the settings of every run, and finds the same flows and times in it.
    #[test]
    fn every_run_is_a_scenario() {
        let text = include_str!("../../../peers/narrows/dumbbell.toml");
        let only: Vec<String> = ["s1", "a", "b", "c", "u"].map(Into::into).into();
        let ours = |job: &&Job| job.simulator == Simulator::Narrows;
        let all = jobs(&Wish { only: &only, seeds: &[1], quick: false });
        for job in all.iter().filter(ours) {
            let experiment = narrows_scenario::Experiment::parse(text, &sets(job)).unwrap();
            let runs = experiment.expand().unwrap();
            let [run] = &runs[..] else { panic!("{} runs", runs.len()) };
            let s = &run.scenario;
            assert_eq!(s.traffic[0].users(), job.settings.flows);
            assert_eq!(s.topology.links[0].rate.as_bps(), job.settings.rate_bps);
            let seconds = job.settings.warmup_s + job.settings.duration_s;
            assert_eq!(s.duration.as_secs_f64(), f64::from(seconds));
            let tcp = &s.traffic[0].tcp_from;
            let options = tcp.timestamp_bytes();
            assert_eq!(tcp.mss + 40 + options + s.topology.links[0].overhead, job.settings.wire_bytes);
            assert_eq!(tcp.receive_window, tcp.mss * job.settings.window_packets);
            assert_eq!(tcp.delayed_ack, None);
            let delays = s.topology.hosts[1].delay;
            let rtt_ms = [delays.low, delays.high].map(|one_way| one_way.as_secs_f64() * 2e3);
            assert_eq!(rtt_ms, [job.settings.rtt_min_ms, job.settings.rtt_max_ms].map(f64::from));
        }
    }
}
