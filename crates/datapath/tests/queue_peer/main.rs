//! Our disciplines against the kernel's own on the same arrivals: UDP through a real queue in User-mode Linux (or in this
//! kernel, where it has the discipline), and afterwards, at the instants at which the packets were really sent, through ours in
//! virtual time. What is lost and who is served when has to agree; when a machine too busy to keep the rate spoils a run, that
//! is said and nothing is judged.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::fs::File;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use narrows_datapath::lab::peers::{Peer, UmlSpec, kernel_discipline};

mod arrivals;

use arrivals::{FLOWS, RATE, Sent, agreement, by_flow, ours, plan};

/// IP and UDP headers.
const HEADERS: usize = 28;

static ROWS: AtomicU32 = AtomicU32::new(0);

/// Servers - between - users, gone when dropped.
struct Row(String);

impl Row {
    fn make() -> Self {
        let row = Self(format!("nq{}x{}", std::process::id(), ROWS.fetch_add(1, Ordering::Relaxed)));
        let [users, between, servers] = row.names();
        for name in [&users, &between, &servers] {
            ip(&format!("netns add {name}"));
        }
        for (end, device, address) in [(&users, "lan", "10.78.0.1/24"), (&servers, "wan", "10.78.0.2/24")] {
            ip(&format!("link add {device} netns {between} type veth peer name eth0 netns {end}"));
            ip(&format!("-n {end} addr add {address} dev eth0"));
            ip(&format!("-n {end} link set eth0 up"));
        }
        row
    }

    fn names(&self) -> [String; 3] {
        ["u", "b", "s"].map(|part| format!("{}{part}", self.0))
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        for name in self.names() {
            let _ = Command::new("ip").args(["netns", "del", &name]).status();
        }
        let _ = std::fs::remove_dir_all(std::env::temp_dir().join(&self.0));
    }
}

fn ip(line: &str) {
    let done = Command::new("ip").args(line.split_whitespace()).output().unwrap();
    assert!(done.status.success(), "ip {line}: {}", String::from_utf8_lossy(&done.stderr));
}

fn within<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    let file = File::open(format!("/run/netns/{name}")).unwrap();
    std::thread::spawn(move || {
        nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        work()
    })
}

/// Sends by plan from the servers' side; returns what was sent when, by the sender's clock.
fn send(name: &str) -> std::thread::JoinHandle<Vec<Sent>> {
    within(name, || {
        let sockets = FLOWS.map(|_| {
            let socket = UdpSocket::bind("10.78.0.2:0").unwrap();
            socket.connect("10.78.0.1:9000").unwrap();
            socket
        });
        let start = std::time::Instant::now();
        let mut numbers = [0; FLOWS.len()];
        plan()
            .into_iter()
            .map(|(due, flow)| {
                std::thread::sleep(due.saturating_sub(start.elapsed()));
                let mut data = vec![0; FLOWS[flow].0 - HEADERS];
                data[0] = flow as u8;
                data[1..5].copy_from_slice(&u32::to_le_bytes(numbers[flow]));
                numbers[flow] += 1;
                let at = start.elapsed();
                sockets[flow].send(&data).unwrap();
                Sent { flow, number: numbers[flow] - 1, at }
            })
            .collect()
    })
}

/// What reaches the users: flow and number in order, and how long it took from the first to the last.
fn receive(name: &str, done: Arc<AtomicBool>) -> std::thread::JoinHandle<(Vec<(usize, u32)>, Duration)> {
    let (ready, listening) = mpsc::channel();
    let receiver = within(name, move || {
        let socket = UdpSocket::bind("10.78.0.1:9000").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        ready.send(()).unwrap();
        let (mut got, mut first, mut last) = (Vec::new(), None, None);
        let mut data = [0; 2048];
        loop {
            match socket.recv(&mut data) {
                Ok(n) if n > 5 => {
                    let number = u32::from_le_bytes([data[1], data[2], data[3], data[4]]);
                    got.push((usize::from(data[0]), number));
                    last = Some(std::time::Instant::now());
                    first = first.or(last);
                }
                Ok(_) => {}
                Err(_) if done.load(Ordering::Relaxed) => break,
                Err(_) => {}
            }
        }
        let span = first.zip(last).map_or(Duration::ZERO, |(a, b)| b - a);
        (got, span)
    });
    listening.recv_timeout(Duration::from_secs(20)).unwrap();
    receiver
}

/// By how much two runs may differ.
struct Bounds {
    /// Drops, as a part of the arrivals: in all, and of each flow.
    drops: f64,
    /// The least part of the order of flows that agrees; two random orders of these flows agree in about 0.65.
    order: f64,
    /// The least part of the rate that the peer kept, for the run to be judged.
    kept: f64,
}

/// Runs `kernel` and `spec` on the same arrivals.
fn compare(kernel: &str, spec: &str, bounds: &Bounds) {
    let kind = kernel.split(' ').next().unwrap();
    if let Err(why) = Peer::available(kind) {
        eprintln!("skipped: {kernel}: {why}");
        return;
    }
    let row = Row::make();
    let [users, netns, servers] = row.names();
    let workdir = std::env::temp_dir().join(&row.0);
    let tc = kernel_discipline(kernel, RATE, 14).unwrap();
    let mut peer =
        Peer::start(kind, UmlSpec { netns, lan: "lan".into(), wan: "wan".into(), tc, workdir }).unwrap();
    let before = peer.counters().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let receiver = receive(&users, done.clone());
    let sent = send(&servers).join().unwrap();
    // What waits at the end drains: at most a thousand packets would be 8 s, the disciplines keep a second at worst.
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(100));
        if peer.counters().unwrap().backlog_packets == 0 {
            break;
        }
    }
    std::thread::sleep(Duration::from_millis(200));
    done.store(true, Ordering::Relaxed);
    let (theirs, span) = receiver.join().unwrap();
    let after = peer.counters().unwrap();
    let version = peer.kernel();
    peer.stop();

    let ours = ours(spec, 14, 1, &sent);
    let bytes: usize = theirs.iter().map(|(flow, _)| FLOWS[*flow].0 + 14).sum();
    let rate = bytes as f64 * 8.0 / span.as_secs_f64() / RATE.as_bps() as f64;
    let lost = |served: &[(usize, u32)]| sent.len() - served.len();
    let alike = agreement(&theirs, &ours);
    println!(
        "{kernel} ({version}) against {spec}: {} arrivals, dropped {} and {}, served by flow {:?} and {:?}, order agrees in {:.1} %, the \
         peer kept {:.1} % of its rate",
        sent.len(),
        lost(&theirs),
        lost(&ours),
        by_flow(&theirs),
        by_flow(&ours),
        100.0 * alike,
        100.0 * rate,
    );
    // The counters are the kernel's word for what the receiver saw; neighbour discovery also passes the queue, and may be dropped.
    let chatter = (after.dropped - before.dropped).checked_sub(lost(&theirs) as u64);
    assert!(chatter.is_some_and(|n| n <= 8), "{before:?} {after:?}");
    if rate < bounds.kept {
        eprintln!("spoiled: the machine was too busy for the peer to keep its rate; nothing is judged");
        return;
    }
    let part = |a: usize, b: usize| a.abs_diff(b) as f64 / sent.len() as f64;
    let flows = by_flow(&theirs).into_iter().zip(by_flow(&ours)).map(|(a, b)| part(a, b));
    let differ = flows.fold(part(lost(&theirs), lost(&ours)), f64::max);
    assert!(differ <= bounds.drops, "drops differ by {differ:.3} of the arrivals");
    assert!(alike >= bounds.order, "{alike:.3} of the order of flows");
}

#[test]
fn codel_drops_as_linux_does() {
    compare("codel", "codel", &Bounds { drops: 0.03, order: 0.75, kept: 0.99 });
}

#[test]
fn fq_codel_drops_and_serves_as_linux_does() {
    compare("fq_codel", "fq_codel:spare=link", &Bounds { drops: 0.03, order: 0.72, kept: 0.99 });
}

/// Chance decides in both, and now and then both empty the queue and leave the link idle: a peer that is late cannot be told from
/// one that drops too much as surely as above.
#[test]
fn pie_drops_about_as_many_as_linux() {
    compare("pie", "pie:steep=on", &Bounds { drops: 0.08, order: 0.65, kept: 0.85 });
}

/// Each in a bucket of its own, but for one run in 170: the kernel's hash has a seed of its own.
#[test]
fn sfq_drops_and_serves_as_linux_does() {
    compare(
        "sfq limit 30 quantum 1514",
        "sfq:30,quantum=1514",
        &Bounds { drops: 0.03, order: 0.8, kept: 0.99 },
    );
}

/// Thresholds at 10 and 30 packets of 714 bytes. A burst of 17 packets makes the kernel's weight 1/16 (tc-red(8): the largest
/// 2^-n with (1 - (1 - W)^17) / W >= 17 + 1 - min / avpkt).
#[test]
fn red_drops_as_many_as_linux() {
    compare(
        "red limit 71400 min 7140 max 21420 avpkt 714 burst 17 probability 0.1 bandwidth 1014kbit",
        "red:100,bytes=on,packet=700,min=10,max=30,w_q=0.0625,max_p=0.1,gentle=off",
        &Bounds { drops: 0.03, order: 0.65, kept: 0.99 },
    );
}
