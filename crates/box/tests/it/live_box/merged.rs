//! Packets that stand for several, on a bridge: veth pairs pass them on as their senders hand them over, up to 64 kB.

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use narrows_testing::skip;
use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};

use crate::live_box::disciplines::reordered;
use crate::live_box::process::BoxProcess;
use crate::live_box::traffic::at_rest;
use crate::live_box::world::{Kind, PATIENCE, World, can_keep, inside};

/// Most payload of a packet of TCP with timestamps, bytes.
const PAYLOAD: u64 = 1448;

/// A bridge whose packets pass no rules of a router: those have the kernel cut merged packets as it should.
fn world() -> Option<World> {
    let world = can_keep(Kind::Bridged, "nft").then(|| World::with(Kind::Bridged, "nft"))?;
    if std::path::Path::new("/proc/sys/net/bridge").exists() {
        world.exec(
            "b",
            "sysctl -qw net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0",
        );
    }
    Some(world)
}

/// Packets whose checksum TCP has found wrong: those that a box has made or changed are checked, a sender's own that
/// leave it to hardware are not.
fn wrong_checksums(world: &World) -> [String; 2] {
    ["c", "s"].map(|end| world.counted_of_tcp(end, 15))
}

/// Fetches a megabyte between ends that know each other; returns its rate in bytes per second, and packets that the box
/// sent for it.
fn fetch(world: &World, running: &BoxProcess, server: IpAddr) -> (f64, u64) {
    world.fetch(server, 1000).complete();
    let before = running.status().down.report.counters.sent;
    let begun = Instant::now();
    world.fetch(server, 1_000_000).complete();
    let rate = 1e6 / begun.elapsed().as_secs_f64();
    let after = running.wait_for("all that came has gone", at_rest).down.report.counters.sent;
    eprintln!("{server}: {:.0} kbit/s of payload, {} packets", rate * 8e-3, after - before);
    (rate, after - before)
}

#[test]
fn a_sender_of_merged_packets_has_the_links_rate() {
    let Some(world) = world() else { return };
    for discipline in ["taq", "fifo:100"] {
        let before = reordered(&world);
        let running = world.start(&format!("--down 2mbit --up 1mbit --discipline {discipline}"));
        for server in [world.server4(), world.server6()] {
            let (rate, packets) = fetch(&world, &running, server);
            // 250 000 bytes a second.
            assert!(rate >= 225_000., "{discipline}, {server}: {rate} bytes a second");
            assert!(packets >= 1_000_000 / PAYLOAD, "{discipline}, {server}: {packets}");
        }
        let s = running.status();
        assert_eq!((s.malformed, s.lost, s.gone), (0, 0, 0));
        assert!(s.down.offered >= s.down.report.counters.arrived, "{:?}", s.down);
        assert_eq!(s.down.report.counters.clamped > 0, discipline == "taq", "windows of ACKs are changed");
        // With TAQ a retransmission overtakes.
        assert!(discipline == "taq" || reordered(&world) == before, "what TCP took for reordering");
        assert_eq!(wrong_checksums(&world), ["0", "0"], "{discipline}");
        running.stop();
    }
}

/// A card merges what comes together, as a veth does with GRO on.
#[test]
fn what_a_port_has_merged_has_the_links_rate() {
    let Some(world) = world() else { return };
    world.exec("s", "ethtool -K e0 tso off gso off");
    world.exec("b", "ethtool -K wan gro on");
    let running = world.start("--down 2mbit --up 1mbit --discipline fifo:100");
    let (rate, packets) = fetch(&world, &running, world.server4());
    assert!(rate >= 225_000. && packets >= 1_000_000 / PAYLOAD, "{rate}, {packets}");
    assert_eq!(wrong_checksums(&world), ["0", "0"]);
    running.stop();
}

#[test]
fn merged_packets_of_a_vlan_keep_their_tag() {
    let Some(world) = world() else { return };
    for (end, host) in [("c", 2), ("s", 3)] {
        world.ip(end, "link add link e0 name v5 type vlan id 5");
        world.ip(end, &format!("addr add 10.85.0.{host}/24 dev v5"));
        world.ip(end, "link set v5 up");
    }
    let running = world.start("--down 2mbit --up 1mbit --discipline fifo:100");
    let (rate, packets) = fetch(&world, &running, "10.85.0.3".parse().unwrap());
    assert!(rate >= 225_000. && packets >= 1_000_000 / PAYLOAD, "{rate}, {packets}");
    assert_eq!(wrong_checksums(&world), ["0", "0"]);
    running.stop();
}

#[test]
fn pieces_that_wait_go_over_to_a_successor() {
    let Some(world) = world() else { return };
    let args = "--replace --down 2mbit --up 1mbit --discipline fifo:1000";
    let mut running = world.start(args);
    let download = world.fetch(world.server4(), 2_000_000);
    for _ in 0..3 {
        running.wait_for("pieces wait", |s| s.down.report.backlog.packets > 50);
        let next = world.start(args);
        running.ended();
        running = next;
    }
    let s = running.status();
    download.complete();
    assert_eq!(world.counted_of_tcp("s", 12), "0", "nothing was sent again");
    assert_eq!((s.gone, wrong_checksums(&world)), (0, ["0", "0"].map(str::to_owned)));
    running.stop();
}

#[test]
fn merged_packets_pass_a_box_that_has_gone_or_stands_still() {
    let Some(world) = world() else { return };
    // At 200 kbit/s it would take 160 seconds.
    let args = "--down 200kbit --up 200kbit --discipline fifo:100";
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let running = world.start(args);
        let download = world.fetch(world.server4(), 4_000_000);
        running.wait_for("pieces wait", |s| s.down.report.backlog.packets > 20);
        running.signal(signal);
        let begun = Instant::now();
        download.complete();
        assert!(begun.elapsed() < PATIENCE, "{signal}: {:?}", begun.elapsed());
        running.kill();
    }
    let running = world.start(args);
    world.fetch(world.server4(), 10_000).complete();
    running.signal(Signal::SIGSTOP);
    while world.is_queued() {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Another transfer: TCP sends nothing again that waits in a queue of its own machine.
    world.fetch(world.server4(), 4_000_000).complete();
    running.signal(Signal::SIGCONT);
    running.stop();
}

fn is_older_than(major: u32, minor: u32) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap_or(0)) < (major, minor)
}

/// Datagrams that a program hands over 20 at a time (UDP_SEGMENT), as servers of QUIC do.
#[test]
fn merged_datagrams_are_cut_as_their_sender_would() {
    let Some(world) = world() else { return };
    let running = world.start("--down 2mbit --up 1mbit --discipline fifo:1000");
    let hears = inside(&world.ns("c"), || UdpSocket::bind("10.77.0.2:7000").unwrap()).join().unwrap();
    hears.set_read_timeout(Some(PATIENCE)).unwrap();
    // All of them may come at once.
    setsockopt(&hears, sockopt::RcvBufForce, &(8 << 20)).unwrap();
    // Neighbours know each other.
    world.exec("s", "ping -c 1 -W 5 10.77.0.2");
    let before = running.status().down.report.counters.sent;
    let sends = inside(&world.ns("s"), || -> Result<(), Error> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        setsockopt(&socket, sockopt::UdpGsoSegment, &1000)?;
        for burst in 0..20u8 {
            let bytes: Vec<u8> = (0..20u8).flat_map(|n| [[burst, n]; 500]).flatten().collect();
            socket.send_to(&bytes, "10.77.0.2:7000")?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    });
    match sends.join().unwrap() {
        Err(e) if e.kind() == ErrorKind::InvalidInput => {
            return skip(&narrows_testing::running(), "needs UDP_SEGMENT of the kernel");
        }
        sent => sent.unwrap(),
    }
    let mut buffer = [0; 2000];
    for number in 0..400u16 {
        let n = hears.recv(&mut buffer).unwrap_or_else(|e| panic!("datagram {number} is missing: {e}"));
        assert_eq!(buffer[..n], [[(number / 20) as u8, (number % 20) as u8]; 500].concat());
    }
    let s = running.wait_for("all that came has gone", at_rest);
    let sent = s.down.report.counters.sent - before;
    // Older kernels do not tell how datagrams are to be cut. The first come before the box hears.
    assert!((381..=402).contains(&sent) || is_older_than(6, 2) && sent >= 20, "{sent}");
    running.stop();
}
