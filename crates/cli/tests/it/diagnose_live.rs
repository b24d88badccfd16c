//! `narrows diagnose --live` with the kernel's own TCP between two network namespaces.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};

fn ip(args: &str) -> bool {
    Command::new("ip").args(args.split_whitespace()).output().is_ok_and(|out| out.status.success())
}

/// Two hosts and a cable: `c`, 10.9.0.1, and `s`, 10.9.0.2.
struct World(String);

impl World {
    fn new(test: &str) -> Option<Self> {
        let world = Self(format!("nrd{}{test}", std::process::id()));
        let (c, s) = (world.ns("c"), world.ns("s"));
        if !nix::unistd::Uid::effective().is_root() || !ip(&format!("netns add {c}")) {
            narrows_testing::skip(
                &narrows_testing::running(),
                "needs root, network namespaces and the program ip",
            );
            return None;
        }
        assert!(ip(&format!("netns add {s}")));
        assert!(ip(&format!("-n {c} link add e0 type veth peer name e0 netns {s}")));
        for (ns, address) in [(&c, "10.9.0.1/24"), (&s, "10.9.0.2/24")] {
            assert!(
                ip(&format!("-n {ns} addr add {address} dev e0")) && ip(&format!("-n {ns} link set e0 up"))
            );
        }
        Some(world)
    }

    fn ns(&self, end: &str) -> String {
        format!("{}{end}", self.0)
    }

    fn inside<T: Send + 'static>(&self, end: &str, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let file = std::fs::File::open(format!("/run/netns/{}", self.ns(end))).unwrap();
        std::thread::spawn(move || {
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            f()
        })
    }

    fn tc(&self, end: &str, args: &str) -> bool {
        let tc = ["netns", "exec", &self.ns(end), "tc"];
        Command::new("ip").args(tc).args(args.split_whitespace()).output().is_ok_and(|o| o.status.success())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for end in ["c", "s"] {
            ip(&format!("netns del {}", self.ns(end)));
        }
    }
}

/// The client sends for `sends`; the server reads, but not between the two times.
fn transfer(world: &World, port: u16, sends: Duration, rests: (Duration, Duration)) -> [JoinHandle<()>; 2] {
    let (ready, is_ready) = std::sync::mpsc::channel();
    let server = world.inside("s", move || {
        let listener = TcpListener::bind(("10.9.0.2", port)).unwrap();
        ready.send(()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let (begun, mut buffer) = (Instant::now(), vec![0; 1 << 16]);
        loop {
            let now = begun.elapsed();
            if rests.0 <= now && now < rests.1 {
                sleep(rests.1 - now);
            }
            if stream.read(&mut buffer).unwrap_or(0) == 0 {
                return;
            }
        }
    });
    is_ready.recv().unwrap();
    let client = world.inside("c", move || {
        let mut stream = TcpStream::connect(("10.9.0.2", port)).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < sends {
            stream.write_all(&[7; 8192]).unwrap();
            sleep(Duration::from_millis(10));
        }
    });
    [server, client]
}

#[test]
fn stalls_of_the_kernels_tcp_are_named_as_they_happen() {
    let Some(world) = World::new("a") else { return };
    if !world.tc("c", "qdisc add dev e0 root tbf rate 4mbit burst 4000 limit 12000") {
        narrows_testing::skip_part(&narrows_testing::running(), "a thin link", "the kernel has no tbf");
    }
    let ns = world.ns("c");
    let listening = Command::new("ip")
        .args([
            "netns",
            "exec",
            &ns,
            env!("CARGO_BIN_EXE_narrows"),
            "diagnose",
            "--live",
            "e0",
            "--for",
            "60s",
        ])
        .args(["--every", "1s", "--json", "--over", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    sleep(Duration::from_millis(700));
    let none = (Duration::ZERO, Duration::ZERO);
    let cut = transfer(&world, 1001, Duration::from_secs(7), none);
    sleep(Duration::from_millis(1500));
    // The server's packets are lost for a while, in both directions.
    assert!(ip(&format!("-n {} route add blackhole 10.9.0.1/32", world.ns("s"))));
    sleep(Duration::from_millis(2500));
    assert!(ip(&format!("-n {} route del blackhole 10.9.0.1/32", world.ns("s"))));
    cut.into_iter().for_each(|thread| thread.join().unwrap());
    let rests = (Duration::from_secs(1), Duration::from_secs(6));
    transfer(&world, 1002, Duration::from_secs(5), rests)
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(listening.id().cast_signed()),
        nix::sys::signal::Signal::SIGINT,
    )
    .unwrap();
    let out = listening.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("listening on e0") && said.contains("connections open"), "{said}");
    let all: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let flow = |port: u64| {
        let of = |f: &&serde_json::Value| f["other"]["port"] == port;
        all["flows"].as_array().unwrap().iter().find(of).unwrap_or_else(|| panic!("{port}: {all:#}"))
    };
    let longest = |flow: &serde_json::Value, cause: &dyn Fn(&str) -> bool| {
        let of = |s: &&serde_json::Value| cause(s["cause"].as_str().unwrap());
        let length = |s: &serde_json::Value| s["to_s"].as_f64().unwrap() - s["from_s"].as_f64().unwrap();
        flow["stalls"].as_array().unwrap().iter().filter(of).map(length).fold(0.0, f64::max)
    };
    let (cut, shut) = (flow(1001), flow(1002));
    let timeouts = |flow: &serde_json::Value| flow["directions"][0]["timeouts"].as_u64().unwrap();
    // Within 2.5 s of silence the timer of 200 ms doubles to 3 s at most; otherwise duplicate ACKs tell of all losses.
    assert!((2..=8).contains(&timeouts(cut)) && timeouts(shut) <= 4, "{cut:#} {shut:#}");
    assert!(longest(cut, &|c| c != "zero_window") > 2.0, "{cut:#}");
    assert!(longest(shut, &|c| c == "zero_window") > 1.0, "{shut:#}");
}
