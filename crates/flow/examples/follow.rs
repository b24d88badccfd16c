//! A download over a thin link, followed from the middle: a handshake, two windows of data, a loss, a timeout and its
//! repair. Prints what the tracker makes of each packet.
//!
//! `cargo run -p narrows-flow --example follow`

use narrows_flow::{Tracker, TrackerConfig};
use narrows_units::{Bytes, Duration, Instant, SeqNum};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

/// Fate of a packet.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Passes,
    Dropped,
    /// The packet came from the user and is on the way to the server.
    FromUser,
}
use Fate::{Dropped, FromUser, Passes};

const SYN_ACK: Flags = Flags(0x12);

/// Milliseconds, fate, flags, seq (of the server's bytes; for the user, what it acknowledges), payload.
const STORY: [(u64, Fate, Flags, u32, u32); 16] = [
    (0, FromUser, Flags::SYN, 0, 0),
    (180, Passes, SYN_ACK, 99, 0),
    (200, FromUser, Flags::ACK, 100, 0),
    (400, Passes, Flags::ACK, 100, 1000),
    (410, Passes, Flags::ACK, 1100, 1000),
    (425, FromUser, Flags::ACK, 2100, 0),
    (605, Passes, Flags::ACK, 2100, 1000),
    (615, Dropped, Flags::ACK, 3100, 1000),
    (625, Passes, Flags::ACK, 4100, 1000),
    (640, FromUser, Flags::ACK, 3100, 0),
    (1800, Dropped, Flags::ACK, 3100, 1000),
    (4200, Passes, Flags::ACK, 3100, 1000),
    (4215, FromUser, Flags::ACK, 5100, 0),
    (4400, Passes, Flags::ACK, 5100, 1000),
    (4410, Passes, Flags::ACK, 6100, 1000),
    (4425, FromUser, Flags::ACK, 7100, 0),
];

fn main() {
    let key = FlowKey::new([192, 0, 2, 1].into(), [10, 0, 0, 7].into(), 80, 40_000, Proto::TCP);
    let mut tracker = Tracker::new(TrackerConfig::default(), 1);
    println!("{key}\n");
    println!(
        "{:>5}  {:<19} {:<15} {:<17} {:>8} {:>10} {:>11}",
        "ms", "packet", "kind", "phase", "epoch", "unrepaired", "silence"
    );
    for (at, fate, flags, seq, payload) in STORY {
        let now = Instant::ZERO + Duration::from_millis(at);
        // The tick ends epochs first, so the table shows a silence as it was just before this packet ended it.
        tracker.tick(now);
        let mut tcp = TcpHeader { flags, payload, window: 500, ..TcpHeader::default() };
        let kind = if fate == FromUser {
            tcp.ack = SeqNum(seq);
            tracker.reverse(now, &packet(key.reverse(), tcp));
            String::from("-")
        } else {
            tcp.seq = SeqNum(seq);
            let h = packet(key, tcp);
            let seen = tracker.forward(now, &h);
            if let Some(id) = seen.id {
                match fate {
                    Dropped => tracker.dropped(now, id, &h),
                    _ => tracker.departed(now, id, &h),
                }
            }
            format!("{:?}", seen.kind)
        };
        let Some(id) = tracker.lookup(&key) else { continue };
        let flow = tracker.flow_at(now, id);
        let arrow = match fate {
            FromUser => format!("<- {flags:?} {seq}"),
            Dropped => format!("-> {seq}+{payload} dropped"),
            Passes => format!("-> {flags:?} {seq}+{payload}"),
        };
        println!(
            "{at:>5}  {arrow:<19} {kind:<15} {:<17} {:>8} {:>10} {:>11}",
            flow.phase().map_or("-", |p| p.name()),
            flow.epoch_len().to_string(),
            flow.unrepaired(),
            flow.last_silence().to_string()
        );
    }
}

fn packet(key: FlowKey, tcp: TcpHeader) -> Header {
    Header { key, len: Bytes(u64::from(tcp.payload) + 40), tcp: Some(tcp), ..Header::default() }
}
