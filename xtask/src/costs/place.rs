//! Where packets pass in the guest, and what queues them there.
//!
//! ```text
//!   users ── end ═ lan   box   wan ═ end ── servers        three namespaces, two veth pairs
//! ```
//!
//! The ends have no addresses. Frames reach them under a hardware address that is nobody's, so their kernels count them
//! and throw them away at once.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::case::{Case, Layer, Queue, Side, Traffic};

/// Hardware addresses: of the box's interfaces, and those that nobody has behind each of them.
const LAN: [u8; 6] = [2, 0, 0, 0, 1, 1];
const WAN: [u8; 6] = [2, 0, 0, 0, 2, 1];
const USERS: [u8; 6] = [2, 0, 0, 0, 1, 9];
const SERVERS: [u8; 6] = [2, 0, 0, 0, 2, 9];

fn hardware(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

/// The beginning of an Ethernet frame that an IPv4 packet from this side has.
pub fn heading(layer: Layer, from: Side) -> Vec<u8> {
    let (source, router, beyond) = match from {
        Side::Users => (USERS, LAN, SERVERS),
        Side::Servers => (SERVERS, WAN, USERS),
    };
    let destination = if layer == Layer::Routed { router } else { beyond };
    [&destination[..], &source, &[8, 0]].concat()
}

/// Three namespaces with a queue in the middle, gone when dropped.
pub struct Place {
    running: Option<Running>,
}

impl Place {
    /// Makes what a case needs, and starts what queues there. `program` is `narrows`.
    pub fn new(case: &Case, program: &Path) -> Result<Self> {
        let mut made = Self { running: None };
        for name in ["users", "box", "servers"] {
            ip(&format!("netns add {name}"))?;
            // Nothing is said unasked in the middle of a measurement.
            inside(name, "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")?;
        }
        for (port, address, name) in [("lan", LAN, "users"), ("wan", WAN, "servers")] {
            let address = hardware(address);
            ip(&format!("-n box link add {port} address {address} type veth peer name end netns {name}"))?;
            ip(&format!("-n box link set {port} up"))?;
            ip(&format!("-n {name} link set end up"))?;
        }
        match case.layer {
            Layer::Routed => route()?,
            Layer::Bridged => bridge()?,
            Layer::Apart => {}
        }
        match &case.queue {
            Queue::None => {}
            Queue::Kernel(name) => {
                for (port, rate) in [("lan", case.traffic.down()), ("wan", case.traffic.up())] {
                    kernel_queue(port, name, rate)?;
                }
            }
            Queue::Box { backend, discipline } => {
                made.running = Some(Running::start(program, backend, discipline, case.traffic)?);
            }
        }
        Ok(made)
    }

    /// Number of frames received at a side's end.
    pub fn arrived(&self, side: Side) -> Result<u64> {
        let said =
            output(Command::new("ip").args(["-n", side.namespace(), "-j", "-s", "link", "show", "end"]))?;
        let said: serde_json::Value = serde_json::from_str(&said).context("ip -j -s link")?;
        said[0]["stats64"]["rx"]["packets"].as_u64().context("ip -j -s link says no rx packets")
    }

    /// The greatest resident size that the box has had, kB.
    pub fn memory(&self) -> Result<u64> {
        let running = self.running.as_ref().context("no box runs here")?;
        let path = format!("/proc/{}/status", running.child.id());
        let text = std::fs::read_to_string(&path).context(path)?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next()).context("no VmHWM")?;
        number.parse().context("VmHWM")
    }

    /// Number of packets from this side that the box has sent on; `None` if no box runs here.
    pub fn handled(&self, from: Side) -> Result<Option<u64>> {
        self.running.as_ref().map(|running| running.handled(from)).transpose()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.running.take());
        for name in ["users", "box", "servers"] {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

fn route() -> Result<()> {
    inside("box", "sysctl -qw net.ipv4.ip_forward=1")?;
    for (port, subnet, behind, network) in
        [("lan", "172.16.1", USERS, "10.1.0.0/16"), ("wan", "172.16.2", SERVERS, "10.2.0.0/16")]
    {
        ip(&format!("-n box addr add {subnet}.1/24 dev {port}"))?;
        let behind = hardware(behind);
        ip(&format!("-n box neigh add {subnet}.2 lladdr {behind} dev {port} nud permanent"))?;
        ip(&format!("-n box route add {network} via {subnet}.2"))?;
    }
    Ok(())
}

fn bridge() -> Result<()> {
    ip("-n box link add br0 type bridge mcast_snooping 0")?;
    for port in ["lan", "wan"] {
        ip(&format!("-n box link set {port} master br0"))?;
    }
    ip("-n box link set br0 up")
}

/// A queue of the kernel's on one interface of the box, behind a shaper where there is a rate in Mbit/s.
fn kernel_queue(port: &str, name: &str, rate: Option<u32>) -> Result<()> {
    let tc = |words: &str| run(Command::new("tc").args(["-n", "box"]).args(words.split(' ')));
    match rate {
        None => tc(&format!("qdisc add dev {port} root {name}")),
        Some(rate) if name == "cake" => tc(&format!("qdisc add dev {port} root cake bandwidth {rate}mbit")),
        Some(rate) => {
            tc(&format!("qdisc add dev {port} root handle 1: htb default 1"))?;
            tc(&format!("class add dev {port} parent 1: classid 1:1 htb rate {rate}mbit"))?;
            tc(&format!("qdisc add dev {port} parent 1:1 {name}"))
        }
    }
}

/// A box that runs.
struct Running {
    child: Child,
    /// Kept open, so that the box can go on speaking.
    _said: BufReader<ChildStdout>,
    program: PathBuf,
}

const CONTROL: &str = "/run/narrows-costs.sock";

impl Running {
    fn start(program: &Path, backend: &str, discipline: &str, traffic: Traffic) -> Result<Self> {
        // A rate that nothing here comes near, where packets need not wait.
        let [down, up] = [traffic.down(), traffic.up()].map(|rate| format!("{}mbit", rate.unwrap_or(10_000)));
        let mut child = Command::new("ip")
            .args(["netns", "exec", "box"])
            .arg(program)
            .args(["run", "--lan", "lan", "--wan", "wan", "--down", &down, "--up", &up])
            .args(["--discipline", discipline, "--backend", backend])
            .args(["--control", CONTROL, "--state-dir", "/run/narrows-costs", "--user", "root"])
            .stdout(Stdio::piped())
            .spawn()
            .context("ip netns exec")?;
        let mut said = BufReader::new(child.stdout.take().context("a pipe from the box")?);
        let mut line = String::new();
        said.read_line(&mut line).context("the box's first line")?;
        let running = Self { child, _said: said, program: program.to_owned() };
        ensure!(line.starts_with("narrows: running"), "the box did not start: '{}'", line.trim());
        Ok(running)
    }

    fn handled(&self, from: Side) -> Result<u64> {
        let said = output(Command::new(&self.program).args(["status", "--json", "--control", CONTROL]))?;
        let said: serde_json::Value = serde_json::from_str(&said).context("narrows status --json")?;
        let direction = if from == Side::Servers { "down" } else { "up" };
        let sent = &said[direction]["report"]["counters"]["sent"];
        sent.as_u64().context("narrows status --json says nothing of counters")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

fn ip(words: &str) -> Result<()> {
    run(Command::new("ip").args(words.split(' ')))
}

fn inside(namespace: &str, words: &str) -> Result<()> {
    run(Command::new("ip").args(["netns", "exec", namespace]).args(words.split(' ')))
}

fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

fn output(command: &mut Command) -> Result<String> {
    let done = command.output().with_context(|| format!("{command:?} cannot be started"))?;
    if !done.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
