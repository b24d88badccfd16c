//! Packet by packet, worked by hand.

use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

use crate::{Analyzer, AnalyzerLimits, Cause, Certainty, FlowReport, Place, Repair, Vantage};

mod kernel;
mod quic;
mod silences;
mod whose_fault;
mod why;

const CLIENT: bool = true;
const SERVER: bool = false;

fn key() -> FlowKey {
    from(50_000)
}

/// Key of a connection from another port of the client.
fn from(port: u16) -> FlowKey {
    FlowKey::new([10, 0, 0, 1].into(), [192, 0, 2, 1].into(), port, 80, Proto::TCP)
}

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// A conversation as it passes a point, written line by line. Sequence numbers count data from 1 on.
struct Story {
    analyzer: Analyzer,
    frame: u64,
    ms: u64,
    /// Header fields of the next packet.
    tcp: TcpHeader,
}

impl Story {
    fn new() -> Self {
        let tcp = TcpHeader { window: 60_000, ..TcpHeader::default() };
        Self { analyzer: Analyzer::new(AnalyzerLimits::default()), frame: 0, ms: 0, tcp }
    }

    /// Begins with a handshake: the server is 50 ms away, the client `client_ms`.
    fn opened(client_ms: u64) -> Self {
        let mut s = Self::new();
        s.put(0, CLIENT, Flags::SYN, (0, 0), 0);
        s.put(50, SERVER, Flags::SYN.and(Flags::ACK), (0, 1), 0);
        s.put(50 + client_ms, CLIENT, Flags::ACK, (1, 1), 0);
        s
    }

    fn put(&mut self, ms: u64, client: bool, flags: Flags, (seq, ack): (u32, u32), payload: u32) {
        let tcp = TcpHeader { seq: SeqNum(seq), ack: SeqNum(ack), flags, payload, ..self.tcp };
        let key = if client { key() } else { key().reverse() };
        self.frame += 1;
        assert!(ms >= self.ms, "time goes on");
        self.ms = ms;
        self.analyzer.packet(at(ms), self.frame, &Header { key, tcp: Some(tcp), ..Header::default() });
        self.tcp = TcpHeader { window: 60_000, ..TcpHeader::default() };
    }

    /// Data of the server: segment `n` of 1000 bytes, from 0 on.
    fn data(&mut self, ms: u64, n: u32) -> u64 {
        self.put(ms, SERVER, Flags::ACK, (1 + n * 1000, 101), 1000);
        self.frame
    }
    /// An ACK of the client up to segment `n`, without it.
    fn ack(&mut self, ms: u64, n: u32) -> u64 {
        self.put(ms, CLIENT, Flags::ACK, (101, 1 + n * 1000), 0);
        self.frame
    }
    /// A duplicate of it that tells of segments `from` to `to`.
    fn sack(&mut self, ms: u64, n: u32, from: u32, to: u32) -> u64 {
        self.tcp.sack.push(SeqNum(1 + from * 1000), SeqNum(1 + to * 1000));
        self.ack(ms, n)
    }
    /// The client asks, and the server acknowledges that.
    fn request(&mut self, ms: u64) {
        self.put(ms, CLIENT, Flags::ACK, (1, 1), 100);
        self.put(ms + 50, SERVER, Flags::ACK, (1, 101), 0);
    }
    /// The window that the next packet announces.
    fn window(&mut self, bytes: u16) -> &mut Self {
        self.tcp.window = bytes;
        self
    }
    fn stamps(&mut self, tsval: u32, tsecr: u32) -> &mut Self {
        self.tcp.timestamps = Some((tsval, tsecr));
        self
    }

    fn end(mut self) -> FlowReport {
        self.analyzer.finish();
        let mut flows: Vec<FlowReport> = self.analyzer.finished().collect();
        assert_eq!(flows.len(), 1);
        flows.remove(0)
    }
}

/// Cause, length in milliseconds, what repaired it, timeouts.
fn stalls(flow: &FlowReport) -> Vec<(Cause, u64, Option<Repair>, u32)> {
    flow.stalls.iter().map(|s| (s.cause, s.length().as_millis(), s.repair, s.timeouts)).collect()
}

fn repairs(flow: &FlowReport) -> Vec<(Repair, u64)> {
    flow.events.iter().map(|e| (e.repair, e.frame)).collect()
}

/// The largest segment has 1000 bytes, of which timestamps take 12: a record of 9880 bytes was ten on the wire.
#[test]
fn records_of_offload_count_as_their_segments() {
    let mut s = Story::new();
    s.tcp.mss = Some(1000);
    s.put(0, CLIENT, Flags::SYN, (0, 0), 0);
    s.put(50, SERVER, Flags::SYN.and(Flags::ACK), (0, 1), 0);
    s.put(51, CLIENT, Flags::ACK, (1, 1), 0);
    s.request(60);
    s.stamps(1, 1).put(120, SERVER, Flags::ACK, (1, 101), 9880);
    s.put(121, SERVER, Flags::ACK, (9881, 101), 1000);
    s.put(140, CLIENT, Flags::ACK, (101, 10_881), 0);
    let counts = s.end().directions[1].counts;
    assert_eq!((counts.data, counts.bytes, counts.again), (11, 10_880, 0));
}

#[test]
fn a_quick_transfer_has_nothing_to_tell() {
    let mut s = Story::opened(1);
    s.request(60);
    for n in 0..20 {
        s.data(120 + u64::from(n), n);
    }
    for n in 0..20 {
        s.ack(140 + u64::from(n), n + 1);
    }
    let flow = s.end();
    assert_eq!((flow.stalls.len(), flow.events.len()), (0, 0), "{flow:?}");
    let d = &flow.directions[1];
    assert_eq!((d.counts.data, d.counts.bytes, d.vantage), (20, 20_000, Vantage::Receiver));
    assert_eq!(flow.directions[0].vantage, Vantage::Sender);
}

#[test]
fn connections_that_are_over_are_freed_and_the_oldest_go_when_there_are_too_many() {
    let limits =
        AnalyzerLimits { connections: 8, linger: Duration::from_secs(1), silence: Duration::from_secs(100) };
    let mut a = Analyzer::new(limits);
    let packet = |a: &mut Analyzer, ms: u64, port: u16, flags: Flags| {
        let key = from(port);
        let tcp = TcpHeader { flags, seq: SeqNum(5), ..TcpHeader::default() };
        a.packet(at(ms), ms, &Header { key, tcp: Some(tcp), ..Header::default() });
    };
    for port in 0..8 {
        packet(&mut a, u64::from(port), 1000 + port, Flags::SYN);
    }
    packet(&mut a, 10, 1003, Flags::RST);
    assert_eq!((a.open(), a.finished().count()), (8, 0));
    // The reset one is freed 10 s later, when there is a sweep; a ninth then has a place.
    packet(&mut a, 12_000, 2000, Flags::SYN);
    assert_eq!((a.open(), a.finished().map(|f| f.opener.port).collect::<Vec<_>>()), (8, vec![1003]));
    packet(&mut a, 12_001, 2001, Flags::SYN);
    assert_eq!((a.finished().map(|f| f.opener.port).collect::<Vec<_>>(), a.evicted()), (vec![1000], 1));
    // Another SYN on the same ports is another connection.
    let tcp = TcpHeader { flags: Flags::SYN, seq: SeqNum(77_000), ..TcpHeader::default() };
    packet(&mut a, 12_002, 2001, Flags::RST);
    a.packet(at(12_003), 9, &Header { key: from(2001), tcp: Some(tcp), ..Header::default() });
    assert_eq!(a.finished().map(|f| f.opener.port).collect::<Vec<_>>(), [2001]);
}

#[test]
fn any_bytes_are_diagnosed() {
    let mut seed = 1_u64;
    let mut below = |n: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 11) % n
    };
    let mut w = narrows_wire::capture::Writer::new(Vec::new()).unwrap();
    for n in 0..400 {
        let key = from(1000 + below(3) as u16);
        let tcp = TcpHeader {
            seq: SeqNum(below(9000) as u32),
            ack: SeqNum(below(9000) as u32),
            flags: Flags(below(256) as u8 & if below(8) == 0 { 0xff } else { 0xf8 }),
            payload: [0, 1, 500, 1460][below(4) as usize],
            window: [0, 1, 500, 65_535][below(4) as usize],
            ..TcpHeader::default()
        };
        let key = if below(2) == 0 { key } else { key.reverse() };
        w.write(at(n * below(90)), &Header { key, tcp: Some(tcp), ..Header::default() }).unwrap();
    }
    let whole = w.into_inner();
    crate::fuzzing::diagnose(&whole);
    for _ in 0..3000 {
        let mut bytes = whole[..24 + below(whole.len() as u64 - 24) as usize].to_vec();
        for _ in 0..below(20) {
            let at = below(bytes.len() as u64) as usize;
            bytes[at] = below(256) as u8;
        }
        crate::fuzzing::diagnose(&bytes);
    }
}
