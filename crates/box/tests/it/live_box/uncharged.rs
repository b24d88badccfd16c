//! Frames that a queue cannot read take their time on the link all the same, and what passes unqueued is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use narrows_box::Status;
use narrows_netio::packet_socket;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socket};

use crate::live_box::process::BoxProcess;
use crate::live_box::world::{Kind, World, inside};

/// Long enough for a packet more or less to be less than half a percent of 512 kbit/s.
const SPAN: Duration = Duration::from_secs(6);
/// Some 10 Mbit/s of the largest frames, as one user with a raw socket sends.
const PAUSE: Duration = Duration::from_micros(1250);
/// Some 14 000 a second of the smallest.
const SMALL_PAUSE: Duration = Duration::from_micros(70);

fn mac(world: &World, end: &str, port: &str) -> [u8; 6] {
    let text = world.exec(end, &format!("cat /sys/class/net/{port}/address"));
    let bytes = text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap());
    bytes.collect::<Vec<_>>().try_into().unwrap()
}

/// Thread that sends the same frame over and over.
struct Frames {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Frames {
    fn start(world: &World, frame: Vec<u8>, pause: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = inside(&world.ns("c"), move || {
            let fd = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None).unwrap();
            packet_socket::bind(&fd, nix::net::if_::if_nametoindex("e0").unwrap(), 0).unwrap();
            let (begun, mut sent) = (Instant::now(), 0);
            while !stopped.load(Ordering::Relaxed) {
                let _ = send(std::os::fd::AsRawFd::as_raw_fd(&fd), &frame, MsgFlags::empty());
                sent += 1;
                std::thread::sleep((pause * sent).saturating_sub(begun.elapsed()));
            }
        });
        Self { stop, thread }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// Packets and bytes behind Ethernet's header that have come to the server.
fn came(world: &World) -> (u64, u64) {
    let read = |what: &str| -> u64 {
        world.exec("s", &format!("cat /sys/class/net/e0/statistics/{what}")).trim().parse().unwrap()
    };
    let packets = read("rx_packets");
    (packets, read("rx_bytes") - 14 * packets)
}

/// Bits a second that come to the server.
fn rate(world: &World) -> f64 {
    std::thread::sleep(Duration::from_secs(1));
    let (begun, before) = (Instant::now(), came(world).1);
    std::thread::sleep(SPAN);
    let after = came(world).1;
    (after - before) as f64 * 8.0 / begun.elapsed().as_secs_f64()
}

/// Waits until some more have left the queue and come to the server: what waits is not lost.
fn goes_on(world: &World, running: &BoxProcess) {
    let (came_before, before) = (came(world).0, running.status().up);
    assert!(before.report.backlog.packets > 0, "{before:?}");
    running.wait_for("what waits goes on", |s| {
        s.up.report.counters.sent > before.report.counters.sent + 5 && came(world).0 > came_before + 5
    });
}

/// Tells whether all packets that came were queued, passed or were lost.
fn adds_up(status: &Status) -> bool {
    [&status.down, &status.up].iter().all(|d| d.offered == d.report.counters.arrived + d.unqueued + d.lost)
}

/// IPv6 from the client to the server whose destination options claim 2048 bytes, and have 1400 in all.
fn malformed(world: &World) -> Vec<u8> {
    let mut frame = [mac(world, "b", "lan"), mac(world, "c", "e0")].concat();
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend(1360u16.to_be_bytes());
    frame.extend([60, 64]);
    for last in ["fd77::2", "fd78::2"] {
        frame.extend(last.parse::<std::net::Ipv6Addr>().unwrap().octets());
    }
    frame.extend([59, 255]);
    frame.resize(14 + 1400, 0);
    frame
}

#[test]
fn malformed_packets_take_their_time_on_the_link() {
    for world in World::each_filter(Kind::Routed) {
        let running = world.start("--up 512kbit --discipline taq");
        world.fetch(world.server6(), 10_000).complete();
        let frames = Frames::start(&world, malformed(&world), PAUSE);
        let rate = rate(&world);
        eprintln!("{}: {:.0} bit/s", world.filter, rate);
        assert!(rate < 512e3 * 1.01, "{}: {rate} bit/s", world.filter);
        goes_on(&world, &running);
        frames.stop();
        let status = running.wait_for("all that came is told of", adds_up);
        assert!(status.malformed > 1000 && status.up.unqueued == 0, "{status:?}");
        running.stop();
    }
}

/// Bytes behind a packet, and protocols of nobody, take their time on the link as well.
#[test]
fn what_is_no_ip_and_what_follows_a_packet_take_their_time_on_the_link() {
    let Some(world) = World::try_new(Kind::Apart) else { return };
    let running = world.start("--up 512kbit --discipline taq --backend packet");
    world.fetch(world.server4(), 10_000).complete();
    let head = [mac(&world, "s", "e0"), mac(&world, "c", "e0")].concat();
    let mut trailing = head.clone();
    // 28 bytes of IPv4 and UDP, without a checksum of UDP's.
    trailing.extend([8, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 77, 0, 2, 10, 77, 0, 3]);
    let sum = narrows_wire::checksum(&trailing[14..34], 0);
    trailing[24..26].copy_from_slice(&sum.to_be_bytes());
    trailing.extend([19, 136, 19, 137, 0, 8, 0, 0]);
    let odd = [&head[..], &[0x88, 0xb5]].concat();
    for (what, mut frame) in [("behind a packet", trailing), ("an EtherType of nobody", odd)] {
        frame.resize(1514, b'x');
        let frames = Frames::start(&world, frame, PAUSE);
        let rate = rate(&world);
        eprintln!("{what}: {rate:.0} bit/s");
        assert!(rate < 512e3 * 1.01, "{what}: {rate} bit/s");
        goes_on(&world, &running);
        frames.stop();
        running.wait_for("all that came is told of", adds_up);
    }
    running.stop();
}

/// A full queue of the kernel lets packets pass without a number.
#[test]
fn what_finds_the_kernels_queue_full_is_counted() {
    let Some(mut world) = World::try_new(Kind::Routed) else { return };
    world.filter = "nft";
    // A queue of 20 and what comes in a second at 64 kbit/s: 532 packets.
    let running = world.start("--up 64kbit --discipline fifo:20");
    world.fetch(world.server4(), 10_000).complete();
    running.wait_for("all that came is told of", adds_up);
    let mut frame = [mac(&world, "b", "lan"), mac(&world, "c", "e0")].concat();
    frame.extend([8, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 77, 0, 2, 10, 78, 0, 2]);
    let sum = narrows_wire::checksum(&frame[14..34], 0);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend([19, 136, 19, 137, 0, 8, 0, 0]);
    let (before, status) = (came(&world).0, running.status());
    let frames = Frames::start(&world, frame, SMALL_PAUSE);
    std::thread::sleep(Duration::from_millis(300));
    // Nobody reads meanwhile, and for less than a watchdog waits.
    running.signal(nix::sys::signal::Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(500));
    running.signal(nix::sys::signal::Signal::SIGCONT);
    std::thread::sleep(Duration::from_millis(300));
    frames.stop();
    let after = running.wait_for("those that passed are counted", |s| {
        let gone = |s: &Status| s.up.unqueued + s.up.report.counters.sent;
        adds_up(s)
            && s.up.report.backlog.packets == 0
            && came(&world).0 - before <= gone(s) - gone(&status) + 20
    });
    assert!(after.up.unqueued > 500 && after.unseen == after.up.unqueued, "{}", after.up.unqueued);
    running.wait_for("it is told", |_| running.log().contains("passed unqueued"));
    assert_eq!(after.bypassed, 0);
    running.stop();
}

/// A loop looks for orders between batches, and what comes while it empties a socket keeps it nowhere.
#[test]
fn a_stop_outlasts_a_flood() {
    for (kind, backend) in [(Kind::Routed, "nfqueue"), (Kind::Apart, "packet")] {
        let Some(world) = World::try_new(kind) else { return };
        let running = world.start(&format!("--up 512kbit --discipline taq --backend {backend}"));
        world.fetch(world.server4(), 10_000).complete();
        let head = match kind {
            Kind::Apart => [mac(&world, "s", "e0"), mac(&world, "c", "e0")].concat(),
            _ => [mac(&world, "b", "lan"), mac(&world, "c", "e0")].concat(),
        };
        let frame = [&head[..], &malformed(&world)[12..]].concat();
        // As fast as a thread can send them.
        let frames = Frames::start(&world, frame, Duration::ZERO);
        running.wait_for("the flood is under way", |s| s.up.offered > 20_000);
        running.stop();
        frames.stop();
    }
}
