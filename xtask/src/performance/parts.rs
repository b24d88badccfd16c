//! The parts: which program measures each, and how its output is read.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::{Row, read};

/// A part of the table.
pub struct Part {
    pub name: &'static str,
    /// Duration on an idle machine.
    pub takes: &'static str,
    /// Runs the benchmark and returns its output; the folder is for the benchmark's files.
    pub run: fn(&Path) -> Result<String>,
    /// Reads rows from the benchmark's output.
    pub read: fn(&str) -> Result<Vec<Row>>,
}

/// All, in the table's order.
pub const PARTS: [Part; 8] = [
    Part { name: "simulator", takes: "some four minutes", run: simulator, read: read::simulator },
    Part { name: "growth", takes: "a minute", run: growth, read: read::growth },
    Part { name: "cores", takes: "a minute", run: cores, read: read::cores },
    Part { name: "queue", takes: "two minutes", run: queue, read: read::queue },
    Part { name: "sight", takes: "half a minute", run: sight, read: read::sight },
    Part { name: "box", takes: "four minutes, as root", run: live_box, read: read::live_box },
    Part { name: "diagnose", takes: "two minutes", run: diagnose, read: read::diagnose },
    Part { name: "plan", takes: "seconds", run: plan, read: read::plan },
];

/// Simulated link that is captured both ways.
struct CapturedLink {
    name: &'static str,
    /// Keys of the scenario's head.
    link: &'static str,
    /// Keys of the scenario's traffic.
    traffic: &'static str,
}

/// Links with hardly a stall, with as many as users of a thin link have, and with more than anybody has.
const CAPTURED: [CapturedLink; 3] = [
    CapturedLink {
        name: "calm",
        link: "rate = '200mbit'\nrtt = '40ms'\nduration = '60s'\ndiscipline = 'fifo:1000'",
        traffic: "kind = 'long'\nflows = 20",
    },
    CapturedLink {
        name: "users",
        link: "rate = '2mbit'\nrtt = '100ms'\nduration = '3000s'\ndiscipline = 'fifo:60'",
        traffic: "kind = 'objects'\nusers = 20\nconnections = 2\nsize = '60kB'",
    },
    CapturedLink {
        name: "crowd",
        link: "rate = '10mbit'\nrtt = '100ms'\nduration = '600s'\ndiscipline = 'fifo:100'",
        traffic: "kind = 'long'\nflows = 300",
    },
];

impl CapturedLink {
    fn scenario(&self) -> String {
        let Self { name, link, traffic } = self;
        format!("name = '{name}'\n{link}\nprobes.capture = ['thin', 'thin.back']\n[[traffic]]\n{traffic}\n")
    }
}

/// Runs a program whose standard error is discarded; returns the standard output.
fn output(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let done = command.stderr(Stdio::null()).output().with_context(|| format!("starting {shown}"))?;
    ensure!(done.status.success(), "{shown}: {}", done.status);
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

fn cargo(args: &[&str]) -> Result<String> {
    output(Command::new("cargo").args(args))
}

/// The program, built for speed.
fn narrows() -> Result<String> {
    cargo(&["build", "--release", "-q", "-p", "narrows-cli"])?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    Ok(format!("{target}/release/narrows"))
}

fn simulator(out: &Path) -> Result<String> {
    narrows()?;
    let this = std::env::current_exe().context("finding this program")?;
    let folder = out.join("peers");
    output(Command::new(this).args(["--as-is", "peers", "--only", "a,b,c", "--out"]).arg(&folder))?;
    std::fs::read_to_string(folder.join("runs.csv")).context("reading runs.csv")
}

fn growth(_: &Path) -> Result<String> {
    cargo(&["bench", "-q", "-p", "narrows-sim", "--bench", "scale"])
}

fn cores(_: &Path) -> Result<String> {
    let run = cargo(&["bench", "-q", "-p", "narrows-sim", "--bench", "parts"])?;
    Ok(run + &cargo(&["bench", "-q", "-p", "narrows-runner", "--bench", "sweep"])?)
}

fn queue(_: &Path) -> Result<String> {
    let of = ["fifo+lookup", "taq", "taq:paper", "100", "10000", "50000", "1000000"];
    let bench = ["bench", "-q", "-p", "narrows-qdisc", "--bench", "per_packet", "--"];
    // The box's unit sets the same allocator option.
    output(Command::new("cargo").args(bench).args(of).env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"))
}

fn sight(_: &Path) -> Result<String> {
    cargo(&["bench", "-q", "-p", "narrows-box", "--bench", "sight"])
}

fn live_box(_: &Path) -> Result<String> {
    let program = narrows()?;
    let args = ["run", "-q", "--release", "-p", "narrows-box", "--example", "live_bench"];
    output(Command::new("cargo").args(args).env("NARROWS_BIN", program))
}

/// Ours for each capture, both directions; behind the first, the seconds of the peers that are installed.
fn diagnose(out: &Path) -> Result<String> {
    let program = narrows()?;
    let mut text = String::new();
    for (at, captured) in CAPTURED.iter().enumerate() {
        let name = captured.name;
        let (file, folder) = (out.join(format!("{name}.toml")), out.join(name));
        std::fs::write(&file, captured.scenario()).with_context(|| format!("writing {}", file.display()))?;
        let seed = ["--quiet", "--seeds", "1", "--out"];
        output(Command::new(&program).arg("sim").arg(&file).args(seed).arg(&folder))?;
        let captures = captures(&folder)?;
        let bench = ["bench", "-q", "-p", "narrows-diagnose", "--features", "files", "--bench", "read", "--"];
        let paths: Vec<_> = captures.iter().map(|path| path.to_string_lossy()).collect();
        let args: Vec<&str> = bench.into_iter().chain(paths.iter().map(AsRef::as_ref)).collect();
        let ours = cargo(&args)?;
        text += &format!("capture {name}\n{ours}");
        if at == 0 {
            for (peer, args) in
                [("tcptrace", &["-l", "-n"][..]), ("tshark", &["-n", "-q", "-z", "expert", "-r"][..])]
            {
                let began = Instant::now();
                if captures.iter().all(|path| output(Command::new(peer).args(args).arg(path)).is_ok()) {
                    text += &format!("{peer} {:.3}\n", began.elapsed().as_secs_f64());
                }
            }
        }
    }
    Ok(text)
}

/// Captures below a folder, in full, for cargo runs a bench in its package's folder.
fn captures(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "pcap") {
                found.push(path.canonicalize().with_context(|| path.display().to_string())?);
            }
        }
    }
    ensure!(!found.is_empty(), "{}: no capture was written", folder.display());
    found.sort();
    Ok(found)
}

/// Milliseconds of a plan, the second to the sixth time.
fn plan(_: &Path) -> Result<String> {
    let program = narrows()?;
    let mut times = Vec::new();
    for _ in 0..6 {
        let began = Instant::now();
        output(
            Command::new(&program).args(["plan", "--rate", "600kbit", "--users", "100", "--rtt", "200ms"]),
        )?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times[1..].iter().map(|ms| format!("{ms:.2}\n")).collect())
}
