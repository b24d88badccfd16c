//! TCP as a middlebox sees it: connections that are opened, then data from the servers and acknowledgments from the
//! users.
//!
//! Packets are made beforehand, so that sending is one system call for each burst. Users open four connections each.
//! All segments are small: what a copy of a packet takes is a matter of memory, which instructions do not tell.

use std::net::Ipv4Addr;

use narrows_units::{Bytes, SeqNum};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader, build};

use super::case::{Layer, Side};
use super::place;

/// Connections that have their turn at the same time: with two segments each a burst of 64.
const TURN: usize = 32;
/// Segments of a connection in its turn, which the user acknowledges together (RFC 9293, section 3.8.6.3).
const SEGMENTS: u32 = 2;
/// Length of a data packet: 52 bytes of headers (timestamps included) and the payload.
const DATA: u64 = 200;
const HEADERS: u64 = 52;
const PAYLOAD: u32 = (DATA - HEADERS) as u32;
/// Window scale and window of the users.
const SCALE: u8 = 7;
const WINDOW: u16 = 501;

/// Frames that one side sends at once.
pub struct Burst {
    /// Sender of the frames.
    pub from: Side,
    /// Whole frames.
    pub frames: Vec<Vec<u8>>,
}

/// TCP connection between its first and its last segment.
#[derive(Clone, Copy)]
struct Flow {
    user: Ipv4Addr,
    server: Ipv4Addr,
    port: u16,
    /// The next byte that the server sends.
    next: SeqNum,
}

/// All connections of a case.
pub struct Load {
    flows: Vec<Flow>,
    layer: Layer,
    /// First connection of the next turn.
    at: usize,
    /// Value of timestamps: one unit per turn.
    now: u32,
}

impl Load {
    /// This many connections, none open yet.
    pub fn new(flows: u32, layer: Layer) -> Self {
        let flow = |i: u32| {
            let [_, _, high, low] = (i / 4).to_be_bytes();
            Flow {
                user: Ipv4Addr::new(10, 1, high, low),
                server: Ipv4Addr::new(10, 2, 0, (i % 16) as u8 + 1),
                port: 40_000 + (i % 4) as u16,
                next: SeqNum(1_000 * (i + 1)),
            }
        };
        Self { flows: (0..flows).map(flow).collect(), layer, at: 0, now: 1_000 }
    }

    /// Turns until each connection has had one.
    pub fn turns(&self) -> usize {
        self.flows.len().div_ceil(TURN)
    }

    /// The three bursts by which a turn's connections open (RFC 9293, section 3.5).
    pub fn open(&mut self) -> [Burst; 3] {
        let turn = self.turn();
        let syn = |header: TcpHeader| TcpHeader {
            mss: Some((PAYLOAD + 12) as u16),
            window_scale: Some(SCALE),
            window: 64_240,
            ..header
        };
        let first = self.burst(Side::Users, &turn, |_, header| {
            vec![syn(TcpHeader { seq: SeqNum(1), ack: SeqNum(0), flags: Flags::SYN, ..header })]
        });
        let second = self.burst(Side::Servers, &turn, |flow, header| {
            let seq = SeqNum(flow.next.0.wrapping_sub(1));
            vec![syn(TcpHeader { seq, flags: Flags::SYN.and(Flags::ACK), ..header })]
        });
        let third = self.burst(Side::Users, &turn, |_, header| vec![header]);
        [first, second, third]
    }

    /// Two bursts of the next turn: data from servers, and acknowledgments of the data from users.
    pub fn exchange(&mut self) -> [Burst; 2] {
        let turn = self.turn();
        let data = self.burst(Side::Servers, &turn, |flow, header| {
            (0..SEGMENTS)
                .map(|i| TcpHeader { seq: flow.next + i * PAYLOAD, payload: PAYLOAD, ..header })
                .collect()
        });
        for &i in &turn {
            self.flows[i].next += SEGMENTS * PAYLOAD;
        }
        let acks = self.burst(Side::Users, &turn, |_, header| vec![header]);
        [data, acks]
    }

    /// Connections whose turn is next.
    fn turn(&mut self) -> Vec<usize> {
        let turn = (0..TURN.min(self.flows.len())).map(|i| (self.at + i) % self.flows.len()).collect();
        self.at = (self.at + TURN) % self.flows.len();
        self.now += 1;
        turn
    }

    /// Builds the frames of one side on these connections; `make` turns an ordinary header into those that are sent.
    fn burst(&self, from: Side, turn: &[usize], make: impl Fn(&Flow, TcpHeader) -> Vec<TcpHeader>) -> Burst {
        let heading = place::heading(self.layer, from);
        let mut frames = Vec::new();
        for flow in turn.iter().map(|&i| &self.flows[i]) {
            let (key, seq, ack) = match from {
                Side::Users => ((flow.user, flow.server, flow.port, 443), SeqNum(2), flow.next),
                Side::Servers => ((flow.server, flow.user, 443, flow.port), flow.next, SeqNum(2)),
            };
            let key = FlowKey::new(key.0.into(), key.1.into(), key.2, key.3, Proto::TCP);
            let usual = TcpHeader {
                seq,
                ack,
                flags: Flags::ACK,
                window: WINDOW,
                timestamps: Some((self.now, self.now - 1)),
                ..TcpHeader::default()
            };
            for tcp in make(flow, usual) {
                let len = Bytes(u64::from(tcp.payload) + HEADERS);
                let header = Header { key, len, tcp: Some(tcp), ..Header::default() };
                let mut frame = heading.clone();
                let total = build(&header, self.now as u16, &mut frame);
                frame.resize(heading.len() + total, 0);
                frames.push(frame);
            }
        }
        Burst { from, frames }
    }
}

#[cfg(test)]
mod tests {
    use narrows_wire::parse;

    use super::*;

    fn tcp(frame: &[u8]) -> (FlowKey, TcpHeader, u64) {
        assert_eq!(frame[12..14], [8, 0], "IPv4");
        let header = parse(&frame[14..]).unwrap();
        (header.key, header.tcp.unwrap(), header.len.get())
    }

    #[test]
    fn connections_open_by_three_segments_and_then_each_two_are_acknowledged() {
        let mut load = Load::new(100, Layer::Routed);
        // 100 connections, 32 at a time.
        assert_eq!(load.turns(), 4);
        let [syn, answer, last] = load.open();
        assert_eq!([&syn, &answer, &last].map(|b| b.frames.len()), [32; 3]);
        let (key, syn, len) = tcp(&syn.frames[5]);
        assert_eq!((syn.flags, syn.window_scale, len), (Flags::SYN, Some(7), 60));
        let (back, answer, _) = tcp(&answer.frames[5]);
        assert_eq!((back.src(), back.dst(), back.sport, back.dport), (key.dst(), key.src(), 443, key.sport));
        assert_eq!((answer.flags, answer.ack), (Flags::SYN.and(Flags::ACK), syn.seq + 1));
        let (_, last, len) = tcp(&last.frames[5]);
        assert_eq!((last.flags, last.seq, last.ack, len), (Flags::ACK, answer.ack, answer.seq + 1, 52));
        for _ in 1..4 {
            load.open();
        }
        // The fifth opening turn began with connection 28, so the next data are those of connections 28 to 59.
        let [data, acks] = load.exchange();
        assert_eq!((data.frames.len(), acks.frames.len()), (64, 32));
        let (a, first, len) = tcp(&data.frames[0]);
        let (b, second, _) = tcp(&data.frames[1]);
        assert_eq!((a, len, second.seq), (b, 200, first.seq + 148));
        assert_eq!(tcp(&acks.frames[0]).1.ack, second.seq + 148);
    }
}
