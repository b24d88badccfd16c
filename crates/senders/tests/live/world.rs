//! Two hosts in network namespaces, with a delay between them if asked, and a BPF file system of one's own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use narrows_senders::{self as senders, Sender};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};

/// Nothing here takes longer unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Whether live tests can run; says why if not. A program that clang did not take is no reason but a failure.
pub fn can_run(test: &str) -> bool {
    let why = match senders::possible() {
        Err(e) => e.to_string(),
        Ok(_) => match Command::new("ip").args(["netns", "list"]).stdout(Stdio::null()).status() {
            Ok(status) if status.success() => return true,
            _ => "needs the program ip (iproute2) and network namespaces".to_owned(),
        },
    };
    assert!(!why.contains("could not compile"), "{why}");
    eprintln!("skipped: {test}: {why}");
    false
}

/// Runs a program and expects it to succeed.
pub fn sure(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// `s`ender and `r`eceiver, each a namespace; 10.79.0.1 and 10.79.0.2.
pub struct World {
    tag: String,
    pub bpffs: PathBuf,
    loaded: Vec<String>,
}

impl World {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tag = format!("ns{:x}{:x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let bpffs = std::env::temp_dir().join(format!("narrows-{tag}"));
        std::fs::create_dir_all(&bpffs).unwrap();
        let world = Self { tag, bpffs, loaded: Vec::new() };
        sure("mount", &["-t", "bpf", "bpf", &world.bpffs.display().to_string()]);
        for end in ["s", "r"] {
            sure("ip", &["netns", "add", &world.ns(end)]);
        }
        sure(
            "ip",
            &[
                "link",
                "add",
                "eth",
                "netns",
                &world.ns("s"),
                "type",
                "veth",
                "peer",
                "name",
                "eth",
                "netns",
                &world.ns("r"),
            ],
        );
        for (end, address) in [("s", "10.79.0.1/24"), ("r", "10.79.0.2/24")] {
            sure("ip", &["-n", &world.ns(end), "address", "add", address, "dev", "eth"]);
            sure("ip", &["-n", &world.ns(end), "link", "set", "eth", "up"]);
        }
        world
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
        name
    }

    pub fn unload(&mut self, name: &str) {
        senders::unload(&self.bpffs, name).unwrap();
        self.loaded.retain(|n| n != name);
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
        for end in ["s", "r"] {
            let _ = Command::new("ip").args(["netns", "del", &self.ns(end)]).status();
        }
        let _ = nix::mount::umount(&self.bpffs);
        let _ = std::fs::remove_dir(&self.bpffs);
    }
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

/// Writes so many bytes.
pub fn push(stream: &mut TcpStream, bytes: usize) {
    stream.write_all(&vec![b'x'; bytes]).unwrap();
}
