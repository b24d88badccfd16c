//! Captures at both ends of the path, and from them the captures at four points of it.
//!
//! Propagation commutes with a queue: a link that delays by d before its queue, or behind it, gives the same packets
//! in the same order. So a capture at a point d further from the users than they are is theirs with what goes to them
//! d earlier, and what they send d later; and likewise from the server's.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use narrows_units::{Duration, Instant};
use narrows_wire::capture::Reader;
use narrows_wire::{FlowKey, Header, Proto};

/// Whether the lab's server sends from this port: in the clear, by TLS and QUIC, and as a web server.
pub const fn is_server(port: u16) -> bool {
    matches!(port, 80 | 443 | 8000..=8999)
}

/// Packet of a capture, and the time of its passage in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub at_ns: i64,
    pub header: Header,
    /// Digest of the beginning of a datagram's payload, which is encrypted, so no two are alike.
    payload: u64,
}

impl Packet {
    /// Whether the server sent the packet.
    pub fn is_from_server(&self) -> bool {
        is_server(self.header.key.sport)
    }

    /// Two captures show the same packet: no two of one flow have the same of all of these.
    fn is(&self, other: &Self) -> bool {
        let (a, b) = (&self.header, &other.header);
        let stamp = |h: &Header| h.tcp.and_then(|t| t.timestamps);
        let numbers = |h: &Header| h.tcp.map(|t| (t.seq, t.ack, t.flags, t.payload));
        // A point of the path may be taken as if its hosts did not count their packets.
        let idents = a.ident == b.ident || a.ident.is_none() || b.ident.is_none();
        self.payload == other.payload
            && idents
            && a.len == b.len
            && numbers(a) == numbers(b)
            && stamp(a) == stamp(b)
    }
}

/// Packets that passed one end, by flow and direction, in order.
pub struct End {
    pub all: Vec<Packet>,
    by_key: BTreeMap<FlowKey, Vec<usize>>,
}

impl End {
    /// Reads a capture from a file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        let reading = || format!("reading {}", path.display());
        let mut reader = Reader::new(File::open(path).with_context(reading)?).with_context(reading)?;
        let bytes = std::fs::read(path).with_context(reading)?;
        let frames: Vec<&[u8]> = records(&bytes).collect();
        let mut all = Vec::new();
        while let Some(packet) = reader.next() {
            let packet = packet.with_context(reading)?;
            let frame = usize::try_from(packet.frame - 1).ok().and_then(|n| frames.get(n));
            let payload = frame.filter(|_| packet.header.key.proto == Proto::UDP).map_or(0, |f| digest(f));
            let at_ns =
                reader.origin().unwrap_or(0) + i64::try_from(packet.at.as_nanos()).with_context(reading)?;
            all.push(Packet { at_ns, header: packet.header, payload });
        }
        Ok(Self::of(all))
    }

    fn of(all: Vec<Packet>) -> Self {
        let mut by_key: BTreeMap<FlowKey, Vec<usize>> = BTreeMap::new();
        for (at, packet) in all.iter().enumerate() {
            by_key.entry(packet.header.key).or_default().push(at);
        }
        Self { all, by_key }
    }

    /// Packets of one direction of a flow, in order.
    pub fn of_flow(&self, key: &FlowKey) -> impl Iterator<Item = &Packet> + Clone {
        self.by_key.get(key).map_or(&[][..], Vec::as_slice).iter().map(|at| &self.all[*at])
    }

    /// Finds `packet` at this end; of several copies the one nearest in time.
    pub fn same(&self, packet: &Packet) -> Option<&Packet> {
        let alike = self.of_flow(&packet.header.key).filter(|other| other.is(packet));
        alike.min_by_key(|other| (other.at_ns - packet.at_ns).abs())
    }

    /// The capture at a point of the path: what goes to the users passes there `down_ns` later than here, and what
    /// they send `down_ns` earlier.
    pub fn moved(&self, down_ns: i64) -> Self {
        let moved = |p: &Packet| Packet {
            at_ns: p.at_ns + if p.is_from_server() { down_ns } else { -down_ns },
            ..*p
        };
        let mut all: Vec<Packet> = self.all.iter().map(moved).collect();
        all.sort_by_key(|p| p.at_ns);
        Self::of(all)
    }

    /// Copy of the capture without the IP identification of packets.
    pub fn without_identification(&self) -> Self {
        let plain = |p: &Packet| Packet { header: Header { ident: None, ..p.header }, ..*p };
        Self::of(self.all.iter().map(plain).collect())
    }

    /// Copy of the capture with the packets for which `keep` is true.
    pub fn kept(&self, keep: impl Fn(usize, &Packet) -> bool) -> Self {
        Self::of(self.all.iter().enumerate().filter(|(n, p)| keep(*n, p)).map(|(_, p)| *p).collect())
    }

    /// Time at which the first packet passed, in nanoseconds since 1970.
    pub fn origin_ns(&self) -> i64 {
        self.all.first().map_or(0, |p| p.at_ns)
    }

    /// Packets as an analyzer takes them, numbered from 1, with times since the first.
    pub fn frames(&self) -> impl Iterator<Item = (Instant, u64, &Header)> {
        let origin = self.origin_ns();
        self.all.iter().zip(1..).map(move |(p, frame)| {
            let since = u64::try_from(p.at_ns - origin).unwrap_or(0);
            (Instant::ZERO + Duration::from_nanos(since), frame, &p.header)
        })
    }
}

/// The frames of a capture of the lab: pcap in the byte order of this machine, each behind a header of 16 bytes.
fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes.get(24..).unwrap_or_default();
    std::iter::from_fn(move || {
        let len = u32::from_ne_bytes(rest.get(8..12)?.try_into().ok()?) as usize;
        let frame = rest.get(16..16 + len)?;
        rest = &rest[16 + len..];
        Some(frame)
    })
}

/// Digest of what stands behind the headers of Ethernet, IPv4 without options, and UDP.
fn digest(frame: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    frame.get(42..).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn packet(at_ns: i64, sport: u16, dport: u16) -> Packet {
        let (a, b) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
        let key = FlowKey::new(a, b, sport, dport, Proto::TCP);
        Packet { at_ns, header: Header { key, ..Header::default() }, payload: 0 }
    }

    #[test]
    fn a_point_further_up_sees_downloads_sooner_and_requests_later() {
        // At the users: a request at 100, an answer at 150.
        let users = End::of(vec![packet(100, 4000, 8000), packet(150, 8000, 4000)]);
        let up = users.moved(-30);
        let times: Vec<i64> = up.all.iter().map(|p| p.at_ns).collect();
        assert_eq!(times, [120, 130], "the answer, which passes first there, and then the request");
        assert!(up.all[0].is_from_server());
    }
}
