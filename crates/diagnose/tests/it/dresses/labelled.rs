//! Captures of the scoreboard, many connections each, in some dresses: each connection is judged as in the plain
//! capture.

use narrows_wire::Header;

use super::wrap::{FRAMES, Order, Packet, TUNNELS, ethernet};
use super::{Found, as_bytes, connections_differ, found};
use crate::scoreboard::capture;
use crate::scoreboard::runs::{Draw, WORKLOADS};

/// Packets of each capture: some stalls of every kind that its workload makes.
const LENGTH: usize = 10_000;
/// Dresses of each capture. All captures together have worn every link layer and every tunnel.
const DRESSES: usize = 6;

/// A capture at one point, in whole microseconds, as files have them.
fn packets(workload: usize, point: &str) -> Vec<Packet> {
    let preset = if workload.is_multiple_of(2) { "linux" } else { "rfc" };
    let results = WORKLOADS[workload].run(Draw { preset, seed: 1, other: false });
    let headers: Vec<(u64, Header)> = capture(&results, point)
        .into_iter()
        .take(LENGTH)
        .map(|(at, captured)| (at.as_nanos() / 1000 * 1000, captured.header))
        .collect();
    as_bytes(&headers)
}

fn in_frames(packets: &[Packet], link: u32, frame: impl Fn(&Packet) -> Vec<u8>) -> Found {
    let frames: Vec<_> = packets.iter().map(|p| (p.at, frame(p))).collect();
    found(Order(false).pcap(false, link, &frames))
}

/// The first connection that differs.
fn differs(plain: &Found, other: &Found) -> Option<String> {
    if plain.flows.len() != other.flows.len() {
        return Some(format!("{} connections of {}", other.flows.len(), plain.flows.len()));
    }
    let mut pairs = plain.flows.iter().zip(&other.flows);
    pairs.find_map(|(a, b)| Some(format!("connection {}: {}", a.number, connections_differ(a, b, 2)?)))
}

#[test]
fn captures_of_the_scoreboard() {
    let mut differ = Vec::new();
    let mut stalls = 0;
    for (n, workload) in WORKLOADS.iter().enumerate() {
        for (m, point) in ["before", "behind"].into_iter().enumerate() {
            let packets = packets(n, point);
            let plain = in_frames(&packets, 1, ethernet);
            stalls += plain.flows.iter().map(|flow| flow.stalls.len()).sum::<usize>();
            let first = (n * 2 + m) * DRESSES;
            for dress in first..first + DRESSES {
                let (layer, link, frame) = FRAMES[dress % FRAMES.len()];
                let (tunnel, inner) = TUNNELS[dress % TUNNELS.len()];
                let here = format!("{} {point}", workload.name);
                let layered = in_frames(&packets, link, frame);
                differ.extend(differs(&plain, &layered).map(|why| format!("{here}, {layer}: {why}")));
                let inside = in_frames(&packets, 1, inner);
                differ.extend(differs(&plain, &inside).map(|why| format!("{here}, {tunnel}: {why}")));
            }
        }
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
    assert!(stalls > 1000, "{stalls} stalls");
}
