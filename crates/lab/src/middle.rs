//! Box in the middle of the lab: `narrows run` itself, or a kernel discipline as its peer.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use narrows_scenario::LinkDiscipline;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::bench::{Bench, Layer, Room, found};
use super::column::BoxColumn;
use super::peers::{Peer, PeerSpec, kernel_discipline, kind_of};
use super::scenario::Scenario;

/// Longest time for `narrows run` to start.
const START: Duration = Duration::from_secs(15);

/// A box that runs.
pub enum Middle {
    /// `narrows run`.
    Narrows {
        /// Process of the box.
        child: Child,
        /// Control socket of the box.
        control: PathBuf,
    },
    /// A kernel's discipline.
    Kernel(Peer),
}

/// The bench that a column needs.
pub fn layer(scenario: &Scenario, column: &str) -> Layer {
    let kernel = BoxColumn::read(column).is_ok_and(|column| column.kernel().is_some());
    if kernel || scenario.backend == "packet" { Layer::Bridged } else { Layer::Routed }
}

/// The `tc` commands for the way from the users, where a kernel's discipline `down` stands before the way to them.
fn kernel_up(scenario: &Scenario, down: &str) -> Result<Vec<String>, String> {
    let Some(up) = &scenario.up else { return Ok(Vec::new()) };
    let own = up.discipline.as_ref().map(|text| text.parse::<LinkDiscipline>());
    let name = match own {
        None => down.to_owned(),
        Some(Ok(LinkDiscipline::Kernel(name))) => name,
        Some(Ok(LinkDiscipline::Ours(narrows_qdisc::Spec::Fifo(narrows_qdisc::Limit::Packets(n))))) => {
            format!("pfifo limit {n}")
        }
        Some(_) => {
            let expected = "same, kernel:NAME or fifo:N where the way down has a kernel's discipline";
            return Err(format!(
                "up_discipline = '{}': expected {expected}",
                up.discipline.as_deref().unwrap_or("")
            ));
        }
    };
    let lines = kernel_discipline(&name, up.rate, scenario.overhead)?;
    Ok(lines.into_iter().map(|line| line.replace("{lan}", "{wan}")).collect())
}

/// Reason why there can be no such column; `None` if there can.
pub fn unknown(scenario: &Scenario, column: &str) -> Option<String> {
    let check = || {
        let column = BoxColumn::read(column)?;
        match column.kernel() {
            Some(name) => {
                kernel_discipline(name, column.kernel_rate(scenario)?, scenario.overhead)?;
                kernel_up(scenario, name).map(drop)
            }
            None => {
                column.discipline.parse::<narrows_qdisc::Spec>().map_err(|e| e.to_string())?;
                let up = scenario.up.as_ref().and_then(|up| up.discipline.as_deref());
                if let Some(kernel) = up.filter(|up| up.starts_with("kernel:")) {
                    return Err(format!(
                        "up_discipline = '{kernel}': expected one of ours where the way down has one"
                    ));
                }
                column.rate(scenario).map(drop)
            }
        }
    };
    check().err()
}

/// Reason why a column cannot take part on this machine; `None` if it can.
pub fn obstacle(scenario: &Scenario, column: &str) -> Option<String> {
    let kernel = |column: &BoxColumn<'_>| Peer::available(kind_of(column.kernel()?)).err();
    unknown(scenario, column).or_else(|| BoxColumn::read(column).ok().as_ref().and_then(kernel))
}

impl Middle {
    /// Puts what a column names in the box; returns when packets pass.
    pub fn start(bench: &Bench, scenario: &Scenario, column: &str) -> anyhow::Result<Self> {
        let read = BoxColumn::read(column).map_err(anyhow::Error::msg)?;
        match read.kernel() {
            Some(name) => {
                let rate = read.kernel_rate(scenario).map_err(anyhow::Error::msg)?;
                let mut tc = kernel_discipline(name, rate, scenario.overhead).map_err(anyhow::Error::msg)?;
                tc.extend(kernel_up(scenario, name).map_err(anyhow::Error::msg)?);
                let spec = PeerSpec {
                    netns: bench.netns(Room::Box),
                    lan: "lan0".to_owned(),
                    wan: "wan0".to_owned(),
                    tc,
                };
                Peer::start(spec).map(Self::Kernel).context(column.to_owned())
            }
            None => Self::narrows(bench, scenario, &read),
        }
    }

    fn narrows(bench: &Bench, scenario: &Scenario, column: &BoxColumn<'_>) -> anyhow::Result<Self> {
        let discipline = column.discipline;
        let down = column.rate(scenario).map_err(anyhow::Error::msg)?;
        let control = bench.dir().join("box.sock");
        let log = bench.dir().join("box.log");
        let mut command = box_command(bench)?;
        command
            .args(["run", "--lan", "lan0", "--wan", "wan0", "--down", &down.to_string()])
            .args(scenario.up.iter().flat_map(|up| ["--up".to_owned(), up.rate.to_string()]))
            .args(
                scenario
                    .up
                    .iter()
                    .filter_map(|up| up.discipline.as_ref())
                    .flat_map(|d| ["--up-discipline", d]),
            )
            .args(["--overhead", &scenario.overhead.to_string(), "--discipline", discipline])
            .args(["--backend", &scenario.backend])
            // Labs side by side have interfaces of the same names.
            .arg("--state-dir")
            .arg(bench.dir())
            .arg("--control")
            .arg(&control)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log)?);
        let mut child = command.spawn().context("narrows run")?;
        let (tell, told) = mpsc::channel();
        if let Some(out) = child.stdout.take() {
            // Reads on after the first line, so that the box never waits for a full pipe.
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    let _ = tell.send(line);
                }
            });
        }
        let middle = Self::Narrows { child, control };
        let until = Instant::now() + START;
        loop {
            match told.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("narrows: running") => return Ok(middle),
                Ok(_) => {}
                Err(_) => {
                    let said = std::fs::read_to_string(&log).unwrap_or_default();
                    bail!("narrows run --discipline {discipline}: did not get in place: {}", said.trim());
                }
            }
        }
    }

    /// Counters in one shape, whichever box: `{"arrived", "sent", "dropped", "marked", ...}` and the box's own words.
    pub fn status(&mut self) -> anyhow::Result<Value> {
        match self {
            Self::Narrows { control, .. } => {
                let mut stream = UnixStream::connect(&*control).context("box control socket")?;
                stream.set_read_timeout(Some(Duration::from_secs(2)))?;
                stream.write_all(b"status\n")?;
                let mut text = String::new();
                stream.read_to_string(&mut text)?;
                serde_json::from_str(&text).context("box status")
            }
            Self::Kernel(peer) => {
                let counters = serde_json::to_value(peer.counters()?)?;
                Ok(json!({ "peer": counters }))
            }
        }
    }

    /// CPU seconds used by the box so far; `None` if the box is no process of its own.
    pub fn cpu_seconds(&self) -> Option<f64> {
        let Self::Narrows { child, .. } = self else { return None };
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
        // Fields 14 and 15 (utime, stime) of proc_pid_stat(5), counted behind the name in brackets.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let ticks: f64 = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
        Some(ticks / 100.0)
    }

    /// Time in nanoseconds that the box's threads have waited for a CPU so far, and how often they were given one
    /// (proc_pid_schedstat(5)); `None` where the box is no process of its own or the kernel does not count.
    pub fn waited(&self) -> Option<(u64, u64)> {
        let Self::Narrows { child, .. } = self else { return None };
        let mut sum = (0, 0);
        for task in std::fs::read_dir(format!("/proc/{}/task", child.id())).ok()? {
            let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            let mut fields = text.split_whitespace().skip(1).map(str::parse::<u64>);
            sum = (sum.0 + fields.next()?.ok()?, sum.1 + fields.next()?.ok()?);
        }
        Some(sum)
    }

    /// Whether the box still runs.
    pub fn alive(&mut self) -> bool {
        match self {
            Self::Narrows { child, .. } => matches!(child.try_wait(), Ok(None)),
            Self::Kernel(_) => true,
        }
    }
}

/// `narrows` itself inside the box, ended with the lab however the lab ends.
fn box_command(bench: &Bench) -> anyhow::Result<Command> {
    let me = std::env::current_exe().context("the path of this program")?;
    Ok(if found("setpriv") {
        let mut c = bench.command(Room::Box, "setpriv");
        c.args(["--pdeathsig", "TERM", "--"]).arg(me);
        c
    } else {
        bench.command(Room::Box, &me.to_string_lossy())
    })
}

impl Drop for Middle {
    fn drop(&mut self) {
        if let Self::Narrows { child, .. } = self {
            // SIGTERM first: taking its rules away is part of what a run tries out.
            if let Ok(pid) = i32::try_from(child.id()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            }
            let until = Instant::now() + Duration::from_secs(3);
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
