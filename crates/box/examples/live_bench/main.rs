//! Cost of the live box: packets and bits per second on one core, added delay, and how exactly it meets a rate,
//! beside plain kernel forwarding in the same run.
//!
//! ```text
//!   sender ── e0 ═ wan  box  lan ═ e0 ── receiver        three namespaces, two veth pairs
//!   CPU 0                CPU 1           CPU 0
//! ```
//!
//! Needs root and the program `narrows` (NARROWS_BIN, or beside this example's folder). Packets count only if the box
//! handled them: what the kernel lets go by when the box is too slow is told apart.

mod namespaces;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use narrows_box as live;
use narrows_netio::mmsg;
use nix::unistd::Pid;

use self::namespaces::{inside, ip, join, pin};

const RECEIVER: &str = "10.77.0.2";
const SENDER: &str = "10.78.0.2";
/// Time for which each figure is measured.
const SPAN: Duration = Duration::from_secs(3);
/// UDP payloads that make IP packets of 1500, 500 and 100 bytes.
const LARGE: usize = 1472;
const MEDIUM: usize = 472;
const SMALL: usize = 72;

fn main() -> anyhow::Result<()> {
    ensure!(nix::unistd::Uid::effective().is_root(), "needs root: it makes network namespaces");
    let bench = Bench::new()?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("live box: kernel {}, load {}", release(), load.split(' ').next().unwrap_or("?"));
    let busy: f64 = load.split(' ').next().and_then(|l| l.parse().ok()).unwrap_or(0.0);
    if busy > 0.5 {
        println!("the machine is busy: figures are lower bounds");
    }
    println!(
        "\n{:<28}{:>12}{:>12}{:>12}{:>12}{:>10}",
        "on one core", "1500 B", "1500 B", "100 B", "100 B", "TCP"
    );
    println!("{:<28}{:>12}{:>12}{:>12}{:>12}{:>10}", "", "Mbit/s", "kpps", "kpps", "kpps/core", "Mbit/s");
    let boxes = ["fifo:1000", "taq"];
    bench.throughput("plain forwarding", Way::Routed, None)?;
    bench.throughput("plain bridging", Way::Bridged, None)?;
    for (name, backend, way) in BACKENDS {
        for spec in boxes {
            let args = ["--discipline", spec, "--backend", backend];
            bench.throughput(&format!("{name}, {spec}"), way, Some(&args))?;
        }
    }
    println!("\n{:<28}{:>12}{:>12}", "round trip of an idle box", "p50 us", "p99 us");
    bench.delay("plain forwarding", Way::Routed, None)?;
    for (name, backend, way) in BACKENDS {
        let args = ["--discipline", "taq", "--backend", backend];
        bench.delay(&format!("{name}, taq"), way, Some(&args))?;
    }
    println!("\n{:<28}{:>12}{:>12}{:>12}", "rate, nfqueue, fifo:200", "bit/s", "error %", "lead MTU");
    for (rate, bps, payload, seconds) in [
        ("64kbit", 64_000.0, MEDIUM, 10),
        ("600kbit", 600_000.0, LARGE, 8),
        ("10mbit", 10e6, LARGE, 4),
        ("100mbit", 100e6, LARGE, 4),
    ] {
        for realtime in [false, true] {
            bench.shaping(rate, bps, payload, Duration::from_secs(seconds), realtime)?;
        }
    }
    Ok(())
}

/// Connection between the box's two interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Routed,
    Bridged,
    /// The box alone connects the interfaces.
    Apart,
}

/// Back ends: the name that people use, the name that the program takes, and the way of the packets.
const BACKENDS: [(&str, &str, Way); 3] = [
    ("nfqueue", "nfqueue", Way::Routed),
    ("packet sockets", "packet", Way::Apart),
    ("AF_XDP", "xdp", Way::Bridged),
];

fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// Three namespaces in a row, gone when dropped.
struct Bench {
    tag: String,
    dir: PathBuf,
    program: PathBuf,
}

impl Bench {
    fn new() -> anyhow::Result<Self> {
        let beside =
            std::env::current_exe()?.ancestors().nth(2).map(|d| d.join("narrows")).unwrap_or_default();
        let program = std::env::var_os("NARROWS_BIN").map_or(beside, PathBuf::from);
        ensure!(
            program.exists(),
            "{} is missing: cargo build --release -p narrows-cli, or set NARROWS_BIN",
            program.display()
        );
        let tag = format!("nrb{}", std::process::id());
        let dir = std::env::temp_dir().join(&tag);
        std::fs::create_dir_all(&dir)?;
        let bench = Self { tag, dir, program };
        for end in ["r", "b", "s"] {
            ip(&format!("netns add {}{end}", bench.tag))?;
        }
        for (port, end, address, gate) in
            [("lan", "r", RECEIVER, "10.77.0.1"), ("wan", "s", SENDER, "10.78.0.1")]
        {
            let (b, e) = (bench.ns("b"), bench.ns(end));
            ip(&format!("-n {b} link add {port} type veth peer name e0 netns {e}"))?;
            ip(&format!("-n {b} addr add {gate}/24 dev {port}"))?;
            ip(&format!("-n {b} link set {port} up"))?;
            ip(&format!("-n {e} addr add {address}/24 dev e0"))?;
            ip(&format!("-n {e} link set e0 up"))?;
            ip(&format!("-n {e} route add default via {gate} congctl cubic"))?;
        }
        let b = bench.ns("b");
        ip(&format!("netns exec {b} sysctl -qw net.ipv4.ip_forward=1"))?;
        Ok(bench)
    }

    fn ns(&self, end: &str) -> String {
        format!("{}{end}", self.tag)
    }

    /// A running box, pinned to the second core.
    fn start(&self, args: &[&str]) -> anyhow::Result<Running> {
        let control = self.dir.join("control.sock");
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.ns("b")])
            .arg(&self.program)
            .args(["run", "--lan", "lan", "--wan", "wan", "--control"])
            .arg(&control)
            .arg("--state-dir")
            .arg(&self.dir)
            .args(args)
            .stdout(Stdio::piped())
            .spawn()?;
        pin(Pid::from_raw(child.id().cast_signed()), 1)?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        ensure!(line.starts_with("narrows: running"), "the box did not start: {line}");
        Ok(Running { child, control })
    }

    fn with_box(&self, way: Way, args: Option<&[&str]>) -> anyhow::Result<Option<Running>> {
        let wide = ["--down", "10gbit", "--up", "10gbit"];
        let b = self.ns("b");
        // At layer 2 the router of this bench would forward a second time.
        let routed = way == Way::Routed;
        ip(&format!("netns exec {b} sysctl -qw net.ipv4.ip_forward={}", u8::from(routed)))?;
        self.addresses(routed)?;
        let _ = ip(&format!("-n {b} link del br0"));
        if way == Way::Bridged {
            ip(&format!("-n {b} link add br0 type bridge"))?;
            ["lan", "wan"].iter().try_for_each(|port| ip(&format!("-n {b} link set {port} master br0")))?;
            ip(&format!("-n {b} link set br0 up"))?;
        }
        args.map(|a| self.start(&[&wide, a].concat())).transpose()
    }

    /// Two networks with a router between, or one network.
    fn addresses(&self, routed: bool) -> anyhow::Result<()> {
        let bits = if routed { 24 } else { 8 };
        for (end, address, gate) in [("r", RECEIVER, "10.77.0.1"), ("s", SENDER, "10.78.0.1")] {
            let ns = self.ns(end);
            ip(&format!("-n {ns} addr flush dev e0"))?;
            ip(&format!("-n {ns} addr add {address}/{bits} dev e0"))?;
            if routed {
                ip(&format!("-n {ns} route add default via {gate} congctl cubic"))?;
            }
        }
        Ok(())
    }

    fn throughput(&self, name: &str, way: Way, args: Option<&[&str]>) -> anyhow::Result<()> {
        let running = self.with_box(way, args)?;
        let large = self.blast(LARGE, running.as_ref())?;
        let small = self.blast(SMALL, running.as_ref())?;
        let tcp = self.bulk()?;
        println!(
            "{name:<28}{:>12.0}{:>12.0}{:>12.0}{:>12}{:>10.0}{}",
            large.rate * 1500.0 * 8.0 / 1e6,
            large.rate / 1e3,
            small.rate / 1e3,
            small.of_core.map_or_else(String::new, |rate| format!("{:.0}", rate / 1e3)),
            tcp / 1e6,
            if large.gone_by + small.gone_by > 0 { "   (offered more than it took)" } else { "" }
        );
        running.map_or(Ok(()), Running::stop)
    }

    /// Measures the traffic that goes through when as many packets as possible are sent.
    fn blast(&self, payload: usize, running: Option<&Running>) -> anyhow::Result<Blast> {
        let sink = inside(&self.ns("r"), 0, || UdpSocket::bind((RECEIVER, 9)));
        let _sink = join(sink)??;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let sender = inside(&self.ns("s"), 0, move || {
            let socket = UdpSocket::bind((SENDER, 0))?;
            socket.connect((RECEIVER, 9))?;
            let datagrams = vec![vec![0; payload]; mmsg::BATCH];
            while !flag.load(Ordering::Relaxed) {
                // ENOBUFS and the like only mean that one did not go.
                let _ = mmsg::send_all(socket.as_fd(), &datagrams);
            }
            Ok::<_, std::io::Error>(())
        });
        std::thread::sleep(Duration::from_millis(500));
        let look = || -> anyhow::Result<(u64, u64, f64, f64)> {
            match running {
                Some(r) => r.handled(),
                None => Ok((self.received()?, 0, 0.0, 0.0)),
            }
        };
        let (before, unseen, since, busy) = look()?;
        let start = Instant::now();
        std::thread::sleep(SPAN);
        let (after, unseen_after, until, busy_after) = look()?;
        let span = if running.is_some() { until - since } else { start.elapsed().as_secs_f64() };
        stop.store(true, Ordering::Relaxed);
        join(sender)??;
        // Packets that still wait should not be counted for the next run.
        std::thread::sleep(Duration::from_millis(300));
        let packets = (after - before) as f64;
        let of_core = running.map(|_| packets / (busy_after - busy));
        Ok(Blast { rate: packets / span, of_core, gone_by: unseen_after - unseen })
    }

    /// Packets the receiver's interface has taken in.
    fn received(&self) -> anyhow::Result<u64> {
        let read = inside(&self.ns("r"), 0, || std::fs::read_to_string("/proc/thread-self/net/dev"));
        let text = join(read)??;
        let line = text.lines().find_map(|l| l.trim().strip_prefix("e0:")).context("no e0")?;
        Ok(line.split_whitespace().nth(1).context("no counter")?.parse()?)
    }

    /// Goodput of one TCP connection, in bit/s.
    fn bulk(&self) -> anyhow::Result<f64> {
        let listener = join(inside(&self.ns("r"), 0, || TcpListener::bind((RECEIVER, 0))))??;
        let port = listener.local_addr()?.port();
        let receiver = inside(&self.ns("r"), 0, move || {
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            let (mut buffer, mut got, start) = (vec![0; 1 << 18], 0u64, Instant::now());
            while start.elapsed() < SPAN {
                got += stream.read(&mut buffer)? as u64;
            }
            Ok::<_, std::io::Error>(got as f64 * 8.0 / start.elapsed().as_secs_f64())
        });
        let sender = inside(&self.ns("s"), 0, move || {
            let mut stream = TcpStream::connect((RECEIVER, port))?;
            stream.set_write_timeout(Some(Duration::from_secs(10)))?;
            let data = vec![0; 1 << 16];
            while stream.write_all(&data).is_ok() {}
            Ok::<_, std::io::Error>(())
        });
        let rate = join(receiver)??;
        join(sender)??;
        Ok(rate)
    }

    fn delay(&self, name: &str, way: Way, args: Option<&[&str]>) -> anyhow::Result<()> {
        let running = self.with_box(way, args)?;
        let echo = join(inside(&self.ns("r"), 0, || UdpSocket::bind((RECEIVER, 0))))??;
        let port = echo.local_addr()?.port();
        echo.set_read_timeout(Some(Duration::from_secs(2)))?;
        let echoing = inside(&self.ns("r"), 0, move || {
            let mut buffer = [0; 100];
            while let Ok((n, from)) = echo.recv_from(&mut buffer) {
                let _ = echo.send_to(&buffer[..n], from);
            }
        });
        let asking = inside(&self.ns("s"), 0, move || {
            let socket = UdpSocket::bind((SENDER, 0))?;
            socket.connect((RECEIVER, port))?;
            socket.set_read_timeout(Some(Duration::from_secs(1)))?;
            let mut times = Vec::new();
            for _ in 0..2000 {
                let start = Instant::now();
                socket.send(&[0; 60])?;
                socket.recv(&mut [0; 100])?;
                times.push(start.elapsed());
                std::thread::sleep(Duration::from_micros(500));
            }
            Ok::<_, std::io::Error>(times)
        });
        let mut times = join(asking)??;
        join(echoing)?;
        times.sort_unstable();
        let us = |share: f64| times[(times.len() as f64 * share) as usize].as_nanos() as f64 / 1e3;
        println!("{name:<28}{:>12.0}{:>12.0}", us(0.5), us(0.99));
        running.map_or(Ok(()), Running::stop)
    }

    /// Sends half again as much as the rate allows, and looks at when packets come out.
    fn shaping(
        &self,
        rate: &str,
        bps: f64,
        payload: usize,
        span: Duration,
        realtime: bool,
    ) -> anyhow::Result<()> {
        self.with_box(Way::Routed, None)?;
        let mut args = vec!["--down", rate, "--discipline", "fifo:200"];
        args.extend(realtime.then_some("--realtime"));
        let running = self.start(&args)?;
        let sink = join(inside(&self.ns("r"), 0, || UdpSocket::bind((RECEIVER, 0))))??;
        let port = sink.local_addr()?.port();
        sink.set_read_timeout(Some(Duration::from_secs(3)))?;
        let receiving = inside(&self.ns("r"), 0, move || {
            let (mut buffer, mut arrivals) = ([0; 2000], Vec::new());
            while sink.recv(&mut buffer).is_ok() {
                arrivals.push(Instant::now());
            }
            arrivals
        });
        let len = (payload + 28) as f64;
        let gap = Duration::from_secs_f64(len * 8.0 / (bps * 1.5));
        let sending = inside(&self.ns("s"), 0, move || {
            let socket = UdpSocket::bind((SENDER, 0))?;
            let (datagram, start) = (vec![0; payload], Instant::now());
            let mut next = start;
            while start.elapsed() < span {
                let _ = socket.send_to(&datagram, (RECEIVER, port));
                next += gap;
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            Ok::<_, std::io::Error>(())
        });
        join(sending)??;
        let arrivals = join(receiving)?;
        let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
            bail!("{rate}: nothing came through")
        };
        let seconds = last.duration_since(*first).as_secs_f64();
        let measured = (arrivals.len() - 1) as f64 * len * 8.0 / seconds;
        println!(
            "{:<28}{:>12.0}{:>12.3}{:>12.2}",
            format!("{rate}{}", if realtime { " --realtime" } else { "" }),
            measured,
            100.0 * (measured / bps - 1.0),
            lead(&arrivals, *first, len * 8.0 / bps)
        );
        running.stop()
    }
}

/// Largest lead of a run of arrivals over the rate, in packets: a reader that is woken late sees several at once,
/// so this is an upper bound of what the box did.
fn lead(arrivals: &[Instant], first: Instant, gap: f64) -> f64 {
    let (mut earliest, mut most) = (f64::MAX, 0.0f64);
    for (i, t) in arrivals.iter().enumerate() {
        let ahead = i as f64 - t.duration_since(first).as_secs_f64() / gap;
        earliest = earliest.min(ahead);
        most = most.max(ahead - earliest);
    }
    most
}

impl Drop for Bench {
    fn drop(&mut self) {
        for end in ["r", "b", "s"] {
            let _ = ip(&format!("netns del {}", self.ns(end)));
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Throughput of one run.
struct Blast {
    /// Packets a second.
    rate: f64,
    /// Packets a second of a core that does nothing else: by the time the box was given.
    of_core: Option<f64>,
    /// Times that packets passed by the box.
    gone_by: u64,
}

struct Running {
    child: Child,
    control: PathBuf,
}

impl Running {
    /// Packets the box has sent on, how often some went by, its clock, and the processor's time it took.
    fn handled(&self) -> anyhow::Result<(u64, u64, f64, f64)> {
        let s = live::fetch(&self.control)?;
        let sent = s.down.report.counters.sent + s.up.report.counters.sent;
        // Behind the name in parentheses: user and system time are the 12th and 13th, in hundredths (proc(5)).
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields = stat.rsplit_once(')').context("no stat")?.1.split_whitespace();
        let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        Ok((sent, s.unseen + s.lost, s.uptime_s, ticks / 100.0))
    }

    fn stop(mut self) -> anyhow::Result<()> {
        nix::sys::signal::kill(
            Pid::from_raw(self.child.id().cast_signed()),
            nix::sys::signal::Signal::SIGTERM,
        )?;
        ensure!(self.child.wait()?.success(), "the box did not end well");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
