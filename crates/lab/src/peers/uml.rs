//! A kernel in a process of its own, in line between two devices.
//!
//! ```text
//!   lan --- bridge --- tap === vec0 [queue] --- br0 --- vec1 === tap --- bridge --- wan
//!           \_ the namespace _/     \___ User-mode Linux ___/    \_ the namespace _/
//! ```
//!
//! The guest's root is this machine's file system, read-only. It hears requests on its console, which are pipes of
//! ours. A guest does not notice that nobody is at the other end, so a shell of one line watches over it and ends it
//! when this process is gone, however that came about.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::UmlSpec;
use super::guest::{BEGIN, END, FAILED, LAN, Modules, PROGRAM, READY, TRIAL, WAN, script};
use super::host::{add_bridge, device_name, join};
use super::namespace::{Namespace, find_program};
use super::program::{Program, Registers};

/// A boot takes 2 s on an idle machine.
const BOOT: Duration = Duration::from_secs(60);
/// An answer takes milliseconds.
const ANSWER: Duration = Duration::from_secs(10);
/// How much of the console is remembered, in lines: a panic's trace has some 60, and its reason comes before.
const TAIL: usize = 200;
/// How many lines of the console an error carries, and how much of each.
const TOLD: (usize, usize) = (2, 160);

/// What the guest's devices carried: an account kept outside the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Frames that came from the servers' side.
    pub wan_received: u64,
    /// Frames sent towards the users.
    pub lan_sent: u64,
    /// Frames that came from the users' side.
    pub lan_received: u64,
    /// Frames sent towards the servers.
    pub wan_sent: u64,
}

/// A running User-mode Linux and what joins it to the two devices. Dropping it removes all of that.
#[derive(Debug)]
pub struct UmlBox {
    version: String,
    requests: u64,
    guest: Guest,
    joints: Joints,
}

impl UmlBox {
    /// Whether a guest can be started here. One is, once in each process, for a second or two.
    ///
    /// # Errors
    /// What is missing, and the remedy, or why the guest died; one line.
    pub fn available() -> Result<(), String> {
        if !nix::unistd::geteuid().is_root() {
            return Err("needs root, to make taps and bridges; run with sudo".into());
        }
        for (program, package) in [
            (PROGRAM, "user-mode-linux"),
            ("nsenter", "util-linux"),
            ("tc", "iproute2"),
            ("ethtool", "ethtool"),
        ] {
            if find_program(program).is_none() {
                return Err(format!("no {program}; apt-get install {package}"));
            }
        }
        if find_program("insmod").is_none() && find_program("perl").is_none() {
            return Err("nothing to load the guest's modules with; apt-get install kmod".into());
        }
        if !Path::new("/dev/net/tun").exists() {
            return Err("no /dev/net/tun; modprobe tun".into());
        }
        Modules::find()?;
        static TRIED: OnceLock<Result<(), String>> = OnceLock::new();
        TRIED.get_or_init(|| try_guest(Registers::needed_here()).map_err(|why| format!("{why:#}"))).clone()
    }

    /// Whether the guest's kernel has discipline `kind`, as `cake`.
    #[must_use]
    pub fn has(kind: &str) -> bool {
        Modules::find().is_ok_and(|modules| modules.has(kind))
    }

    /// Boots a guest, installs the queue and joins the devices; returns when packets pass.
    ///
    /// # Errors
    /// What is missing, a command that failed here or in the guest, or a guest that did not boot, with the end of its
    /// console in one line. Nothing is left behind.
    pub fn start(spec: UmlSpec) -> anyhow::Result<Self> {
        Self::start_with(spec, Registers::needed_here())
    }

    /// The same with registers of the caller's choice.
    ///
    /// # Errors
    /// As [`UmlBox::start`].
    pub fn start_with(spec: UmlSpec, registers: Registers) -> anyhow::Result<Self> {
        Self::available().map_err(|why| anyhow!("User-mode Linux: {why}"))?;
        let modules = Modules::find().map_err(|why| anyhow!("User-mode Linux: {why}"))?;
        let workdir = prepare_workdir(&spec.workdir)?;
        let init = workdir.join(format!("{}.sh", device_name("uml")));
        write_program(&init, script(&modules.files_for(&spec.tc), &spec.tc).as_bytes())?;
        let joints = Joints::make(Namespace::open(&spec.netns)?, &spec.lan, &spec.wan, init.clone())?;
        let program = Program::prepare(registers, &workdir, &device_name("kernel"))?;
        let [lan, wan] = &joints.taps;
        let mut command = joints.ns.command(&program.file.display().to_string());
        command
            .arg(format!("{LAN}:transport=tap,ifname={lan},depth=128,gro=0"))
            .arg(format!("{WAN}:transport=tap,ifname={wan},depth=128,gro=0"));
        let mut guest = Guest::boot(command, program, &workdir, &init)?;
        guest.wait_ready()?;
        joints.refuse_offloads()?;
        Ok(Self { version: modules.version, requests: 0, guest, joints })
    }

    /// The guest kernel's version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// `tc -s -j qdisc` of the device towards the users.
    ///
    /// # Errors
    /// If the guest has ended or does not answer, with the end of its console.
    pub fn tc_stats(&mut self) -> anyhow::Result<String> {
        self.ask("qdisc")
    }

    /// What the guest's devices carried.
    ///
    /// # Errors
    /// As [`UmlBox::tc_stats`].
    pub fn links(&mut self) -> anyhow::Result<DeviceCounters> {
        let text = self.ask("links")?;
        let list: serde_json::Value =
            serde_json::from_str(text.trim()).context("the guest's `ip -s -j link`")?;
        let count = |device: &str, way: &str| {
            let all = list.as_array()?;
            let link = all.iter().find(|link| link["ifname"] == device)?;
            link["stats64"][way]["packets"].as_u64()
        };
        let get =
            |device, way| count(device, way).with_context(|| format!("the guest tells no {way} of {device}"));
        Ok(DeviceCounters {
            wan_received: get(WAN, "rx")?,
            lan_sent: get(LAN, "tx")?,
            lan_received: get(LAN, "rx")?,
            wan_sent: get(WAN, "tx")?,
        })
    }

    fn ask(&mut self, what: &str) -> anyhow::Result<String> {
        self.requests += 1;
        self.guest.ask(what, self.requests)
    }

    /// Switches the guest off and removes taps and bridges.
    pub fn stop(self) {
        let Self { guest, joints, .. } = self;
        drop(guest);
        drop(joints);
    }
}

/// Boots a guest that does nothing and switches itself off.
fn try_guest(registers: Registers) -> anyhow::Result<()> {
    let workdir = prepare_workdir(&std::env::temp_dir().join(device_name("narrows-uml")))?;
    let tried = (|| {
        let init = workdir.join("init.sh");
        write_program(&init, TRIAL.replace("READY", READY).as_bytes())?;
        let program = Program::prepare(registers, &workdir, "kernel")?;
        let command = Command::new(&program.file);
        Guest::boot(command, program, &workdir, &init)?.wait_ready()
    })();
    let _ = std::fs::remove_dir_all(&workdir);
    tried
}

fn prepare_workdir(dir: &Path) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    let whole = dir.canonicalize().with_context(|| format!("{}", dir.display()))?;
    match whole.to_str() {
        Some(text) if !text.contains(|c: char| c.is_whitespace() || c == ',') => Ok(whole),
        _ => bail!("{}: a kernel's arguments end at blanks; choose a directory without", whole.display()),
    }
}

/// Writes a file that can be run.
pub(super) fn write_program(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let write = || {
        std::fs::write(file, bytes)?;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755))
    };
    write().with_context(|| format!("writing {}", file.display()))
}

/// Taps, bridges and the script: what has to be removed again.
#[derive(Debug)]
struct Joints {
    ns: Namespace,
    taps: [String; 2],
    bridges: [String; 2],
    script: PathBuf,
}

impl Joints {
    fn make(ns: Namespace, lan: &str, wan: &str, script: PathBuf) -> anyhow::Result<Self> {
        let taps = ["ntl", "ntw"].map(device_name);
        let bridges = ["nbl", "nbw"].map(device_name);
        let made = Self { ns, taps, bridges, script };
        for ((tap, bridge), device) in made.taps.iter().zip(&made.bridges).zip([lan, wan]) {
            made.ns.run(&format!("ip tuntap add dev {tap} mode tap"))?;
            made.ns.run(&format!("ip link set {tap} gso_max_segs 1"))?;
            add_bridge(&made.ns, bridge)?;
            join(&made.ns, bridge, tap)?;
            join(&made.ns, bridge, device)?;
        }
        Ok(made)
    }

    /// The guest's driver offers its tap segmentation and checksum offload when it opens it, and then cuts trains
    /// short that do not fit its buffers: the checksum, completed afterwards, hides the loss from TCP. So the taps get
    /// whole packets with whole checksums.
    fn refuse_offloads(&self) -> anyhow::Result<()> {
        for tap in &self.taps {
            self.ns.run(&format!("ethtool -K {tap} tx off tso off gso off"))?;
        }
        Ok(())
    }
}

impl Drop for Joints {
    fn drop(&mut self) {
        for device in self.taps.iter().chain(&self.bridges) {
            // May be gone with its namespace already.
            let _ = self.ns.run(&format!("ip link del {device}"));
        }
        let _ = std::fs::remove_file(&self.script);
    }
}

/// The process, its console and the end of what it said.
#[derive(Debug)]
struct Guest {
    process: Child,
    watch: Option<Child>,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    tail: Arc<Mutex<VecDeque<String>>>,
    state: PathBuf,
    /// Removed when the guest has gone.
    _program: Program,
}

impl Guest {
    /// Runs `command`, which starts `program`, with `init` as the guest's first process.
    fn boot(mut command: Command, program: Program, workdir: &Path, init: &Path) -> anyhow::Result<Self> {
        let id = device_name("narrows");
        let mut process = command
            .args(["mem=96M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"])
            .args(["con=null", "con0=fd:0,fd:1"])
            .arg(format!("uml_dir={}/", workdir.display()))
            .arg(format!("umid={id}"))
            .arg(format!("init={}", init.display()))
            .args(&program.arguments)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting linux.uml")?;
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let (sender, lines) = mpsc::channel();
        if let Some(errors) = process.stderr.take() {
            follow(errors, None, Arc::clone(&tail));
        }
        if let Some(console) = process.stdout.take() {
            follow(console, Some(sender), Arc::clone(&tail));
        }
        let input = process.stdin.take();
        let state = workdir.join(id);
        let mut guest = Self { process, watch: None, input, lines, tail, state, _program: program };
        guest.watch = Some(watch_over(guest.process.id())?);
        Ok(guest)
    }

    fn wait_ready(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + BOOT;
        loop {
            let line = self.line(until).context("the guest did not come up")?;
            if line.starts_with(READY) {
                return Ok(());
            }
            if let Some(command) = line.strip_prefix(FAILED) {
                let said = self.said();
                bail!("in User-mode Linux{command} failed; its console: {said}");
            }
        }
    }

    fn ask(&mut self, what: &str, number: u64) -> anyhow::Result<String> {
        let until = Instant::now() + ANSWER;
        let input = self.input.as_mut().context("User-mode Linux has been stopped")?;
        writeln!(input, "{what} {number}").and_then(|()| input.flush()).context("asking User-mode Linux")?;
        // Late answers to earlier requests are passed over: they carry another number.
        let start = format!("{BEGIN} {number}");
        while self.line(until).with_context(|| format!("asking User-mode Linux for '{what}'"))? != start {}
        let mut answer = String::new();
        loop {
            match self.line(until)? {
                line if line == END => return Ok(answer),
                line => {
                    answer.push_str(&line);
                    answer.push('\n');
                }
            }
        }
    }

    /// The next line of the console.
    fn line(&mut self, until: Instant) -> anyhow::Result<String> {
        match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => {
                bail!("no answer in time; its console: {}", self.said())
            }
            Err(RecvTimeoutError::Disconnected) => {
                bail!("it ended; its console: {}", self.said())
            }
        }
    }

    fn said(&self) -> String {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        in_a_line(tail.iter().map(String::as_str))
    }

    fn ended_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
                _ => return None,
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(mut input) = self.input.take() {
            // It may be gone already; what follows finds out.
            let _ = writeln!(input, "off");
        }
        if self.ended_within(Duration::from_secs(3)).is_none()
            && let Ok(pid) = i32::try_from(self.process.id())
        {
            // Not reaped yet, so the number is still its own; the group holds the guest's processes as well.
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
            let _ = self.process.wait();
        }
        if let Some(mut watch) = self.watch.take() {
            let _ = watch.kill();
            let _ = watch.wait();
        }
        let _ = std::fs::remove_dir_all(&self.state);
    }
}

/// What of a console tells why, in one line: what failed or panicked first, or else what came last.
fn in_a_line<'a>(console: impl Iterator<Item = &'a str>) -> String {
    let (count, width) = TOLD;
    let said: Vec<&str> =
        console.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(FAILED)).collect();
    // "VFS: Mounted root ..." comes before anything of ours; what a guest without disks "failed" to find does, too.
    let reason = |line: &&&str| {
        line.contains("Kernel panic") || line.contains("registers") || line.contains("segfault")
    };
    let mut told: Vec<&str> = said.iter().filter(reason).take(count).copied().collect();
    if told.is_empty() {
        told = said[said.len().saturating_sub(count)..].to_vec();
    }
    let cut = |line: &str| line.chars().take(width).collect::<String>();
    told.iter().map(|line| cut(line)).collect::<Vec<_>>().join("; ")
}

/// A shell that kills process group `group` when its input ends, which it does with this process.
fn watch_over(group: u32) -> anyhow::Result<Child> {
    Command::new("sh")
        .args(["-c", "read line; kill -KILL -$0", &group.to_string()])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting sh")
}

/// Reads a stream to its end, so that the guest never blocks on it, and remembers the last lines.
fn follow(
    stream: impl Read + Send + 'static,
    to: Option<Sender<String>>,
    tail: Arc<Mutex<VecDeque<String>>>,
) {
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut raw = Vec::new();
        while matches!(reader.read_until(b'\n', &mut raw), Ok(n) if n > 0) {
            let line = String::from_utf8_lossy(&raw).trim_end().to_owned();
            raw.clear();
            {
                let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
                if tail.len() == TAIL {
                    tail.pop_front();
                }
                tail.push_back(line.clone());
            }
            if let Some(to) = &to {
                // Nobody may be listening any more; the stream is still read.
                let _ = to.send(line);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_told_in_one_line() {
        let trace = (0..60).map(|n| format!("[<600{n:05x}>] ? show_stack+0x1/0x2"));
        let console = ["Failed to initialize ubd device 0", "Run /t/init.sh as init process"]
            .into_iter()
            .chain(["put_fp_registers - errno 22", "", "Kernel panic - not syncing: Attempted to kill init!"])
            .map(str::to_owned)
            .chain(trace)
            .collect::<Vec<_>>();
        assert_eq!(
            in_a_line(console.iter().map(String::as_str)),
            "put_fp_registers - errno 22; Kernel panic - not syncing: Attempted to kill init!"
        );
        let failed = ["a", "Error: Specified qdisc kind is unknown.", "NARROWS-FAILED: tc qdisc add"];
        assert_eq!(in_a_line(failed.into_iter()), "a; Error: Specified qdisc kind is unknown.");
        assert_eq!(in_a_line(["x".repeat(999).as_str()].into_iter()).len(), 160);
        assert_eq!(in_a_line(std::iter::empty()), "");
    }
}
