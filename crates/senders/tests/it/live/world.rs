//! Two hosts in network namespaces, with a delay between them if asked, and a BPF file system of one's own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use narrows_senders::{self as senders, Driven, Sender, SpreadingDriver, WatchedSender};
use narrows_wire::Flags;
use narrows_wire::capture::{Captured, Reader};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};

/// Longest time that anything here takes unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The program, whose lab delays and captures: NARROWS_BIN, or beside this test.
fn program() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.parent()?.parent()?.join("narrows");
    std::env::var_os("NARROWS_BIN").map(PathBuf::from).or(Some(beside)).filter(|p| p.exists())
}

/// Reason why live tests cannot run here, if there is one. A program that clang did not take is no reason but a
/// failure.
fn obstacle() -> Option<String> {
    let possible = senders::possible().err().map(|e| e.to_string());
    let clang_failed = possible.as_ref().filter(|e| e.contains("could not compile"));
    assert_eq!(clang_failed, None);
    let lacks = |program: &str| {
        Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err()
    };
    possible
        .or_else(|| {
            ["ip", "ss", "ethtool"].into_iter().find(|p| lacks(p)).map(|p| format!("needs the program {p}"))
        })
        .or_else(|| {
            program()
                .is_none()
                .then(|| "needs the program: cargo build -p narrows-cli, or NARROWS_BIN".into())
        })
}

/// Whether live tests can run; says why if not.
pub fn can_run(test: &str) -> bool {
    static OBSTACLE: OnceLock<Option<String>> = OnceLock::new();
    match OBSTACLE.get_or_init(obstacle) {
        None => true,
        Some(why) => {
            narrows_testing::skip(test, why);
            false
        }
    }
}

/// Runs a program and expects it to succeed.
pub fn sure(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Frame that the sender of a connection sent or heard, in ns since the first frame and bytes since its first data.
#[derive(Clone, Copy, Debug)]
pub enum Frame {
    /// A segment with data left.
    Data { at_ns: u64, seq: u32 },
    /// All before this is acknowledged.
    Ack { at_ns: u64, ack: u32 },
}

/// `s`ender and `r`eceiver, each a namespace, and a link `e` between them that delays; 10.79.0.1 and 10.79.0.2.
pub struct World {
    tag: String,
    pub bpffs: PathBuf,
    loaded: Vec<String>,
    parts: Vec<Child>,
    drivers: Vec<(Arc<AtomicBool>, JoinHandle<Driven>)>,
}

impl World {
    /// Makes a world with a delay each way, and an ACK for every segment.
    pub fn new(delay: Duration) -> Self {
        Self::lossy(delay, 0.0)
    }

    /// Makes a world with two ends, where each way delays the frames and loses this share of them.
    pub fn lossy(delay: Duration, loss: f64) -> Self {
        let mut world = Self::bare();
        for (end, other) in [("s", "r"), ("r", "s")] {
            world.wire(end, other);
        }
        let spec = format!(
            r#"{{"interfaces":["s","r"],"delay_ns":{},"loss":{loss},"seed":1,"limit":100000}}"#,
            delay.as_nanos()
        );
        world.start("e", "emulator", &spec);
        world
    }

    /// Three namespaces and nothing between them.
    fn bare() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tag = format!("ns{:x}{:x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let bpffs = std::env::temp_dir().join(format!("narrows-{tag}"));
        std::fs::create_dir_all(&bpffs).unwrap();
        let world = Self { tag, bpffs, loaded: Vec::new(), parts: Vec::new(), drivers: Vec::new() };
        sure("mount", &["-t", "bpf", "bpf", &world.bpffs.display().to_string()]);
        for end in ["s", "r", "e"] {
            sure("ip", &["netns", "add", &world.ns(end)]);
        }
        world
    }

    /// Makes a world without the link between: one cable, and an ACK as the kernel likes.
    pub fn direct() -> Self {
        let world = Self::bare();
        let (s, r) = (world.ns("s"), world.ns("r"));
        let ip = |line: &str| sure("ip", &line.split(' ').collect::<Vec<_>>());
        ip(&format!("link add eth netns {s} type veth peer name eth netns {r}"));
        for (ns, address, other) in [(&s, "10.79.0.1", "10.79.0.2"), (&r, "10.79.0.2", "10.79.0.1")] {
            ip(&format!("-n {ns} link set eth up"));
            ip(&format!("-n {ns} address add {address} peer {other} dev eth"));
        }
        world
    }

    /// Runs `tc` or `ip` in a host.
    pub fn set(&self, program: &str, end: &str, line: &str) {
        let ns = self.ns(end);
        sure(program, &[&["-n", ns.as_str()][..], &line.split(' ').collect::<Vec<_>>()].concat());
    }

    /// Host `end` and its way to the link. The neighbour is known: an ARP request would be part of the handshake's RTT.
    fn wire(&self, end: &str, other: &str) {
        let address = |end: &str| format!("10.79.0.{}", if end == "s" { 1 } else { 2 });
        let (here, link) = (self.ns(end), self.ns("e"));
        let ip = |line: &str| sure("ip", &line.split(' ').collect::<Vec<_>>());
        ip(&format!("link add eth address {} netns {here} type veth peer name {end} netns {link}", mac(end)));
        for (ns, interface) in [(&here, "eth"), (&link, end)] {
            offloads_off(ns, interface);
            ip(&format!("-n {ns} link set {interface} up"));
        }
        ip(&format!("-n {here} address add {}/32 dev eth", address(end)));
        ip(&format!("-n {here} neigh add {} lladdr {} dev eth nud permanent", address(other), mac(other)));
        ip(&format!("-n {here} route add {} dev eth quickack 1", address(other)));
    }

    /// Switches offloads off at the only interface of a host.
    pub fn offloads_off(&self, end: &str) {
        offloads_off(&self.ns(end), "eth");
    }

    /// Starts a part of the lab in a host and waits until it is in place.
    fn start(&mut self, end: &str, role: &str, spec: &str) {
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.ns(end)])
            .arg(program().unwrap())
            .args(["lab-worker", role, spec])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        self.parts.push(child);
        assert!(line.contains("ready"), "{role}: {line}");
    }

    /// Captures the frames that the sender of one connection sent and heard while `f` ran, from its first data segment
    /// on.
    pub fn frames(&mut self, f: impl FnOnce(&mut Self)) -> Vec<Frame> {
        self.capture(f).1
    }

    /// Captures the frames that the sender of one connection sent and heard while `f` ran, and the handshake's
    /// duration.
    pub fn capture(&mut self, f: impl FnOnce(&mut Self)) -> (Duration, Vec<Frame>) {
        let file = std::env::temp_dir().join(format!("narrows-{}.pcap", self.tag));
        self.start("s", "capture", &format!(r#"{{"interface":"eth","file":"{}"}}"#, file.display()));
        f(self);
        let mut capture = self.parts.pop().unwrap();
        drop(capture.stdin.take());
        capture.wait().unwrap();
        let frames: Vec<_> =
            Reader::new(std::fs::File::open(&file).unwrap()).unwrap().map(Result::unwrap).collect();
        std::fs::remove_file(&file).unwrap();
        let ours: IpAddr = Ipv4Addr::new(10, 79, 0, 1).into();
        let sent = |c: &Captured| c.header.key.src() == ours;
        let is_syn = |c: &&Captured| c.header.tcp.is_some_and(|tcp| tcp.flags.has(Flags::SYN));
        let mut syns = frames.iter().filter(is_syn).map(|c| c.at.as_nanos());
        let handshake = syns.next().zip(syns.next_back()).map_or(0, |(first, last)| last - first);
        let mut frames = frames.iter().skip_while(|c| !(sent(c) && c.header.is_tcp_data())).peekable();
        let first = frames.peek().map_or(0, |c| c.header.tcp.unwrap().seq.0);
        let kinds = frames.filter_map(|c| {
            let (at_ns, tcp) = (c.at.as_nanos(), c.header.tcp?);
            match sent(c) {
                true => (tcp.payload > 0).then(|| Frame::Data { at_ns, seq: tcp.seq.0.wrapping_sub(first) }),
                false => Some(Frame::Ack { at_ns, ack: tcp.ack.0.wrapping_sub(first) }),
            }
        });
        (Duration::from_nanos(handshake), kinds.collect())
    }

    pub fn ns(&self, end: &str) -> String {
        format!("{}{end}", self.tag)
    }

    /// Runs `f` on a thread inside a host.
    pub fn inside<T: Send + 'static>(
        &self,
        end: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let file = std::fs::File::open(Path::new("/run/netns").join(self.ns(end))).unwrap();
        std::thread::spawn(move || {
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            f()
        })
    }

    /// Loads a sender under a name of this world's own.
    pub fn load(&mut self, sender: Sender, knobs: &[&str]) -> String {
        let knobs: Vec<_> = knobs.iter().map(|k| (*k).to_owned()).collect();
        let settings = senders::settings(&[sender], &knobs).unwrap().remove(0);
        let name = format!("{}_{}", self.tag, self.loaded.len());
        senders::load(&self.bpffs, &name, &settings).unwrap();
        self.loaded.push(name.clone());
        self.drive(sender, &name);
        name
    }

    /// Loads a sender whose driver is a process of its own.
    pub fn load_beside(&mut self, sender: Sender) -> (String, DriverProcess) {
        let name = format!("{}_{}", self.tag, self.loaded.len());
        senders::load(&self.bpffs, &name, &senders::Settings::new(sender)).unwrap();
        self.loaded.push(name.clone());
        let child = Command::new(program().unwrap())
            .args(["senders", "drive", &name, "--bpffs"])
            .arg(&self.bpffs)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        while senders::loaded(&self.bpffs).unwrap().iter().all(|l| l.driven == Some(false)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        (name, DriverProcess(child))
    }

    /// Starts the driver of a loaded sender, if it needs one.
    fn drive(&mut self, sender: Sender, name: &str) {
        if !sender.needs_driver() {
            return;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (told, driver) = (stop.clone(), SpreadingDriver::new(&self.bpffs, name).unwrap());
        let thread = std::thread::spawn(move || driver.run(&|| told.load(Ordering::Relaxed)).unwrap());
        self.drivers.push((stop, thread));
        // Its first beat must be seen before a connection is.
        std::thread::sleep(Duration::from_millis(20));
    }

    /// Loads a sender under a name of this world's own, and listens to it.
    pub fn watch(&mut self, sender: Sender, knobs: &[&str]) -> (String, WatchedSender) {
        let knobs: Vec<_> = knobs.iter().map(|k| (*k).to_owned()).collect();
        let settings = senders::settings(&[sender], &knobs).unwrap().remove(0);
        let name = format!("{}_{}", self.tag, self.loaded.len());
        let watch = WatchedSender::load(&self.bpffs, &name, &settings).unwrap();
        self.loaded.push(name.clone());
        self.drive(sender, &name);
        (name, watch)
    }

    /// Makes the way to the receiver thin, with a buffer of `buffer` bytes. Lateness of the kernel's timer may be made
    /// up for by a packet for each 15 Mbit/s.
    pub fn thin(&self, mbit: u64, buffer: usize) {
        let burst = 1600 * (1 + mbit / 15);
        self.set(
            "tc",
            "e",
            &format!("qdisc add dev r root tbf rate {mbit}mbit burst {burst} limit {buffer}"),
        );
    }

    /// Whether anything the sender says is heard: otherwise its frames go to an address that nobody has.
    pub fn heard(&self, heard: bool) {
        let address = if heard { mac("r") } else { "02:00:00:4e:53:00".to_owned() };
        self.set("ip", "s", &format!("neigh replace 10.79.0.2 lladdr {address} dev eth nud permanent"));
    }

    /// Loses everything the sender says for this long.
    pub fn silence(&self, lasting: Duration) {
        self.heard(false);
        std::thread::sleep(lasting);
        self.heard(true);
    }

    /// Loads a sender as a user does, and gives its name and its driver's process.
    pub fn load_by_program(&mut self, sender: &str) -> (String, u32) {
        let name = format!("{}_{}", self.tag, self.loaded.len());
        let bpffs = self.bpffs.display().to_string();
        let program = program().unwrap().display().to_string();
        let said = sure(&program, &["senders", "load", sender, "--as", &name, "--bpffs", &bpffs]);
        self.loaded.push(name.clone());
        let driver = said.rsplit(' ').next().unwrap().trim().parse().unwrap_or_else(|_| panic!("{said}"));
        (name, driver)
    }

    /// Ends the driver that was started last, and gives what it did.
    pub fn stop_driver(&mut self) -> Driven {
        let (stop, thread) = self.drivers.pop().unwrap();
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap()
    }

    pub fn unload(&mut self, name: &str) {
        senders::unload(&self.bpffs, name).unwrap();
        self.loaded.retain(|n| n != name);
    }

    /// Listens at the receiver and accepts nothing: the kernel takes up to 128 connections for each port, and their
    /// data.
    pub fn listen(&self, ports: &[u16]) -> Vec<TcpListener> {
        let ports = ports.to_vec();
        let listen = move || {
            ports.into_iter().map(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap()).collect()
        };
        self.inside("r", listen).join().unwrap()
    }

    /// Takes one connection at the receiver; returns a function that tells how many bytes have arrived.
    pub fn counting_sink(&self, port: u16) -> impl Fn() -> u64 + use<> {
        let (ready, wait) = std::sync::mpsc::channel();
        let total = Arc::new(AtomicU64::new(0));
        let sum = total.clone();
        drop(self.inside("r", move || {
            let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
            ready.send(()).unwrap();
            let (mut stream, mut buffer) = (listener.accept().unwrap().0, vec![0; 65536]);
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                sum.fetch_add(n as u64, Ordering::Relaxed);
            }
        }));
        wait.recv().unwrap();
        move || total.load(Ordering::Relaxed)
    }

    /// Listens at the receiver and throws away what comes; gives the bytes of each connection when the last has ended.
    pub fn sink(&self, port: u16, connections: usize) -> JoinHandle<Vec<u64>> {
        let (ready, wait) = std::sync::mpsc::channel();
        let sink = self.inside("r", move || {
            let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
            ready.send(()).unwrap();
            let drain = |mut s: TcpStream| {
                s.set_read_timeout(Some(PATIENCE)).unwrap();
                let (mut total, mut buffer) = (0, vec![0; 65536]);
                loop {
                    match s.read(&mut buffer).unwrap() {
                        0 => return total,
                        n => total += n as u64,
                    }
                }
            };
            let threads: Vec<_> = (0..connections)
                .map(|_| listener.accept().unwrap().0)
                .map(|s| std::thread::spawn(move || drain(s)))
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        wait.recv().unwrap();
        sink
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for name in &self.loaded {
            let _ = senders::unload(&self.bpffs, name);
        }
        for part in &mut self.parts {
            drop(part.stdin.take());
            let _ = part.wait();
        }
        for end in ["s", "r", "e"] {
            let _ = Command::new("ip").args(["netns", "del", &self.ns(end)]).status();
        }
        let _ = nix::mount::umount(&self.bpffs);
        let _ = std::fs::remove_dir(&self.bpffs);
    }
}

/// A driver beside the test.
pub struct DriverProcess(Child);

impl DriverProcess {
    /// Ends it, and gives the numbers of its last words in their order.
    pub fn stop(self) -> Vec<f64> {
        sure("kill", &[&self.0.id().to_string()]);
        let said = self.0.wait_with_output().unwrap().stdout;
        let said = String::from_utf8(said).unwrap();
        said.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
    }
}

/// The address of a host's interface.
fn mac(end: &str) -> String {
    format!("02:00:00:4e:53:{:02x}", end.as_bytes()[0])
}

/// Switches offloads off: otherwise a veth hands over 64 kB "packets" with half a checksum.
fn offloads_off(ns: &str, interface: &str) {
    let exec = ["netns", "exec", ns, "ethtool", "-K", interface];
    sure("ip", &[&exec[..], &["tx", "off", "tso", "off", "gso", "off", "gro", "off"]].concat());
}

/// Connects from inside the sender with a congestion control.
pub fn connect(name: &str, port: u16) -> TcpStream {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, socket};
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    setsockopt(&fd, TcpCongestion, &name.into()).unwrap();
    let to: SockaddrIn = match SocketAddr::from((Ipv4Addr::new(10, 79, 0, 2), port)) {
        SocketAddr::V4(v4) => v4.into(),
        SocketAddr::V6(_) => unreachable!("IPv4 above"),
    };
    nix::sys::socket::connect(std::os::fd::AsRawFd::as_raw_fd(&fd), &to).unwrap();
    let stream = TcpStream::from(fd);
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Writes this many bytes.
pub fn push(stream: &mut TcpStream, bytes: usize) {
    stream.write_all(&vec![b'x'; bytes]).unwrap();
}
