//! How much waits for flows under TAQ's window clamp, by the window scale that their receivers announce, which windows
//! their senders are told, and that the next segment always fits.

use std::collections::HashMap;
use std::time::Duration;

use narrows_box::Status;
use narrows_netio::packet_socket::{FrameDirection, PacketSocket};
use narrows_testing::{running, skip_part};
use narrows_units::SeqNum;
use narrows_wire::{Flags, FlowKey, TcpHeader};
use nix::sys::signal::Signal;

use crate::live_box::world::{Fetch, Kind, World, inside, sure};

const FLOWS: u32 = 8;
/// Bytes that each of them transfers; the first, which has the link to itself until the others have come, three times
/// as many.
const LENGTH: u32 = 90_000;
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

/// A window that an acknowledgment has brought to a sender, bytes.
#[derive(Clone, Copy, Debug)]
struct Told {
    window: u32,
    /// Bytes that it has sent and that are not acknowledged.
    outstanding: u32,
}

/// Hears the server's connections: what they send, and which windows they are told.
struct Ear {
    socket: PacketSocket,
    scale: u32,
    /// Where the data ends that each connection has sent.
    sent: HashMap<FlowKey, SeqNum>,
}

impl Ear {
    fn new(world: &World, scale: u32) -> Self {
        let hears = inside(&world.ns("s"), || {
            let socket = PacketSocket::open("e0", FrameDirection::Both).unwrap();
            socket.make_room(1 << 20).unwrap();
            socket
        });
        Self { socket: hears.join().unwrap(), scale, sent: HashMap::new() }
    }

    /// All windows that came since the last call.
    fn told(&mut self) -> Vec<Told> {
        let (mut frame, mut all) = ([0; 2000], Vec::new());
        while let Ok((len, _)) = self.socket.recv(&mut frame) {
            let header = frame[..len].get(ETHERNET..).and_then(|ip| narrows_wire::parse(ip).ok());
            let Some((key, tcp)) = header.and_then(|h| Some((h.key, h.tcp?))) else { continue };
            if tcp.payload > 0 {
                let end = self.sent.entry(key).or_insert(tcp.seq);
                *end = end.max(tcp.seq + tcp.payload);
            } else if !tcp.flags.has(Flags::SYN) {
                all.extend(self.hear(key.reverse(), &tcp));
            }
        }
        all
    }

    /// An acknowledgment, if it is for a connection that was seen to send what it acknowledges or more.
    fn hear(&self, key: FlowKey, tcp: &TcpHeader) -> Option<Told> {
        let end = self.sent.get(&key).filter(|end| tcp.ack.at_or_before(**end))?;
        Some(Told { window: u32::from(tcp.window) << self.scale, outstanding: *end - tcp.ack })
    }
}

/// Lets flows last while others come, and looks at what waits for all of them.
fn waits_as_much_as_meant(world: &World, scale: u32, mtu: u32) {
    let named = format!("scale {scale}, packets of {mtu} bytes");
    prepare(world, scale, mtu);
    world.configure("down = '500kbit'\ndiscipline = 'taq'\n");
    let running_box = world.start_configured();
    let first = world.fetch(world.server4(), 3 * LENGTH as usize);
    running_box.wait_for("the first flow is under way", |s| s.down.report.counters.sent_bytes.0 > 10_000);
    let others = (1..FLOWS).map(|_| world.fetch(world.server4(), LENGTH as usize));
    let fetches: Vec<Fetch> = std::iter::once(first).chain(others).collect();

    let (segment, unit) = (mtu - HEADERS, 1 << scale);
    let most = if unit > 3 * segment { unit + segment } else { 4 * segment };
    // A rest of a unit is a packet of its own.
    let bytes = most + HEADERS * (most / segment + 2);
    let few = |s: &Status| s.down.report.backlog.bytes.0 <= u64::from(FLOWS * bytes);
    let all_wait = |s: &Status| s.down.report.backlog.packets >= FLOWS as usize;
    running_box.wait_for(&named, |s| {
        // Towards the end there is nothing more to wait.
        assert!(s.down.report.counters.sent_bytes.0 < u64::from(FLOWS * LENGTH / 2), "{named}: {s:#?}");
        s.down.report.flows >= FLOWS as usize
            && all_wait(s)
            && few(s)
            && acknowledged(world) == FLOWS as usize
    });
    if told(world) == [scale] {
        // The window also holds data that was sent and is not acknowledged yet: two segments, with delayed
        // acknowledgments.
        let most = most + 2 * segment;
        let (mut hears, mut said) = (Ear::new(world, scale), Vec::new());
        for _ in 0..40 {
            std::thread::sleep(Duration::from_millis(20));
            said.extend(hears.told());
            let s = running_box.status();
            let waits = &s.down.report.backlog;
            assert!(few(&s) && all_wait(&s), "{named}: {waits:?}, and {bytes} bytes a flow are meant");
        }
        let largest = said.iter().map(|told| told.window).max();
        eprintln!("{named}: windows up to {largest:?} of {} acknowledgments, meant {most}", said.len());
        // A flow that ran dry while it was held may have more, for a while.
        let wide = said.iter().filter(|told| told.window > most).count();
        assert!(!said.is_empty() && wide * 10 <= said.len(), "{named}: {said:?}, and {most} bytes are meant");
        for told in said {
            // With less than two segments outstanding, the next one fits; where a unit is more than a segment, with
            // none outstanding.
            let due = if unit <= segment { told.outstanding < 2 * segment } else { told.outstanding == 0 };
            let fits = told.window >= told.outstanding + segment;
            assert!(!due || fits, "{named}: the next segment of {segment} bytes does not fit: {told:?}");
        }
    } else {
        skip_part(&running(), &named, format!("this kernel's receivers announce {:?}", told(world)));
    }
    let counters = running_box.status().down.report.counters;
    assert!(counters.clamped > 0 && counters.dropped_total() == 0, "{named}: {counters:?}");

    world.configure("down = '80mbit'\ndiscipline = 'taq'\n");
    running_box.signal(Signal::SIGHUP);
    fetches.into_iter().for_each(Fetch::complete);
    running_box.stop();
}

#[test]
fn the_next_segment_fits_and_four_or_a_unit_wait_for_receivers_of_every_scale() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    for scale in 0..=10 {
        for mtu in [500, 1280, 1492, 1500] {
            waits_as_much_as_meant(&world, scale, mtu);
        }
    }
}
