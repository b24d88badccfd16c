//! The four namespaces of one run: made, wired, and taken away again, whatever happens in between.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use super::worker::browser::server_address;
use super::worker::user::user_address;

/// Folder in which `ip netns` keeps names.
const NETNS: &str = "/run/netns";
/// Begin of every name that the lab makes; the process id follows.
const PREFIX: &str = "nrw-";

/// Address on which the server listens.
pub const SERVER: &str = "10.78.2.2";
/// Port on which the server listens.
pub const SERVER_PORT: u16 = 80;

/// A host of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// All users.
    Users,
    /// The box: `lan0` to the users, `wan0` to the world.
    Box,
    /// The emulated link: `w0` to the box, `s0` to the server.
    Link,
    /// The server.
    Server,
}

impl Room {
    const ALL: [Self; 4] = [Self::Users, Self::Box, Self::Link, Self::Server];

    const fn suffix(self) -> &'static str {
        match self {
            Self::Users => "cli",
            Self::Box => "box",
            Self::Link => "emu",
            Self::Server => "srv",
        }
    }
}

/// Layer at which the box handles packets: IP or Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// A router between two networks.
    Routed,
    /// A bridge, or nothing yet: whoever stands there joins `lan0` and `wan0` at layer 2.
    Bridged,
}

/// Four namespaces and a directory, gone when dropped.
#[derive(Debug)]
pub struct Bench {
    name: String,
    dir: PathBuf,
    layer: Layer,
}

impl Bench {
    /// Makes and wires them; every interface gets `mtu`.
    ///
    /// # Errors
    /// Says which program or call failed, and the remedy.
    pub fn new(mtu: u32, layer: Layer) -> anyhow::Result<Self> {
        available()?;
        let name = format!("{PREFIX}{}-{:04x}", std::process::id(), fastrand::u16(..));
        let dir = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        // From here on dropping cleans up, also when wiring fails half way.
        let bench = Self { name, dir, layer };
        bench.wire(mtu, layer).context("lab namespaces")?;
        Ok(bench)
    }

    /// A directory for sockets and logs.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The name of a room's namespace.
    #[must_use]
    pub fn netns(&self, room: Room) -> String {
        format!("{}-{}", self.name, room.suffix())
    }

    /// A command inside a room, in a process group of its own, so that Ctrl-C reaches the lab and not its parts.
    #[must_use]
    pub fn command(&self, room: Room, program: &str) -> Command {
        use std::os::unix::process::CommandExt as _;
        let mut c = Command::new("ip");
        c.args(["netns", "exec", &self.netns(room), program]).process_group(0);
        c
    }

    /// Runs a command inside a room to its end and gives what it printed.
    ///
    /// # Errors
    /// With the command and what it said on standard error.
    pub fn run(&self, room: Room, program: &str, args: &[&str]) -> anyhow::Result<String> {
        let mut c = self.command(room, program);
        output(c.args(args), &format!("{program} {} (in {})", args.join(" "), room.suffix()))
    }

    /// Gives the server an address for each browser, and routes by which each speaks from its user's address.
    ///
    /// # Errors
    /// If a route cannot be set.
    pub fn browsers(&self, users: &[u32]) -> anyhow::Result<()> {
        let [cli, bx, _, srv] = Room::ALL.map(|r| self.netns(r));
        let run = |netns: &str, line: &str| {
            let args: Vec<&str> = ["-n", netns].into_iter().chain(line.split_whitespace()).collect();
            ip(&args)
        };
        if !users.is_empty() && self.layer == Layer::Routed {
            run(&bx, &format!("route add 10.79.0.0/16 via {SERVER} dev wan0"))?;
        }
        for (number, user) in (0..).zip(users) {
            let (server, user) = (server_address(number), user_address(*user));
            let via = if self.layer == Layer::Routed { "10.78.1.1" } else { SERVER };
            run(&srv, &format!("address add {server}/32 dev lo"))?;
            run(&cli, &format!("route add {server}/32 via {via} dev cli0 onlink src {user}"))?;
        }
        Ok(())
    }

    fn wire(&self, mtu: u32, layer: Layer) -> anyhow::Result<()> {
        for room in Room::ALL {
            ip(&["netns", "add", &self.netns(room)])?;
        }
        let [cli, bx, emu, srv] = Room::ALL.map(|r| self.netns(r));
        for (a, a_ns, a_mac, b, b_ns, b_mac) in [
            ("cli0", &cli, 1, "lan0", &bx, 2),
            ("wan0", &bx, 3, "w0", &emu, 4),
            ("s0", &emu, 5, "srv0", &srv, 6),
        ] {
            let mtu = mtu.to_string();
            let mac = |n: u8| format!("02:00:00:4e:52:{n:02x}");
            ip(&[
                "link",
                "add",
                a,
                "mtu",
                &mtu,
                "address",
                &mac(a_mac),
                "netns",
                a_ns,
                "type",
                "veth",
                "peer",
                "name",
                b,
                "mtu",
                &mtu,
                "address",
                &mac(b_mac),
                "netns",
                b_ns,
            ])?;
        }
        for room in Room::ALL {
            self.settings(room)?;
        }
        for (room, interfaces) in [
            (Room::Users, &["cli0"][..]),
            (Room::Box, &["lan0", "wan0"]),
            (Room::Link, &["w0", "s0"]),
            (Room::Server, &["srv0"]),
        ] {
            for interface in interfaces {
                // Without this a veth hands over 64 kB "packets" with half a checksum.
                self.run(
                    room,
                    "ethtool",
                    &["-K", interface, "tx", "off", "tso", "off", "gso", "off", "gro", "off"],
                )?;
                ip(&["-n", &self.netns(room), "link", "set", interface, "up"])?;
            }
        }
        self.addresses(layer)
    }

    /// Sets a kernel setting, as `net.ipv4.tcp_ecn`, at the users' and the server's.
    ///
    /// # Errors
    /// If this kernel, or a namespace of it, has no such setting or refuses the value.
    pub fn sysctl(&self, key: &str, value: &str) -> anyhow::Result<()> {
        let script = format!("echo '{value}' > /proc/sys/{}", key.replace('.', "/"));
        for room in [Room::Users, Room::Server] {
            self.run(room, "sh", &["-c", &script]).with_context(|| format!("sysctl.\"{key}\""))?;
        }
        Ok(())
    }

    /// Kernel settings that a run must not inherit or leave behind; they die with the namespace.
    fn settings(&self, room: Room) -> anyhow::Result<()> {
        let mut script = String::new();
        for (key, value) in [
            ("ipv6/conf/all/disable_ipv6", "1"),
            ("ipv6/conf/default/disable_ipv6", "1"),
            ("ipv4/ip_forward", if matches!(room, Room::Box) { "1" } else { "0" }),
            ("ipv4/conf/all/rp_filter", "0"),
            ("ipv4/conf/default/rp_filter", "0"),
            ("ipv4/conf/all/send_redirects", "0"),
            // Otherwise one run's losses become the next one's ssthresh.
            ("ipv4/tcp_no_metrics_save", "1"),
            ("ipv4/ip_local_port_range", "2048 65000"),
            ("ipv4/tcp_max_syn_backlog", "8192"),
            ("core/somaxconn", "8192"),
        ] {
            // A kernel without IPv6, or an older one, lacks some of them.
            let _ = writeln!(script, "[ -e /proc/sys/net/{key} ] && echo {value} > /proc/sys/net/{key}");
        }
        script.push_str("true\n");
        self.run(room, "sh", &["-c", &script]).map(drop)
    }

    fn addresses(&self, layer: Layer) -> anyhow::Result<()> {
        let users = format!("{}/16", user_address(0));
        // Permanent neighbours: an ARP request lost in a full queue would be no TCP's fault. Behind a bridge the two
        // ends are each other's next hop.
        let ((up, up_mac), (down, down_mac)) = match layer {
            Layer::Routed => (("10.78.1.1", 2), ("10.78.2.1", 3)),
            Layer::Bridged => ((SERVER, 6), ("10.78.1.2", 1)),
        };
        let hop = |via: &str, mac: u8, dev: &str| {
            format!(
                "neigh add {via} lladdr 02:00:00:4e:52:{mac:02x} dev {dev} nud permanent\n\
                 route add default via {via} dev {dev} onlink\n"
            )
        };
        for (room, batch) in [
            (
                Room::Users,
                format!(
                    "address add {users} dev lo\naddress add 10.78.1.2/24 dev cli0\n{}",
                    hop(up, up_mac, "cli0")
                ),
            ),
            (
                Room::Box,
                match layer {
                    Layer::Bridged => String::new(),
                    Layer::Routed => "address add 10.78.1.1/24 dev lan0\naddress add 10.78.2.1/24 dev wan0\n\
                         neigh add 10.78.1.2 lladdr 02:00:00:4e:52:01 dev lan0 nud permanent\n\
                         neigh add 10.78.2.2 lladdr 02:00:00:4e:52:06 dev wan0 nud permanent\n\
                         route add 10.77.0.0/16 via 10.78.1.2\n"
                        .to_owned(),
                },
            ),
            (Room::Server, format!("address add {SERVER}/24 dev srv0\n{}", hop(down, down_mac, "srv0"))),
        ] {
            let netns = self.netns(room);
            for line in std::iter::once("link set lo up").chain(batch.lines()) {
                let mut args = vec!["-n", &netns];
                args.extend(line.split_whitespace());
                ip(&args)?;
            }
        }
        Ok(())
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for room in Room::ALL {
            remove(&self.netns(room));
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Says why this machine cannot hold a bench, if so.
///
/// # Errors
/// Names what is missing and the remedy.
pub fn available() -> anyhow::Result<()> {
    ensure!(nix::unistd::geteuid().is_root(), "the lab makes network namespaces and needs root: try sudo");
    for (program, package) in [("ip", "iproute2"), ("tc", "iproute2"), ("ethtool", "ethtool")] {
        ensure!(found(program), "the lab needs '{program}': apt-get install {package}");
    }
    let probe = format!("{PREFIX}{}-{:04x}-try", std::process::id(), fastrand::u16(..));
    let made = ip(&["netns", "add", &probe]);
    remove(&probe);
    made.context(
        "this machine refuses network namespaces; in a container start it with --privileged, \
         or with --cap-add NET_ADMIN --cap-add SYS_ADMIN",
    )
}

/// Whether a program is on the path.
#[must_use]
pub fn found(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .any(|dir| dir.join(program).is_file())
}

/// Removes what labs that were killed have left: namespaces, programs in them, directories. Gives what it removed.
pub fn sweep() -> Vec<String> {
    let mut removed = Vec::new();
    let names = |dir: &Path| -> Vec<String> {
        std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
            .filter(|n| is_orphan(n))
            .collect()
    };
    for name in names(Path::new(NETNS)) {
        remove(&name);
        removed.push(format!("network namespace {name}"));
    }
    for name in names(&std::env::temp_dir()) {
        let dir = std::env::temp_dir().join(&name);
        if std::fs::remove_dir_all(&dir).is_ok() {
            removed.push(format!("directory {}", dir.display()));
        }
    }
    removed
}

/// Whether a name belongs to a lab whose process is gone.
fn is_orphan(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .and_then(|rest| rest.split('-').next()?.parse::<u32>().ok())
        .is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// Ends the programs in a namespace and removes it; what is not there is no error.
fn remove(netns: &str) {
    use nix::sys::signal::{Signal, kill};
    if !Path::new(NETNS).join(netns).exists() {
        return;
    }
    let pids = Command::new("ip").args(["netns", "pids", netns]).output();
    for pid in pids.iter().flat_map(|o| std::str::from_utf8(&o.stdout)).flat_map(str::split_whitespace) {
        if let Ok(pid) = pid.parse() {
            let _ = kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    let _ = ip(&["netns", "del", netns]);
}

/// Runs `ip` and waits for its end.
pub(super) fn ip(args: &[&str]) -> anyhow::Result<()> {
    output(Command::new("ip").args(args), &format!("ip {}", args.join(" "))).map(drop)
}

fn output(command: &mut Command, what: &str) -> anyhow::Result<String> {
    let out = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{what}: cannot be started; is the program installed?"))?;
    if !out.status.success() {
        bail!("{what}: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dead_labs_are_orphans() {
        let me = std::process::id();
        assert!(!is_orphan(&format!("nrw-{me}-abcd-cli")));
        // Above the largest pid Linux gives (2^22).
        assert!(is_orphan("nrw-4999999-abcd-cli"));
        for other in ["nrw-x-abcd", "docker0", "nrw-", ""] {
            assert!(!is_orphan(other), "{other}");
        }
    }

    #[test]
    fn a_bench_comes_and_goes() {
        if let Err(why) = available() {
            narrows_testing::skip("a_bench_comes_and_goes", format!("{why:#}"));
            return;
        }
        let bench = Bench::new(1500, Layer::Routed).unwrap();
        let (netns, dir) = (bench.netns(Room::Box), bench.dir().to_owned());
        assert!(Path::new(NETNS).join(&netns).exists() && dir.exists());
        let links = bench.run(Room::Box, "ip", &["-br", "link"]).unwrap();
        assert!(links.contains("lan0") && links.contains("wan0"), "{links}");
        // A user's address answers although no interface carries it alone.
        let ping = bench.run(Room::Box, "ping", &["-c", "1", "-W", "2", "10.77.3.9"]);
        if found("ping") {
            ping.unwrap();
        } else {
            narrows_testing::skip_part(
                "a_bench_comes_and_goes",
                "a user answers",
                "no ping; apt-get install iputils-ping",
            );
        }
        drop(bench);
        assert!(!Path::new(NETNS).join(&netns).exists() && !dir.exists());
    }
}
