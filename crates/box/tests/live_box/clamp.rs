//! How much waits for flows under TAQ's window clamp, by the window scale that their receivers announce, and which
//! windows their senders are told.

use std::time::Duration;

use narrows_box::Status;
use narrows_netio::packet_socket::{FrameDirection, PacketSocket};
use narrows_testing::{running, skip_part};
use narrows_wire::Flags;
use nix::sys::signal::Signal;

use crate::world::{Fetch, Kind, World, inside, sure};

const FLOWS: u32 = 8;
/// What each of them transfers.
const LENGTH: u32 = 60_000;
/// The longest headers of these flows' data packets: IPv4, TCP with timestamps and alignment.
const HEADERS: u32 = 52;
/// Bytes of a frame before its packet.
const ETHERNET: usize = 14;

/// Lets the client announce `scale`, and the server send packets of up to `mtu` bytes. Linux takes the scale with which
/// the largest window it may ever offer fits into 16 bits.
fn prepare(world: &World, scale: u32, mtu: u32) {
    let largest = if scale == 0 { 65_535 } else { 1 << (15 + scale) };
    let memory = format!("net.ipv4.tcp_rmem=4096 131072 {}", largest.max(131_072));
    sure("ip", &["netns", "exec", &world.ns("c"), "sysctl", "-qw", &memory]);
    world.ip("c", &format!("link set e0 mtu {mtu}"));
    world.ip("c", &format!("route replace default via 10.77.0.1 window {largest}"));
}

/// The scales that the server was told by the other ends of its connections, once each.
fn told(world: &World) -> Vec<u32> {
    let text = world.exec("s", "ss -tinH state connected");
    let mut scales: Vec<_> = text
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("wscale:")?.split(',').next()?.parse().ok())
        .collect();
    scales.sort_unstable();
    scales.dedup();
    scales
}

/// How many of the server's connections have had data acknowledged: the SYN counts as a byte. Until a flow's first data
/// has come the box does not know the far side's round trip, and leaves its window alone.
fn acknowledged(world: &World) -> usize {
    let text = world.exec("s", "ss -tinH state established");
    let acked =
        text.split_whitespace().filter_map(|word| word.strip_prefix("bytes_acked:")?.parse::<u64>().ok());
    acked.filter(|bytes| *bytes > 1).count()
}

/// The windows in the acknowledgments that came to where this hears, bytes.
fn windows(hears: &PacketSocket, scale: u32) -> Vec<u32> {
    let (mut frame, mut all) = ([0; 2000], Vec::new());
    while let Ok((len, _)) = hears.recv(&mut frame) {
        let header = frame[..len].get(ETHERNET..).and_then(|ip| narrows_wire::parse(ip).ok());
        if let Some(tcp) = header.and_then(|h| h.tcp).filter(|tcp| !tcp.flags.has(Flags::SYN)) {
            all.push(u32::from(tcp.window) << scale);
        }
    }
    all
}

/// Lets flows last while others come, and looks at what waits for all of them.
fn waits_as_much_as_meant(world: &World, scale: u32, mtu: u32) {
    let named = format!("scale {scale}, packets of {mtu} bytes");
    prepare(world, scale, mtu);
    world.configure("down = '500kbit'\ndiscipline = 'taq'\n");
    let running_box = world.start_configured();
    let first = world.fetch(world.server4(), LENGTH as usize);
    running_box.wait_for("the first flow is under way", |s| s.down.report.counters.sent_bytes > 10_000);
    let others = (1..FLOWS).map(|_| world.fetch(world.server4(), LENGTH as usize));
    let fetches: Vec<Fetch> = std::iter::once(first).chain(others).collect();

    let segment = mtu - HEADERS;
    // Of a unit that fits no multiple of the segment the rest is a packet of its own.
    let bytes = (4 * (segment + HEADERS)).max((1 << scale) + HEADERS * ((1 << scale) / segment + 1));
    let few = |s: &Status| s.down.report.backlog.bytes <= u64::from(FLOWS * bytes);
    let all_wait = |s: &Status| s.down.report.backlog.packets >= FLOWS as usize;
    running_box.wait_for(&named, |s| {
        // Towards the end there is nothing more to wait.
        assert!(s.down.report.counters.sent_bytes < u64::from(FLOWS * LENGTH / 2), "{named}: {s:#?}");
        s.down.report.flows >= FLOWS as usize
            && all_wait(s)
            && few(s)
            && acknowledged(world) == FLOWS as usize
    });
    if told(world) == [scale] {
        // What was served and is not acknowledged yet is in the window too: two segments, with delayed acknowledgments.
        let most = (4 * segment).max(1 << scale) + 2 * segment;
        let hears = inside(&world.ns("s"), || PacketSocket::open("e0", FrameDirection::Incoming).unwrap());
        let (hears, mut said) = (hears.join().unwrap(), Vec::new());
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(20));
            said.extend(windows(&hears, scale));
            let s = running_box.status();
            let waits = &s.down.report.backlog;
            assert!(few(&s) && all_wait(&s), "{named}: {waits:?}, and {bytes} bytes a flow are meant");
        }
        let largest = said.iter().copied().max();
        eprintln!("{named}: windows up to {largest:?} of {} acknowledgments, meant {most}", said.len());
        assert!(largest.is_some_and(|w| w <= most), "{named}: {said:?}, and {most} bytes are meant");
    } else {
        skip_part(&running(), &named, format!("this kernel's receivers announce {:?}", told(world)));
    }
    let counters = running_box.status().down.report.counters;
    assert!(counters.clamped > 0 && counters.dropped_total == 0, "{named}: {counters:?}");

    world.configure("down = '80mbit'\ndiscipline = 'taq'\n");
    running_box.signal(Signal::SIGHUP);
    fetches.into_iter().for_each(Fetch::complete);
    running_box.stop();
}

#[test]
fn four_segments_or_a_unit_wait_for_receivers_of_every_scale() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    for scale in 0..=10 {
        for mtu in [500, 1500] {
            waits_as_much_as_meant(&world, scale, mtu);
        }
    }
}
