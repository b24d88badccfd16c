//! One run: one discipline, one seed, from bare namespaces to the numbers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::bench::{Bench, Room, SERVER, SERVER_PORT};
use super::browser;
use super::metrics::records;
use super::middle::{self, Middle};
use super::record::RunRecord;
use super::scenario::{Scenario, Span};
use super::worker::application::ApplicationSpec;
use super::worker::secure::{Identity, QuicSettings};
use super::worker::{
    BeforeSpec, BrowserSpec, CaptureResult, CaptureSpec, ClientResult, ClientSpec, Cost, EmulatorResult,
    EmulatorSpec, QlogSpec, Say, ServerResult, ServerSpec, Tick,
};

/// Longest time for a worker to start or to finish. Several browsers on a busy machine start in half a minute.
const PATIENCE: Duration = Duration::from_secs(60);

/// Files that a run leaves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunFiles {
    /// Folder of the files.
    pub folder: PathBuf,
    /// Whether the packets of both ends are captured. Logs of QUIC's senders are the scenario's to ask for.
    pub capture: bool,
}

/// Runs `discipline` once. Captures and logs are written to `files`, if any; `progress` is called about once a second;
/// `stop` ends the run early with an error.
///
/// # Errors
/// Whatever part failed to start or to finish, named; or that it was stopped. The namespaces are gone either way.
pub fn run_one(
    scenario: &Scenario,
    discipline: &str,
    seed: u64,
    files: Option<&RunFiles>,
    progress: &dyn Fn(Tick),
    stop: &AtomicBool,
) -> anyhow::Result<RunRecord> {
    let bench = Bench::new(scenario.mtu, middle::layer(scenario, discipline))?;
    if let Some(largest) = scenario.window_scales.iter().max() {
        // The kernel offers no scale for which its largest receive buffer is too small.
        bench.sysctl("net.ipv4.tcp_rmem", &format!("4096 131072 {}", 1_u32 << (15 + largest)))?;
    }
    for (key, value) in &scenario.sysctl {
        bench.sysctl(key, value)?;
    }
    bench.browsers(&scenario.browsers())?;
    // Dropped in the reverse order: the parts end before their namespaces go.
    let mut middle = Middle::start(&bench, scenario, discipline)?;
    let mut emulator: Worker<EmulatorResult> = Worker::start(
        &bench,
        Room::Link,
        "emulator",
        &EmulatorSpec {
            interfaces: ["w0".to_owned(), "s0".to_owned()],
            delay_ns: (scenario.rtt.secs() / 2.0 * 1e9) as i64,
            loss: scenario.loss,
            seed,
            limit: 100_000,
            before: before(&bench, scenario)?,
        },
    )?;
    let identity = Identity::new()?;
    // A box that follows the link before it must not learn from a link that is idle, and faster than it will be.
    let costs = match scenario.before {
        None => idle(&bench, scenario, &identity, seed, stop)?,
        Some(_) => vec![None; scenario.traffic.len()],
    };
    let names = |files: &RunFiles| FileNames::new(scenario, discipline, seed, &files.folder);
    let logs = files.filter(|_| scenario.qlog > 0 && scenario.secure()).map(names).transpose()?;
    let qlog = logs.map(|names| QlogSpec { most: scenario.qlog, file: names.of("connections.qlog") });
    let captured = files.filter(|files| files.capture).map(names).transpose()?;
    let log = captured.as_ref().map(|names| names.of("server.pauses"));
    let pauses = ApplicationSpec { pause: scenario.server_pause.secs(), seed, log };
    let server = server(&bench, scenario, &identity, pauses, qlog)?;
    let captures = captured.map(|names| captures(&bench, &names)).transpose()?;
    let client: Worker<ClientResult> =
        Worker::start(&bench, Room::Users, "client", &client_spec(&bench, scenario, &identity, seed)?)?;
    emulator.tell("begin")?;
    let mut seen = Seen::default();
    let mut result = watch(scenario, &client, &mut middle, &mut seen, progress, stop)?;
    let status = middle.status().context("the box's last status")?;
    let cpu_s = middle.cpu_seconds();
    for capture in captures.into_iter().flatten() {
        capture.finish()?;
    }
    let mut server = server.finish()?;
    let calls = result.calls.take().zip(server.calls.take());
    Ok(RunRecord {
        discipline: discipline.to_owned(),
        seed,
        calls: calls
            .map_or_else(Vec::new, |(users, server)| records(scenario, &users, &server, result.lasted)),
        costs,
        uploads: std::mem::take(&mut server.uploads),
        client: result,
        server,
        emulator: emulator.finish()?,
        status,
        samples: seen.samples,
        box_waits_ms: seen.waits_ms,
        cpu_s,
    })
}

/// The link before the box, its traces in files that the emulator reads.
fn before(bench: &Bench, scenario: &Scenario) -> anyhow::Result<Option<BeforeSpec>> {
    let Some(mut link) = scenario.before.clone() else { return Ok(None) };
    let traces = ["down", "up"].map(|way| bench.dir().join(format!("{way}.trace")));
    for ((_, way), file) in link.ways().into_iter().zip(&traces) {
        if let Some(text) = way.trace_text() {
            std::fs::write(file, text).with_context(|| file.display().to_string())?;
        }
    }
    let ns = |span: Span| (span.secs() * 1e9) as u64;
    Ok(Some(BeforeSpec { link, traces, warmup_ns: ns(scenario.warmup), duration_ns: ns(scenario.duration) }))
}

fn server(
    bench: &Bench,
    scenario: &Scenario,
    identity: &Identity,
    application: ApplicationSpec,
    qlog: Option<QlogSpec>,
) -> anyhow::Result<Worker<ServerResult>> {
    let spec = ServerSpec {
        web: scenario.web(),
        identity: identity.clone(),
        application,
        calls: scenario.calls.clone(),
        port: SERVER_PORT,
        congestion_control: scenario.congestion_control.clone(),
        secure: scenario.secure().then(|| quic(scenario)),
        qlog,
    };
    Worker::start(bench, Room::Server, "server", &spec)
}

/// Measures the cost of fetching before the load, with a server of its own, so that its packets are in no later count.
fn idle(
    bench: &Bench,
    scenario: &Scenario,
    identity: &Identity,
    seed: u64,
    stop: &AtomicBool,
) -> anyhow::Result<Vec<Option<Cost>>> {
    let server = server(bench, scenario, identity, ApplicationSpec::default(), None)?;
    let idle: Worker<Vec<Option<Cost>>> =
        Worker::start(bench, Room::Users, "idle", &client_spec(bench, scenario, identity, seed)?)?;
    let costs = loop {
        if stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        match idle.said.recv_timeout(Duration::from_millis(200)) {
            Ok(Say::Done(costs)) => break costs,
            Ok(Say::Failed(why)) => bail!("lab idle: {why}"),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("lab idle: ended without a word"),
        }
    };
    server.finish()?;
    Ok(costs)
}

/// Names of a run's files: `DIR/SCENARIO-DISCIPLINE-SEED-users.pcap`, `-server.pcap`, `-server.pauses`, which says when
/// the server's application let a user wait, and `-connections.qlog`.
struct FileNames {
    dir: PathBuf,
    stem: String,
}

impl FileNames {
    fn new(scenario: &Scenario, discipline: &str, seed: u64, dir: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        let dir = dir.canonicalize().with_context(|| dir.display().to_string())?;
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let plain: String = discipline.chars().map(plain).collect();
        Ok(Self { dir, stem: format!("{}-{plain}-{seed}", scenario.name) })
    }

    fn of(&self, end: &str) -> PathBuf {
        self.dir.join(format!("{}-{end}", self.stem))
    }
}

/// Starts listeners at both ends.
fn captures(bench: &Bench, files: &FileNames) -> anyhow::Result<Vec<Worker<CaptureResult>>> {
    [(Room::Users, "cli0", "users"), (Room::Server, "srv0", "server")]
        .into_iter()
        .map(|(room, interface, end)| {
            let file = files.of(&format!("{end}.pcap"));
            Worker::start(bench, room, "capture", &CaptureSpec { interface: interface.to_owned(), file })
        })
        .collect()
}

fn quic(scenario: &Scenario) -> QuicSettings {
    QuicSettings {
        congestion_control: scenario.congestion_control.clone(),
        initial_window: scenario.quic_initial_window,
    }
}

fn client_spec(
    bench: &Bench,
    scenario: &Scenario,
    identity: &Identity,
    seed: u64,
) -> anyhow::Result<ClientSpec> {
    let browser = browser::program().ok().map(|program| BrowserSpec {
        program: program.to_owned(),
        dir: bench.dir().to_owned(),
        spki_sha256: identity.spki_sha256.clone(),
    });
    Ok(ClientSpec {
        browser,
        server: format!("{SERVER}:{SERVER_PORT}").parse()?,
        congestion_control: scenario.congestion_control.clone(),
        quic: quic(scenario),
        seed,
        duration: scenario.duration.secs(),
        warmup: scenario.warmup.secs(),
        jitter: scenario.jitter.secs(),
        rtt: scenario.rtt.secs(),
        window_scales: scenario.window_scales.clone(),
        mtu: scenario.mtu,
        overhead: scenario.overhead,
        traffic: scenario.traffic.clone(),
        calls: scenario.calls.clone(),
    })
}

/// Answers of the box, asked once a second.
#[derive(Default)]
struct Seen {
    samples: Vec<Value>,
    waits_ms: Vec<f64>,
    waited: Option<(u64, u64)>,
}

impl Seen {
    fn look(&mut self, middle: &mut Middle) {
        // A status missed on a busy machine is a point less in a picture.
        if let Ok(status) = middle.status() {
            self.samples.push(sample(&status));
        }
        let now = middle.waited();
        if let (Some(before), Some(now)) = (self.waited, now) {
            // Threads come and go with connections to the control socket, and take their counts along.
            let (delay, slices) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
            if slices > 0 {
                self.waits_ms.push((delay as f64 / slices as f64).round() / 1e6);
            }
        }
        self.waited = now;
    }
}

/// Waits for the users to be done, and asks the box once a second how it is.
fn watch(
    scenario: &Scenario,
    client: &Worker<ClientResult>,
    middle: &mut Middle,
    seen: &mut Seen,
    progress: &dyn Fn(Tick),
    stop: &AtomicBool,
) -> anyhow::Result<ClientResult> {
    let until = Instant::now() + scenario.duration.duration() + PATIENCE;
    let mut next_sample = Instant::now();
    loop {
        if stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        match client.said.recv_timeout(Duration::from_millis(200)) {
            Ok(Say::Tick(tick)) => progress(tick),
            Ok(Say::Done(result)) => return Ok(result),
            Ok(Say::Failed(why)) => bail!("lab client: {why}"),
            Ok(Say::Ready) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("lab client: ended without a word"),
        }
        if Instant::now() > until {
            bail!("lab client: not done {} s after its time", PATIENCE.as_secs());
        }
        if Instant::now() >= next_sample {
            next_sample += Duration::from_secs(1);
            if !middle.alive() {
                bail!("the box ended while it was needed; run 'narrows run' by hand to see why");
            }
            seen.look(middle);
        }
    }
}

/// The numbers of a status that change from second to second.
#[must_use]
pub fn sample(status: &Value) -> Value {
    let report = &status["down"]["report"];
    let report = if report.is_null() { &status["peer"] } else { report };
    let mut kept = serde_json::Map::new();
    for (key, value) in report.as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "queue" | "name" | "bytes_per_flow" | "kind") {
            kept.insert(key.clone(), value.clone());
        }
    }
    // The list of waiting users is of use on a status page only.
    if let Some(admission) = kept.get_mut("admission").and_then(Value::as_object_mut) {
        admission.remove("queue");
    }
    Value::Object(kept)
}

/// Worker in a namespace: a child process that runs this program.
struct Worker<T> {
    role: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
    said: Receiver<Say<T>>,
}

impl<T: DeserializeOwned + Send + 'static> Worker<T> {
    /// Starts the worker and waits until the worker is ready.
    fn start<S: Serialize>(bench: &Bench, room: Room, role: &'static str, spec: &S) -> anyhow::Result<Self> {
        let me = std::env::current_exe().context("the path of this program")?;
        let mut child = bench
            .command(room, &me.to_string_lossy())
            .args(["lab-worker", role, &serde_json::to_string(spec)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("lab {role}"))?;
        let stdin = child.stdin.take();
        let out = child.stdout.take().context("a worker without standard output")?;
        let (tell, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let word = serde_json::from_str(&line)
                    .unwrap_or_else(|e| Say::Failed(format!("{e} in: {line:.200}")));
                if tell.send(word).is_err() {
                    break;
                }
            }
        });
        let worker = Self { role, child, stdin, said };
        match worker.said.recv_timeout(PATIENCE) {
            Ok(Say::Ready) => Ok(worker),
            Ok(Say::Failed(why)) => Err(anyhow!("lab {role}: {why}")),
            _ => Err(anyhow!("lab {role}: not in place within {} s", PATIENCE.as_secs())),
        }
    }

    /// Writes a line to the worker's input.
    fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("a worker without standard input")?;
        writeln!(stdin, "{line}").with_context(|| format!("lab {}: not told", self.role))
    }

    /// Closes the worker's input, which ends the worker, and returns the worker's result.
    fn finish(mut self) -> anyhow::Result<T> {
        self.stdin = None;
        let until = Instant::now() + PATIENCE;
        loop {
            match self.said.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Say::Done(result)) => return Ok(result),
                Ok(Say::Failed(why)) => bail!("lab {}: {why}", self.role),
                Ok(_) => {}
                Err(_) => bail!("lab {}: ended without its result", self.role),
            }
        }
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
