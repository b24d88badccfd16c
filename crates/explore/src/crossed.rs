//! Packets that crossed the thin link, read back from what the simulator captured there: who got what and when, and
//! what the link's time went into.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use narrows_quic::RangeSet;
use narrows_units::{Duration, Instant};
use narrows_wire::capture::{Captured, Reader};
use narrows_wire::{Flags, FlowKey, Header};

/// Novelty of a packet's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    /// Bytes beyond all that had crossed.
    New,
    /// Bytes that were missing below others.
    Repair,
    /// Bytes that had crossed before.
    Copy,
    /// No data.
    Nothing,
}

/// A packet towards a user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    pub(crate) at: Instant,
    /// Host number of the user.
    pub(crate) host: u32,
    /// Number of the packet's connection; connections are ordered by their first packets.
    pub(crate) connection: u32,
    /// Offset of the packet's first byte of data in the connection.
    pub(crate) from: u64,
    /// Bytes of data.
    pub(crate) data: u64,
    /// Bytes of the data that had not crossed before.
    pub(crate) fresh: u64,
    /// Bytes that the receiver can read once the packet is there: no hole is below these bytes.
    pub(crate) readable: u64,
    /// Length of the IP packet.
    pub(crate) len: u64,
    pub(crate) brought: Brought,
}

/// An acknowledgment of a user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub(crate) at: Instant,
    pub(crate) host: u32,
    pub(crate) connection: u32,
    /// Bytes of data acknowledged.
    pub(crate) to: u64,
}

/// Packets that crossed, both ways.
#[derive(Debug, Default)]
pub(crate) struct Crossed {
    pub(crate) down: Vec<Passed>,
    pub(crate) up: Vec<Acked>,
}

/// State of one connection, by the key of the connection's packets to the user.
#[derive(Debug, Default)]
struct Follow {
    number: u32,
    /// Bytes of the connection that crossed the link.
    seen: RangeSet,
}

impl Follow {
    /// End of the last byte that crossed; 0 before the first.
    fn end(&self) -> u64 {
        self.seen.max().map_or(0, |last| last + 1)
    }
}

const UDP_HEADERS: u64 = 28;

impl Crossed {
    /// Reads the captures of both ways.
    pub(crate) fn read(down: &[u8], up: &[u8]) -> Self {
        let mut all = Self::default();
        let mut flows: BTreeMap<FlowKey, Follow> = BTreeMap::new();
        let mut connections = 0;
        for (at, header) in packets(down) {
            let opens = header.tcp.is_some_and(|tcp| tcp.flags.has(Flags::SYN));
            let flow = flows.entry(header.key).or_insert_with(|| {
                connections += 1;
                Follow { number: connections - 1, ..Follow::default() }
            });
            // Ports come round again: this is another connection.
            if opens && !flow.seen.is_empty() {
                connections += 1;
                *flow = Follow { number: connections - 1, ..Follow::default() };
            }
            all.down.push(passed(at, &header, flow));
        }
        for (at, header) in packets(up) {
            let (Some(tcp), Some(flow)) = (header.tcp, flows.get(&header.key.reverse())) else { continue };
            if tcp.flags.has(Flags::ACK) {
                // The SYN is 0, so data begins at 1.
                let to = u64::from(tcp.ack.0.saturating_sub(1));
                all.up.push(Acked { at, host: host(header.key.src_bits()), connection: flow.number, to });
            }
        }
        all
    }
}

fn passed(at: Instant, header: &Header, flow: &mut Follow) -> Passed {
    let (from, data) = match header.tcp {
        // The SYN is 0, so data begins at 1.
        Some(tcp) => (u64::from(tcp.seq.0.saturating_sub(1)), u64::from(tcp.payload)),
        // Numbers are hidden: what comes counts as new.
        None => (flow.end(), header.len.0.saturating_sub(UDP_HEADERS)),
    };
    let (end, before) = (flow.end(), flow.seen.from_zero());
    let fresh = flow.seen.insert(from, from + data);
    let brought = match (data, fresh) {
        (0, _) => Brought::Nothing,
        (_, 0) => Brought::Copy,
        _ if from < end => Brought::Repair,
        _ => Brought::New,
    };
    Passed {
        at,
        host: host(header.key.dst_bits()),
        connection: flow.number,
        from,
        data,
        fresh,
        readable: flow.seen.from_zero() - before,
        len: header.len.0,
        brought,
    }
}

/// Number of a host of the simulator, from the host's address in 10.0.0.0/8.
fn host(bits: u128) -> u32 {
    (bits & 0x00ff_ffff) as u32
}

/// Address of a host of the simulator.
pub(crate) fn address(host: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0000 | host)
}

/// Packets of a capture with the times of the simulation.
fn packets(file: &[u8]) -> Vec<(Instant, Header)> {
    let mut all = Vec::new();
    let Ok(mut reader) = Reader::new(file) else { return all };
    let mut packet = Captured::default();
    while let Some(Ok(())) = reader.next_into(&mut packet) {
        all.push((packet.at, packet.header));
    }
    // The reader counts from the first packet, the simulation from its beginning.
    let origin = reader.origin().and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
    for (at, _) in &mut all {
        *at += Duration::from_nanos(origin);
    }
    all
}
