//! Packet by packet, worked by hand; and the same packets as `narrows diagnose` judges them.

use narrows_diagnose::{Analyzer, AnalyzerLimits};
use narrows_units::{Bytes, SeqNum};
use narrows_wire::{Flags, FlowKey, Header, Proto, QuicPacket, TcpHeader};

use super::*;

mod bounds;
mod judged;
mod served;

const DOWN: Direction = Direction::Down;
const UP: Direction = Direction::Up;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// From the server to the client with that number.
fn key(client: u8) -> FlowKey {
    FlowKey::new([192, 0, 2, 1].into(), [10, 0, 0, client].into(), 80, 50_000, Proto::TCP)
}

/// Flow of UDP between the same ends.
fn datagram_key(client: u8) -> FlowKey {
    let mut key = key(client);
    key.proto = Proto::UDP;
    key
}

/// A conversation as it passes the box, written line by line. Sequence numbers count data from 1 on.
struct Story {
    sight: Sight,
    analyzer: Analyzer,
    client: u8,
    ms: u64,
    frame: u64,
    /// For the next packet.
    tcp: TcpHeader,
    /// How long the next packet waits in the box; `None` if it is dropped.
    wait: Option<u64>,
    /// Packets in the box, with when they leave.
    waiting: Vec<(u64, Direction, Mark, Header)>,
}

impl Story {
    fn new() -> Self {
        Self {
            sight: Sight::new(Instant::ZERO, 1),
            analyzer: Analyzer::new(AnalyzerLimits::default()),
            client: 7,
            ms: 0,
            frame: 0,
            tcp: TcpHeader { window: 60_000, ..TcpHeader::default() },
            wait: Some(0),
            waiting: Vec::new(),
        }
    }

    /// With a handshake: the server is 50 ms away, the client 10 ms.
    fn opened() -> Self {
        let mut s = Self::new();
        s.open(0);
        s
    }

    fn open(&mut self, ms: u64) {
        self.put(ms, UP, Flags::SYN, (0, 0), 0);
        self.put(ms + 50, DOWN, Flags::SYN.and(Flags::ACK), (0, 1), 0);
        self.put(ms + 60, UP, Flags::ACK, (1, 1), 0);
    }

    /// Time goes on as in the live loop.
    fn until(&mut self, ms: u64) {
        assert!(ms >= self.ms, "time goes on");
        // A look at all, twice a second.
        while self.ms + 500 <= ms {
            self.leave(self.ms + 500);
            self.sight.tick(at(self.ms));
        }
        self.leave(ms);
        self.sight.tick(at(ms));
    }

    /// Time goes on, and what has waited leaves the box.
    fn leave(&mut self, ms: u64) {
        self.waiting.sort_by_key(|w| w.0);
        let due = self.waiting.partition_point(|w| w.0 <= ms);
        for (leaves, way, mark, header) in self.waiting.drain(..due) {
            self.sight.left(at(leaves), way, mark, &header);
        }
        self.ms = ms;
    }

    fn put(&mut self, ms: u64, way: Direction, flags: Flags, (seq, ack): (u32, u32), payload: u32) {
        self.until(ms);
        let tcp = TcpHeader { seq: SeqNum(seq), ack: SeqNum(ack), flags, payload, ..self.tcp };
        let key = if way == DOWN { key(self.client) } else { key(self.client).reverse() };
        let header = Header { key, len: Bytes(u64::from(payload) + 40), tcp: Some(tcp), ..Header::default() };
        self.frame += 1;
        self.analyzer.packet(at(ms), self.frame, &header);
        self.pass(way, &header);
        self.tcp = TcpHeader { window: 60_000, ..TcpHeader::default() };
    }

    fn pass(&mut self, way: Direction, header: &Header) {
        let mark = self.sight.arrived(at(self.ms), way, header, None);
        match self.wait.replace(0) {
            Some(0) => self.sight.left(at(self.ms), way, mark, header),
            Some(wait) => self.waiting.push((self.ms + wait, way, mark, *header)),
            None => self.sight.dropped(way, mark, header),
        }
    }

    /// Data of the server: segment `n` of 1000 bytes, from 0 on.
    fn data(&mut self, ms: u64, n: u32) {
        self.put(ms, DOWN, Flags::ACK, (1 + n * 1000, 101), 1000);
    }
    /// Last segment `n` of an answer, with PSH.
    fn end(&mut self, ms: u64, n: u32) {
        self.put(ms, DOWN, Flags::ACK.and(Flags::PSH), (1 + n * 1000, 101), 1000);
    }
    /// An ACK of the client up to segment `n`, without it.
    fn ack(&mut self, ms: u64, n: u32) {
        self.put(ms, UP, Flags::ACK, (101, 1 + n * 1000), 0);
    }
    /// The client asks, and the server acknowledges that.
    fn request(&mut self, ms: u64) {
        self.put(ms, UP, Flags::ACK.and(Flags::PSH), (1, 1), 100);
        self.put(ms + 50, DOWN, Flags::ACK, (1, 101), 0);
    }
    /// The client asks, and of two segments the last is lost behind the box.
    fn loses_the_end(&mut self, ms: u64) {
        self.request(ms + 70);
        self.data(ms + 130, 0);
        self.end(ms + 131, 1);
        self.ack(ms + 141, 1);
    }
    /// The next packet is dropped by the box.
    fn dropped(&mut self) -> &mut Self {
        self.wait = None;
        self
    }
    /// The next packet waits in the box.
    fn waits(&mut self, ms: u64) -> &mut Self {
        self.wait = Some(ms);
        self
    }

    fn report(&mut self) -> SightJson {
        let now = at(self.ms);
        self.sight.report(now, |user| user.to_string())
    }

    /// Cause, length in milliseconds, where lost, what repaired it, timeouts; oldest first.
    fn stalls(&mut self) -> Vec<(String, u64, String, String, u8)> {
        let report = self.report();
        let one = |s: &StallJson| {
            let ms = (s.length_s * 1e3).round() as u64;
            (s.cause.clone(), ms, s.lost.clone(), s.repair.clone().unwrap_or_default(), s.timeouts)
        };
        report.stalls_last.iter().rev().map(one).collect()
    }

    /// Stalls that `narrows diagnose` finds in the story.
    fn diagnosed(mut self) -> Vec<(String, u64, String, String, u8)> {
        self.analyzer.finish();
        let flows: Vec<_> = self.analyzer.finished().collect();
        let one = |s: &narrows_diagnose::Stall| {
            let repair = s.repair.map(|r| cause::plain(&r)).unwrap_or_default();
            (cause::plain(&s.cause), s.length().as_millis(), cause::plain(&s.lost), repair, s.timeouts as u8)
        };
        let stalls = flows.iter().flat_map(|f| &f.stalls).filter(|s| s.cause.counts());
        stalls.map(one).collect()
    }
}

fn told(cause: &str, ms: u64, lost: &str, repair: &str, timeouts: u8) -> (String, u64, String, String, u8) {
    (cause.to_owned(), ms, lost.to_owned(), repair.to_owned(), timeouts)
}
