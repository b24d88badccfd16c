//! A small world in namespaces: a client, a box between, a server; and the box itself as a process.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};

use crate::live_box::process::{BoxProcess, Unheard};

/// Nothing here takes longer unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `f` on a thread inside network namespace `name`.
pub fn inside<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    let file = std::fs::File::open(format!("/run/netns/{name}")).unwrap();
    std::thread::spawn(move || {
        setns(file, CloneFlags::CLONE_NEWNET).unwrap();
        f()
    })
}

pub fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"))
}

/// Runs a program and expects it to succeed.
pub fn sure(program: &str, args: &[&str]) -> String {
    let out = run(program, args);
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// The program under test: NARROWS_BIN, or beside this test.
fn program() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.parent()?.parent()?.join("narrows");
    std::env::var_os("NARROWS_BIN").map(PathBuf::from).or(Some(beside)).filter(|p| p.exists())
}

/// Why live tests cannot run here, if so.
fn obstacle() -> Option<String> {
    if !nix::unistd::Uid::effective().is_root() {
        return Some("needs root".into());
    }
    if program().is_none() {
        return Some("needs the program: cargo build -p narrows-cli, or NARROWS_BIN".into());
    }
    let probe = format!("nrp{}", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &probe]).output();
    let ok = made.as_ref().is_ok_and(|o| o.status.success());
    if ok {
        run("ip", &["netns", "del", &probe]);
        return None;
    }
    Some("needs network namespaces and the program ip".into())
}

/// Whether live tests can run; says why if not.
pub fn can_run() -> bool {
    static OBSTACLE: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    match OBSTACLE.get_or_init(obstacle) {
        None => true,
        Some(why) => {
            narrows_testing::skip(&narrows_testing::running(), why);
            false
        }
    }
}

/// Whether rules can be kept so here; says why if not.
pub fn can_keep(kind: Kind, filter: &str) -> bool {
    if !can_run() {
        return false;
    }
    let script = "add table bridge t; add chain bridge t c { type filter hook forward priority 0; }; \
                  add rule bridge t c queue flags bypass to 0";
    if kind != Kind::Bridged || filter != "nft" || run("nft", &["-c", script]).status.success() {
        return true;
    }
    narrows_testing::skip(&narrows_testing::running(), "nft on a bridge needs the kernel's nft_queue");
    false
}

/// Whether this kernel has AF_XDP; says why if not.
pub fn can_xdp() -> bool {
    if !can_run() {
        return false;
    }
    let tried = narrows_netio::xdp::available()
        .and_then(|()| Ok(narrows_netio::xdp::Gate::new(Duration::from_secs(1)).map(drop)?));
    tried.inspect_err(|why| narrows_testing::skip(&narrows_testing::running(), format!("{why:#}"))).is_ok()
}

/// How the box joins its two interfaces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The box routes between 10.77.0.0/24 and 10.78.0.0/24.
    Routed,
    /// A bridge joins the interfaces; client and server are in 10.77.0.0/24.
    Bridged,
    /// Nothing joins the interfaces.
    Apart,
}

/// User that boxes become.
pub const USER: &str = "nobody";

/// Keepers of a box's rules that are tried.
pub const FILTERS: [&str; 2] = ["nft", "iptables"];

/// A host of a LAN with several.
pub struct Host {
    pub end: String,
    pub v4: IpAddr,
    pub v6: IpAddr,
}

/// client `c` - `lan` box `b` `wan` - `s` server.
pub struct World {
    tag: String,
    kind: Kind,
    pub dir: PathBuf,
    /// Keeper of its boxes' rules.
    pub filter: &'static str,
    /// Its boxes find no program.
    pub without_programs: bool,
    /// Its boxes are in process groups of their own: a key at the terminal is not for them.
    pub of_its_own: bool,
    /// The clock of its boxes is so many seconds ahead.
    pub ahead: Option<u32>,
    /// Lock of its boxes' iptables, in place of the one that all others take.
    pub lock: Option<PathBuf>,
    /// More users, each in a namespace of its own.
    more: Vec<String>,
}

impl World {
    /// One where live tests can run; else it is said why not, and the test returns.
    pub fn try_new(kind: Kind) -> Option<Self> {
        can_run().then(|| Self::new(kind))
    }

    /// Worlds for each keeper of the rules that works here.
    pub fn each_filter(kind: Kind) -> impl Iterator<Item = Self> {
        FILTERS.into_iter().filter(move |filter| can_keep(kind, filter)).map(move |f| Self::with(kind, f))
    }

    /// A world whose boxes' rules this keeper has.
    pub fn with(kind: Kind, filter: &'static str) -> Self {
        let mut world = Self::new(kind);
        world.filter = filter;
        world
    }

    pub fn new(kind: Kind) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tag = format!("nr{:x}{:x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(format!("narrows-{tag}"));
        std::fs::create_dir_all(&dir).unwrap();
        // Its boxes' sockets and notes are removed by whom they became.
        std::fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let world = Self {
            tag,
            kind,
            dir,
            filter: "auto",
            without_programs: false,
            of_its_own: false,
            ahead: None,
            lock: None,
            more: Vec::new(),
        };
        for end in ["c", "b", "s"] {
            sure("ip", &["netns", "add", &world.ns(end)]);
            world.ip(end, "link set lo up");
        }
        world.connect_lan();
        world.connect_wan();
        if kind == Kind::Routed {
            world.exec("b", "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        }
        if kind == Kind::Bridged {
            world.ip("b", "link add name br0 type bridge");
            world.ip("b", "link set lan master br0 up");
            world.ip("b", "link set wan master br0 up");
            world.ip("b", "link set br0 up");
        }
        // The table exists from now on, so that before and after can be compared.
        world.exec("b", "iptables-legacy -t mangle -S");
        world.exec("b", "ip6tables-legacy -t mangle -S");
        world
    }

    pub fn connect_lan(&self) {
        self.ip("b", &format!("link add lan type veth peer name e0 netns {}", self.ns("c")));
        self.end("c", "lan", ["10.77.0.2/24", "fd77::2/64"], ["10.77.0.1", "fd77::1"]);
    }

    /// Another user in a namespace `c{n}`, 10.8{n}.0.2, behind interface `port` of a box that routes.
    pub fn connect_user(&mut self, n: u8, port: &str) {
        let end = format!("c{n}");
        sure("ip", &["netns", "add", &self.ns(&end)]);
        self.more.push(end.clone());
        self.ip(&end, "link set lo up");
        self.ip("b", &format!("link add {port} type veth peer name e0 netns {}", self.ns(&end)));
        let of = |host: u8| [format!("10.8{n}.0.{host}"), format!("fd8{n}::{host}")];
        let ([v4, v6], [gate4, gate6]) = (of(2), of(1));
        self.end(&end, port, [&format!("{v4}/24"), &format!("{v6}/64")], [&gate4, &gate6]);
    }

    /// Hosts `h0` and on, each in a namespace with an Ethernet address of its own, on one LAN behind `lan`; the client
    /// is their switch.
    pub fn connect_hosts(&mut self, count: u8) -> Vec<Host> {
        self.ip("c", "link add name switch type bridge");
        self.ip("c", "addr flush dev e0");
        self.ip("c", "link set e0 master switch");
        self.ip("c", "link set switch up");
        let connect = |n: u8| {
            let end = format!("h{n}");
            sure("ip", &["netns", "add", &self.ns(&end)]);
            self.more.push(end.clone());
            self.ip(&end, "link set lo up");
            self.ip("c", &format!("link add port{n} type veth peer name e0 netns {}", self.ns(&end)));
            self.ip("c", &format!("link set port{n} master switch up"));
            let (v4, v6) = (format!("10.77.0.{}", 10 + n), format!("fd77::{}", 10 + n));
            self.ip(&end, &format!("addr add {v4}/24 dev e0"));
            self.ip(&end, &format!("-6 addr add {v6}/64 dev e0 nodad"));
            self.ip(&end, "link set e0 up");
            self.ip(&end, "route add default via 10.77.0.1 congctl cubic");
            self.ip(&end, "-6 route add default via fd77::1 congctl cubic");
            Host { end, v4: v4.parse().unwrap(), v6: v6.parse().unwrap() }
        };
        (0..count).map(connect).collect()
    }

    pub fn connect_wan(&self) {
        self.ip("b", &format!("link add wan type veth peer name e0 netns {}", self.ns("s")));
        let addresses = match self.kind {
            Kind::Routed => ["10.78.0.2/24", "fd78::2/64"],
            _ => ["10.77.0.3/24", "fd77::3/64"],
        };
        self.end("s", "wan", addresses, ["10.78.0.1", "fd78::1"]);
    }

    /// Addresses and gates are IPv4, then IPv6.
    fn end(&self, end: &str, port: &str, [v4, v6]: [&str; 2], [gate4, gate6]: [&str; 2]) {
        self.ip(end, &format!("addr add {v4} dev e0"));
        self.ip(end, &format!("-6 addr add {v6} dev e0 nodad"));
        self.ip(end, "link set e0 up");
        self.ip("b", &format!("link set {port} up"));
        if self.kind == Kind::Routed {
            self.ip("b", &format!("addr add {gate4}/24 dev {port}"));
            self.ip("b", &format!("-6 addr add {gate6}/64 dev {port} nodad"));
            self.ip(end, &format!("route add default via {gate4} congctl cubic"));
            self.ip(end, &format!("-6 route add default via {gate6}"));
        }
    }

    /// Writes the box's settings; a box that runs reads them at its next SIGHUP.
    pub fn configure(&self, settings: &str) {
        std::fs::write(self.dir.join("box.toml"), settings).unwrap();
    }

    /// A box with the settings of [`World::configure`].
    pub fn start_configured(&self) -> BoxProcess {
        self.start_configured_with("")
    }

    /// Starts a box by the settings file and more flags.
    pub fn start_configured_with(&self, flags: &str) -> BoxProcess {
        self.start(&format!("{flags} --config {}", self.dir.join("box.toml").display()))
    }

    /// Count of TCP in the kernel at `end`: the `nth` value of its line in /proc/net/snmp.
    pub fn counted_of_tcp(&self, end: &str, nth: usize) -> String {
        let snmp = inside(&self.ns(end), || std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap());
        let snmp = snmp.join().unwrap();
        let tcp = snmp.lines().rfind(|l| l.starts_with("Tcp: ")).unwrap();
        tcp.split(' ').nth(nth).unwrap().to_owned()
    }

    pub fn ns(&self, end: &str) -> String {
        format!("{}{end}", self.tag)
    }

    /// The server, as the client reaches it.
    pub fn server4(&self) -> IpAddr {
        let text = if self.kind == Kind::Routed { "10.78.0.2" } else { "10.77.0.3" };
        text.parse().unwrap()
    }

    pub fn server6(&self) -> IpAddr {
        let text = if self.kind == Kind::Routed { "fd78::2" } else { "fd77::3" };
        text.parse().unwrap()
    }

    pub fn ip(&self, end: &str, args: &str) {
        let ns = self.ns(end);
        let mut all = vec!["-n", ns.as_str()];
        all.extend(args.split_whitespace());
        sure("ip", &all);
    }

    pub fn exec(&self, end: &str, command: &str) -> String {
        let ns = self.ns(end);
        let mut all = vec!["netns", "exec", ns.as_str()];
        all.extend(command.split_whitespace());
        sure("ip", &all)
    }

    /// All rules of the box's namespace, without counters.
    pub fn rules(&self) -> String {
        let mut all = String::new();
        for tool in ["iptables-legacy-save", "ip6tables-legacy-save", "nft list ruleset"] {
            for line in self.exec("b", tool).lines().filter(|l| !l.starts_with('#')) {
                let line = line.split(" [").next().unwrap_or_default();
                // As nft lists it: counter packets 3 bytes 180.
                let (before, counted) = line.split_once("counter packets ").unwrap_or((line, ""));
                all.push_str(before);
                all.push_str(counted.splitn(4, ' ').nth(3).unwrap_or_default());
                all.push('\n');
            }
        }
        all
    }

    /// Whether any rule leads to a box.
    pub fn is_queued(&self) -> bool {
        let rules = self.rules();
        rules.contains("-j NFQUEUE") || rules.contains(" bypass")
    }

    /// Error message of a box that refuses to start so.
    pub fn refused(&self, args: &str) -> String {
        let mut command = self.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let since = std::time::Instant::now();
        while child.try_wait().unwrap().is_none() && since.elapsed() < std::time::Duration::from_secs(30) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // A box that runs instead is ended, and has no status.
        let _ = child.kill();
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args}: {}", String::from_utf8_lossy(&out.stderr));
        assert!(out.stdout.is_empty(), "{args}: it must not say that it runs");
        String::from_utf8_lossy(&out.stderr).into_owned()
    }

    /// `narrows ARGS` inside the box's namespace.
    pub fn narrows(&self, args: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.ns("b")]);
        if self.without_programs {
            command.args(["env", "PATH=/nonexistent"]);
        }
        // The kernel takes it there when it becomes another program.
        command.args(
            self.ahead.iter().flat_map(|s| ["unshare".into(), "--time".into(), format!("--monotonic={s}")]),
        );
        command.arg(program().unwrap());
        command.args(args.split_whitespace()).stdin(Stdio::null());
        command
    }

    fn command(&self, args: &str) -> Command {
        // Where a file has the interfaces, it has them for each link.
        let own = std::fs::read_to_string(self.dir.join("box.toml")).is_ok_and(|t| t.contains("lan ="));
        let between = if own && args.contains("--config") { "run" } else { "run --lan lan --wan wan" };
        let mut command = self.narrows(between);
        command.args(args.split_whitespace());
        command.arg("--control").arg(self.control()).arg("--state-dir").arg(self.state());
        command.args(["--rules", self.filter, "--user", USER]);
        // As systemd starts a service of type notify with a watchdog.
        command.envs(self.lock.iter().map(|path| ("XTABLES_LOCKFILE", path)));
        command.env("NOTIFY_SOCKET", self.notify_socket()).env("WATCHDOG_USEC", "10000000");
        command
    }

    pub fn control(&self) -> PathBuf {
        self.dir.join("control.sock")
    }

    /// Where the box tells a service manager how it is.
    pub fn notify_socket(&self) -> PathBuf {
        self.dir.join("notify")
    }

    pub fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// A box with the settings of [`World::configure`] and a log that nobody reads, with no room left.
    pub fn start_with_full_log(&self) -> BoxProcess {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
        std::fs::File::from(writer.try_clone().unwrap()).write_all(&[b'.'; 4096]).unwrap();
        // Open for as long as the tests run: closed, it would be an error and no wait.
        std::mem::forget(reader);
        self.start_with(&format!("--config {}", self.dir.join("box.toml").display()), writer.into())
    }

    /// Starts a box of which nobody hears.
    pub fn spawn(&self, args: &str) -> Unheard {
        Unheard::spawn(&mut self.command(args))
    }

    /// Starts a box and waits until it runs.
    pub fn start(&self, args: &str) -> BoxProcess {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.dir.join("log")).unwrap();
        self.start_with(args, log.into())
    }

    fn start_with(&self, args: &str, errors: Stdio) -> BoxProcess {
        let log = self.dir.join("log");
        let mut command = self.command(args);
        if self.of_its_own {
            command.process_group(0);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let (tell, told) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(|l| drop(tell.send(l))));
        let line = told.recv_timeout(PATIENCE).unwrap_or_default();
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        assert!(line.starts_with("narrows: running"), "{args}: said '{line}' and\n{said}");
        BoxProcess { child, control: self.control(), log }
    }

    /// Numbered datagrams from the server to the client, with `pause` between them.
    pub fn datagrams(&self, count: u32, pause: Duration) -> Datagrams {
        let (tell, told) = mpsc::channel();
        let receiving = inside(&self.ns("c"), move || {
            let socket = UdpSocket::bind("10.77.0.2:0").unwrap();
            // All of them may come at once.
            nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::RcvBufForce, &(8 << 20))
                .unwrap();
            tell.send(socket.local_addr().unwrap()).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut buffer = [0; 2000];
            let mut one = || {
                // Nothing for so long: what has not come is lost.
                let n = socket.recv(&mut buffer).ok()?;
                assert_eq!(n, 1000);
                Some(u32::from_be_bytes(buffer[..4].try_into().unwrap()))
            };
            let (mut longest, mut last) = (Duration::ZERO, Instant::now());
            let mut next = || {
                let number = one()?;
                longest = longest.max(last.elapsed());
                last = Instant::now();
                Some(number)
            };
            let numbers = (0..count).map_while(|_| next()).collect();
            (numbers, longest)
        });
        let address = told.recv_timeout(PATIENCE).unwrap();
        let sending = inside(&self.ns("s"), move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            for number in 0..count {
                let mut datagram = [0; 1000];
                datagram[..4].copy_from_slice(&number.to_be_bytes());
                socket.send_to(&datagram, address).unwrap();
                std::thread::sleep(pause);
            }
        });
        Datagrams { sending, receiving, count, log: self.dir.join("log") }
    }

    /// The client fetches `bytes` from the server through the box. Returns whether every byte came as it should.
    pub fn fetch(&self, server: IpAddr, bytes: usize) -> Fetch {
        self.fetch_by("c", server, bytes)
    }

    /// Fetches until a whole transfer went through the queue. Traffic passes by a box that gets no processor for some
    /// tenths of a second, and a busy machine can do that to any box.
    pub fn fetch_through(&self, running: &BoxProcess) {
        let sent = || running.status().down.report.counters.sent;
        let went_through = || {
            let before = sent();
            self.fetch(self.server4(), 100_000).complete();
            sent() > before + 60
        };
        assert!((0..10).any(|_| went_through()), "traffic passes by: {}", running.log());
    }

    /// Fetches by the user in another namespace.
    pub fn fetch_by(&self, end: &str, server: IpAddr, bytes: usize) -> Fetch {
        let (tell, told) = mpsc::channel();
        let serving = inside(&self.ns("s"), move || serve_one(server, bytes, &tell));
        let address = told.recv_timeout(PATIENCE).unwrap();
        let reading = inside(&self.ns(end), move || read_all(address));
        Fetch { serving, reading, bytes }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for end in ["c", "b", "s"].into_iter().chain(self.more.iter().map(String::as_str)) {
            run("ip", &["netns", "del", &self.ns(end)]);
        }
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// A transfer in progress.
pub struct Fetch {
    serving: std::thread::JoinHandle<()>,
    reading: std::thread::JoinHandle<(Vec<u8>, Duration)>,
    bytes: usize,
}

impl Fetch {
    pub fn is_done(&self) -> bool {
        self.reading.is_finished()
    }

    /// Waits for its end; panics if a byte is missing or wrong.
    pub fn complete(self) {
        self.longest_gap();
    }

    /// Waits for the last byte; returns the longest time without any after the first.
    pub fn longest_gap(self) -> Duration {
        let (got, longest) = self.reading.join().unwrap();
        assert_eq!(got.len(), self.bytes);
        assert!(got == pattern(self.bytes), "bytes were changed");
        self.serving.join().unwrap();
        longest
    }
}

/// Numbered datagrams on their way.
pub struct Datagrams {
    sending: std::thread::JoinHandle<()>,
    receiving: std::thread::JoinHandle<(Vec<u32>, Duration)>,
    count: u32,
    /// Log of the boxes on their way.
    log: PathBuf,
}

impl Datagrams {
    pub fn is_done(&self) -> bool {
        self.receiving.is_finished()
    }

    /// Waits for the last; panics if one is missing or out of order. Returns the longest time between two.
    ///
    /// Where a busy host gave a box no processor, and its log tells that traffic passed by, those that passed may be
    /// ahead of those that waited.
    pub fn complete(self) -> Duration {
        self.sending.join().unwrap();
        let (mut numbers, longest) = self.receiving.join().unwrap();
        if std::fs::read_to_string(&self.log).is_ok_and(|log| log.contains("traffic passed by it")) {
            numbers.sort_unstable();
        }
        assert!(numbers.is_sorted_by(|a, b| a < b), "out of order: {numbers:?}");
        let missing: Vec<u32> = (0..self.count).filter(|n| numbers.binary_search(n).is_err()).collect();
        assert!(missing.is_empty(), "missing: {missing:?}");
        longest
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect()
}

fn serve_one(address: IpAddr, bytes: usize, tell: &mpsc::Sender<SocketAddr>) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    tell.send(listener.local_addr().unwrap()).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&pattern(bytes)).unwrap();
}

/// A neighbour of a namespace that has just been made may first be looked for in vain.
fn connect(address: SocketAddr) -> TcpStream {
    let begun = Instant::now();
    loop {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Err(e) if e.kind() == ErrorKind::HostUnreachable && begun.elapsed() < PATIENCE => {}
            stream => return stream.unwrap(),
        }
    }
}

fn read_all(address: SocketAddr) -> (Vec<u8>, Duration) {
    let mut stream = connect(address);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut got, mut buffer, mut times) = (Vec::new(), [0; 65_536], None);
    loop {
        let n = stream.read(&mut buffer).unwrap();
        let now = Instant::now();
        let (last, longest) = times.unwrap_or((now, Duration::ZERO));
        times = Some((now, longest.max(now - last)));
        if n == 0 {
            return (got, longest.max(now - last));
        }
        got.extend_from_slice(&buffer[..n]);
    }
}
