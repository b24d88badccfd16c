//! Our disciplines against the kernel's own on the same arrivals: UDP through a real queue of the running kernel, where
//! it has the discipline, and afterwards, at the instants at which the packets were really sent,
//! through ours in virtual time. What is lost and who is served when has to agree; when a machine too busy to keep the
//! rate spoils a run, that is said and nothing is judged.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use narrows_lab::peers::{Peer, kernel_discipline};
use narrows_testing::{running, skip};

mod arrivals;
use crate::row::{Row, within};
use arrivals::{
    FLOWS, RATE, Sent, USERS, agreement, bursts, by_flow, like, ours, plan, scattered, trickles, waves,
};

/// IP and UDP headers.
const HEADERS: usize = 28;

/// Sends by plan from the servers' side; returns what was sent when, by the sender's clock.
fn send(name: &str, plan: Vec<(Duration, usize)>) -> std::thread::JoinHandle<Vec<Sent>> {
    within(name, move || {
        let flows = plan.iter().map(|(_, flow)| flow + 1).max().unwrap();
        let sockets: Vec<_> = (0..flows)
            .map(|flow| {
                let socket = UdpSocket::bind("10.78.0.2:0").unwrap();
                socket.connect(format!("10.78.0.{}:9000", USERS[like(flow)])).unwrap();
                socket
            })
            .collect();
        // Neighbours are found before anything counts: otherwise the first packets come late and together.
        for user in USERS {
            UdpSocket::bind("10.78.0.2:0").unwrap().send_to(&[0], format!("10.78.0.{user}:9000")).unwrap();
        }
        std::thread::sleep(Duration::from_millis(500));
        let start = std::time::Instant::now();
        let mut numbers = vec![0; flows];
        plan.into_iter()
            .map(|(due, flow)| {
                std::thread::sleep(due.saturating_sub(start.elapsed()));
                let mut data = vec![0; FLOWS[like(flow)].0 - HEADERS];
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

/// Receives on the users' side: flow and number in order, and the time from the first to the last packet.
fn receive(name: &str, done: Arc<AtomicBool>) -> std::thread::JoinHandle<(Vec<(usize, u32)>, Duration)> {
    let (ready, listening) = mpsc::channel();
    let receiver = within(name, move || {
        let socket = UdpSocket::bind("0.0.0.0:9000").unwrap();
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

/// Tolerances between two runs.
struct Bounds {
    /// Drops, as a part of the arrivals: in all, and of each flow.
    drops: f64,
    /// How much of the order of flows agrees, from 0, what chance alone gives, to 1. A sender's instants are not quite
    /// those at which its packets reach the peer, and one packet served before another moves all that follow: half is
    /// much.
    order: f64,
    /// The least part of the rate that the peer kept, for the run to be judged.
    kept: f64,
}

/// Attempts: an instant the sender could not see decides now and then, a discipline that is another fails each time.
const ATTEMPTS: u32 = 3;

/// Runs `kernel` and `spec` on the same arrivals, until they agree.
fn compare(kernel: &str, spec: &str, bounds: &Bounds) {
    compare_on(plan, kernel, spec, bounds);
}

/// Runs `kernel` and `spec` on arrivals of `plan`, until they agree.
fn compare_on(plan: fn() -> Vec<(Duration, usize)>, kernel: &str, spec: &str, bounds: &Bounds) {
    let kind = kernel.split(' ').next().unwrap();
    if let Err(why) = Peer::available(kind) {
        return skip(&running(), why);
    }
    let differ: Vec<String> =
        (0..ATTEMPTS).map_while(|_| attempt(plan(), kernel, spec, bounds).err()).collect();
    assert!(differ.len() < ATTEMPTS as usize, "{kernel} and {spec} differ each time: {}", differ.join("; "));
}

/// Packets that left a peer.
struct Served {
    /// Flow and number, in order.
    order: Vec<(usize, u32)>,
    /// Time from the first packet to the last.
    span: Duration,
    dropped: u64,
}

/// The arrivals that `kernel` really saw, and what it did with them.
fn through_kernel(plan: Vec<(Duration, usize)>, kernel: &str) -> (Vec<Sent>, Served) {
    let row = Row::make("nq", "10.78.0");
    let [users, _, servers] = row.names();
    let peer = Peer::start(row.spec(kernel_discipline(kernel, RATE, 14).unwrap())).unwrap();
    let before = peer.counters().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let receiver = receive(&users, done.clone());
    let sent = send(&servers, plan).join().unwrap();
    // What waits at the end drains: at most a thousand packets would be 8 s, the disciplines keep a second at worst.
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(100));
        if peer.counters().unwrap().backlog_packets == 0 {
            break;
        }
    }
    std::thread::sleep(Duration::from_millis(200));
    done.store(true, Ordering::Relaxed);
    let (order, span) = receiver.join().unwrap();
    let dropped = peer.counters().unwrap().dropped - before.dropped;
    (sent, Served { order, span, dropped })
}

/// One run of both; what differs, if anything does.
fn attempt(plan: Vec<(Duration, usize)>, kernel: &str, spec: &str, bounds: &Bounds) -> Result<(), String> {
    let (sent, theirs) = through_kernel(plan, kernel);
    let ours = ours(spec, 14, 1, &sent);
    let bytes: usize = theirs.order.iter().map(|(flow, _)| FLOWS[like(*flow)].0 + 14).sum();
    let rate = bytes as f64 * 8.0 / theirs.span.as_secs_f64() / RATE.as_bps() as f64;
    let lost = |served: &[(usize, u32)]| sent.len() - served.len();
    let chance = agreement(&theirs.order, &shuffled(&ours));
    let alike = (agreement(&theirs.order, &ours) - chance) / (1.0 - chance);
    println!(
        "{kernel} against {spec}: {} arrivals, dropped {} and {}, served by flow {:?} and {:?}, {:.2} of the \
         order agrees beyond chance, the peer kept {:.1} % of its rate over {:.2} s of arrivals over {:.2} s",
        sent.len(),
        lost(&theirs.order),
        lost(&ours),
        by_flow(&theirs.order),
        by_flow(&ours),
        alike,
        100.0 * rate,
        theirs.span.as_secs_f64(),
        (sent.last().unwrap().at - sent[0].at).as_secs_f64(),
    );
    // The counters are the kernel's word for what the receiver saw; neighbour discovery also passes the queue, and may
    // be dropped.
    let chatter = theirs.dropped.checked_sub(lost(&theirs.order) as u64);
    assert!(chatter.is_some_and(|n| n <= 8), "{} dropped, {} missing", theirs.dropped, lost(&theirs.order));
    if rate < bounds.kept {
        let kept = 100.0 * rate;
        skip(&running(), format!("the machine was too busy: the peer kept {kept:.1} % of its rate"));
        return Ok(());
    }
    let part = |a: usize, b: usize| a.abs_diff(b) as f64 / sent.len() as f64;
    let flows = by_flow(&theirs.order).into_iter().zip(by_flow(&ours)).map(|(a, b)| part(a, b));
    let differ = flows.fold(part(lost(&theirs.order), lost(&ours)), f64::max);
    if differ > bounds.drops {
        return Err(format!("drops differ by {differ:.3} of the arrivals"));
    }
    if alike < bounds.order {
        return Err(format!("{alike:.3} of the order of flows agrees beyond chance"));
    }
    Ok(())
}

/// Major and minor version of the running kernel.
fn kernel() -> [u32; 2] {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = text.split('.').map_while(|part| part.parse().ok());
    [numbers.next().unwrap(), numbers.next().unwrap()]
}

/// Returns the same packets in an order without meaning, the same each time: by the middle digits of n times the golden
/// ratio's part.
fn shuffled(served: &[(usize, u32)]) -> Vec<(usize, u32)> {
    let mut mixed: Vec<_> =
        (0..served.len() as u32).map(|n| (n.wrapping_mul(0x9E37_79B1).swap_bytes(), n)).collect();
    mixed.sort_unstable();
    mixed.into_iter().map(|(_, n)| served[n as usize]).collect()
}

#[test]
fn codel_drops_as_linux_does() {
    compare("codel", "codel", &Bounds { drops: 0.03, order: 0.25, kept: 0.99 });
}

#[test]
fn fq_codel_drops_and_serves_as_linux_does() {
    compare("fq_codel", "fq_codel", &Bounds { drops: 0.03, order: 0.15, kept: 0.99 });
}

/// One tin. Triple isolation: all four flows come from one source, so each has a turn of a quarter.
#[test]
fn cake_drops_and_serves_as_linux_does() {
    compare("cake besteffort", "cake", &Bounds { drops: 0.005, order: 0.35, kept: 0.99 });
}

/// The first flow goes to a user of its own and may have half the link, the others share the other half.
#[test]
fn cake_is_fair_to_users_as_linux_is() {
    compare(
        "cake besteffort dual-dsthost",
        "cake:isolate=dual_dst",
        &Bounds { drops: 0.005, order: 0.35, kept: 0.99 },
    );
}

/// Queues that run empty and come back: what is remembered of them decides who is dropped. Remembering how long a queue
/// was late before it ran empty is 8 % of the arrivals off.
#[test]
fn fq_codel_forgets_of_an_empty_queue_what_linux_does() {
    // Linux 7.0 and its stable branches of the time reset `first_above_time` where a queue is found empty
    // (net/codel_impl.h).
    if kernel() < [6, 12] {
        return skip(&running(), "this kernel remembers how long an empty queue was late");
    }
    compare_on(bursts, "fq_codel", "fq_codel", &Bounds { drops: 0.03, order: 0.5, kept: 0.99 });
}

/// A packet alone in its queue that waits for the one being sent is dropped if the flow's last one waited as well.
#[test]
fn fq_codel_loses_of_sparse_flows_what_linux_does() {
    compare_on(trickles, "fq_codel", "fq_codel", &Bounds { drops: 0.03, order: 0.3, kept: 0.99 });
}

/// With an interval of grace for queues that were not served for one, 1 % of the arrivals more are dropped.
#[test]
fn cake_drops_as_linux_does_where_queues_run_empty() {
    compare_on(bursts, "cake besteffort", "cake", &Bounds { drops: 0.01, order: 0.1, kept: 0.99 });
}

/// An empty queue is forgotten while others are served. Without that the arrivals are 2 % off, and with an interval of
/// grace 6 %. Drops leave the link idle for half the time.
#[test]
fn cake_forgets_as_linux_does() {
    compare_on(waves, "cake besteffort", "cake", &Bounds { drops: 0.015, order: 0.5, kept: 0.4 });
}

/// Chance decides in both, and now and then both empty the queue and leave the link idle: a peer that is late cannot be
/// told from one that drops too much as surely as above.
#[test]
fn pie_drops_about_as_many_as_linux() {
    compare_on(scattered, "pie", "pie:steep=on", &Bounds { drops: 0.08, order: 0.0, kept: 0.85 });
}

/// Each in a bucket of its own, but for one run in 170: the kernel's hash has a seed of its own.
#[test]
fn sfq_drops_and_serves_as_linux_does() {
    compare(
        "sfq limit 30 quantum 1514",
        "sfq:30,quantum=1514",
        &Bounds { drops: 0.03, order: 0.25, kept: 0.99 },
    );
}

/// Thresholds at 10 and 30 packets of 714 bytes. A burst of 17 packets makes the kernel's weight 1/16 (tc-red(8): the
/// largest 2^-n with (1 - (1 - W)^17) / W >= 17 + 1 - min / avpkt).
#[test]
fn red_drops_as_many_as_linux() {
    compare(
        "red limit 71400 min 7140 max 21420 avpkt 714 burst 17 probability 0.1 bandwidth 1014kbit",
        "red:100,bytes=on,packet=700,min=10,max=30,w_q=0.0625,max_p=0.1,gentle=off",
        &Bounds { drops: 0.03, order: 0.0, kept: 0.99 },
    );
}
