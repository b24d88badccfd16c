//! Random traffic: TCP flows with losses repaired now and then, ECN, UDP, fragments, SYN floods.

use core::net::IpAddr;

use narrows_qdisc::Record;
use narrows_units::{Bytes, Ecn, Instant, SeqNum};
use narrows_wire::{Flags, FlowKey, Proto, TcpHeader};

use super::Rng;

/// Arrivals for a discipline that may send new data of a flow out of order: TAQ's paper mode, which classifies
/// packets and not flows (4.2).
pub fn for_spec(spec: &str, arrivals: &[Arrival]) -> Vec<Arrival> {
    let ordered = !spec.starts_with("taq:paper");
    arrivals.iter().map(|a| Arrival { in_order: a.in_order && ordered, ..*a }).collect()
}

/// A packet that reaches the box.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at: Instant,
    /// Into the queue, or the other way.
    pub forward: bool,
    /// Data in order, sent for the first time: what must not be reordered within its flow.
    pub in_order: bool,
    pub packet: Record,
}

struct Flow {
    key: FlowKey,
    next: u32,
    acked: u32,
    open: bool,
    ecn: Ecn,
    size: u32,
    timestamps: bool,
}

fn user(n: u64) -> IpAddr {
    [10, 1, (n >> 8) as u8, n as u8].into()
}

const SERVER: [u8; 4] = [192, 0, 2, 1];

/// Some seconds of traffic from `flows` TCP flows and the rest, at about `load` times what the link carries.
pub struct Traffic {
    rng: Rng,
    flows: Vec<Flow>,
    now: u64,
    id: u64,
    gap_ns: u64,
    out: Vec<Arrival>,
}

impl Traffic {
    pub fn new(seed: u64, flows: usize, load_percent: u64) -> Self {
        let mut rng = Rng::new(seed);
        let flows = (0..flows as u64)
            .map(|n| {
                let upload = rng.once_in(5);
                let down = FlowKey::new(SERVER.into(), user(n / 3), 80, 40_000 + n as u16, Proto::TCP);
                Flow {
                    key: if upload { down.reverse() } else { down },
                    next: rng.next() as u32,
                    acked: 0,
                    open: false,
                    ecn: if rng.once_in(3) { Ecn::Ect0 } else { Ecn::NotEct },
                    size: 100 + rng.below(1340) as u32,
                    timestamps: rng.once_in(2),
                }
            })
            .collect();
        // 600 kbit/s carry a packet of 800 bytes each 10.7 ms.
        Self { rng, flows, now: 0, id: 0, gap_ns: 10_700_000 * 100 / load_percent, out: Vec::new() }
    }

    pub fn generate(mut self, packets: usize) -> Vec<Arrival> {
        while self.out.len() < packets {
            // Bursts: many at one instant, then a pause; once in a while a long one, so that flows fall silent.
            let burst = 1 + self.rng.below(12);
            self.now += self.rng.below(2 * self.gap_ns * burst);
            if self.rng.once_in(200) {
                self.now += 1_000_000_000 * (1 + self.rng.below(6));
            }
            for _ in 0..burst {
                self.one();
            }
        }
        self.out
    }

    fn push(&mut self, forward: bool, in_order: bool, mut packet: Record) {
        self.id += 1;
        packet.id = self.id;
        self.out.push(Arrival { at: Instant::from_nanos(self.now), forward, in_order, packet });
    }

    fn one(&mut self) {
        match self.rng.below(40) {
            0 => self.flood(),
            1 => self.other(Proto::UDP, 53, false),
            2 => self.other(Proto::UDP, 443, false),
            3 => self.other(Proto::TCP, 0, true),
            4 => self.other(Proto::ICMP, 0, false),
            _ => {
                let flow = self.rng.below(self.flows.len() as u64) as usize;
                self.tcp(flow);
            }
        }
    }

    /// SYNs from addresses nobody has.
    fn flood(&mut self) {
        let n = self.rng.below(20_000);
        let forward = self.rng.once_in(2);
        let key =
            FlowKey::new([172, 16, (n >> 8) as u8, n as u8].into(), SERVER.into(), n as u16, 80, Proto::TCP);
        let tcp = TcpHeader { flags: Flags::SYN, seq: SeqNum(n as u32), ..TcpHeader::default() };
        self.push(forward, false, segment(key, tcp, Ecn::NotEct, false));
    }

    fn other(&mut self, proto: Proto, port: u16, fragment: bool) {
        let n = self.rng.below(5);
        let key = FlowKey::new(SERVER.into(), user(n), port, port, proto);
        let mut r = Record::default();
        r.header.key = key;
        r.header.len = Bytes(100 + self.rng.below(1300));
        r.header.fragment = fragment;
        r.header.ecn = if self.rng.once_in(4) { Ecn::Ect1 } else { Ecn::NotEct };
        self.push(true, true, r);
    }

    /// The SYN, or both where the user's goes the other way, as for a download.
    fn open(&mut self, at: usize, mut tcp: TcpHeader, dice: u64, back: u32) {
        let f = &mut self.flows[at];
        let (key, stamps) = (f.key, f.timestamps);
        f.open = dice < 70;
        f.acked = f.next.wrapping_add(1);
        tcp.flags = if key.dport == 80 { Flags::SYN } else { Flags::SYN.and(Flags::ACK) };
        (tcp.window_scale, tcp.mss) = (Some(7), Some(1460));
        let seq = f.next;
        if f.open {
            f.next = f.next.wrapping_add(1);
        }
        let syn = TcpHeader {
            flags: Flags::SYN,
            seq: SeqNum(back),
            window_scale: Some(7),
            mss: Some(1460),
            ..TcpHeader::default()
        };
        if key.sport == 80 {
            self.push(false, false, segment(key.reverse(), syn, Ecn::NotEct, stamps));
        }
        tcp.seq = SeqNum(seq);
        self.push(true, false, segment(key, tcp, Ecn::NotEct, stamps));
    }

    fn tcp(&mut self, at: usize) {
        let dice = self.rng.below(100);
        let back = self.rng.next() as u32;
        let f = &mut self.flows[at];
        let (key, ecn, size, stamps) = (f.key, f.ecn, f.size, f.timestamps);
        let mut tcp =
            TcpHeader { flags: Flags::ACK, seq: SeqNum(f.next), window: 64_000, ..TcpHeader::default() };
        if !f.open {
            self.open(at, tcp, dice, back);
            return;
        }
        match dice {
            0..50 => {
                tcp.payload = size;
                f.next = f.next.wrapping_add(size);
                self.push(true, true, segment(key, tcp, ecn, stamps));
            }
            50..65 => {
                // A repetition of something not acknowledged yet, if there is any.
                let outstanding = f.next.wrapping_sub(f.acked) / size;
                if outstanding > 0 {
                    tcp.payload = size;
                    tcp.seq = SeqNum(f.next.wrapping_sub(size * (1 + back % outstanding.min(10))));
                    self.push(true, false, segment(key, tcp, Ecn::NotEct, stamps));
                }
            }
            65..90 => {
                let ahead = f.next.wrapping_sub(f.acked);
                f.acked = f.acked.wrapping_add(if ahead > 0 { back % (ahead + 1) } else { 0 });
                tcp.seq = SeqNum(back);
                tcp.ack = SeqNum(f.acked);
                self.push(false, false, segment(key.reverse(), tcp, Ecn::NotEct, stamps));
            }
            90..96 => {
                // The flow also acknowledges what comes the other way.
                self.push(true, false, segment(key, tcp, Ecn::NotEct, stamps));
            }
            96 => {
                tcp.flags = tcp.flags.and(Flags::FIN);
                f.open = false;
                f.next = f.next.wrapping_add(100_000);
                self.push(true, false, segment(key, tcp, Ecn::NotEct, stamps));
            }
            97 => {
                tcp.flags = Flags::RST;
                self.push(true, false, segment(key, tcp, Ecn::NotEct, stamps));
            }
            _ => {
                // Keep-alive: one old byte.
                tcp.payload = 1;
                tcp.seq = SeqNum(f.next.wrapping_sub(1));
                self.push(true, false, segment(key, tcp, Ecn::NotEct, stamps));
            }
        }
    }
}

fn segment(key: FlowKey, mut tcp: TcpHeader, ecn: Ecn, timestamps: bool) -> Record {
    if timestamps {
        tcp.timestamps = Some((tcp.seq.0 / 1000, 1));
    }
    let mut r = Record::default();
    r.header.key = key;
    r.header.len = Bytes(u64::from(tcp.payload) + if timestamps { 52 } else { 40 });
    r.header.ecn = ecn;
    r.header.tcp = Some(tcp);
    r
}

/// Headers that mean nothing: every field at random, from few addresses, so that flows repeat.
pub fn nonsense(rng: &mut Rng, id: u64) -> Record {
    let address = |rng: &mut Rng| -> IpAddr {
        if rng.once_in(4) {
            IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, rng.below(4) as u8])
        } else {
            user(rng.below(6))
        }
    };
    let (src, dst) = (address(rng), address(rng));
    let proto =
        [Proto::TCP, Proto::TCP, Proto::TCP, Proto::UDP, Proto(rng.below(256) as u8)][rng.below(5) as usize];
    let near = |rng: &mut Rng| [rng.below(4) as u32 * 0x4000_0000, rng.next() as u32][rng.below(2) as usize];
    let mut r = Record { id, ..Record::default() };
    r.header.key = FlowKey::new(src, dst, rng.below(4) as u16, rng.below(4) as u16, proto);
    r.header.ecn = Ecn::from_bits(rng.next() as u8);
    r.header.fragment = rng.once_in(10);
    r.header.len = Bytes(if rng.once_in(20) { rng.below(65_536) } else { 20 + rng.below(1481) });
    if proto == Proto::TCP && !rng.once_in(5) {
        let mut tcp = TcpHeader {
            seq: SeqNum(near(rng).wrapping_add(rng.below(3000) as u32)),
            ack: SeqNum(near(rng).wrapping_add(rng.below(3000) as u32)),
            flags: Flags(rng.next() as u8),
            window: rng.next() as u16,
            payload: if rng.once_in(3) { 0 } else { rng.below(r.header.len.get() + 1) as u32 },
            timestamps: rng.once_in(2).then(|| (rng.next() as u32, rng.next() as u32)),
            window_scale: rng.once_in(3).then(|| rng.below(15) as u8),
            mss: rng.once_in(3).then(|| rng.next() as u16),
            ..TcpHeader::default()
        };
        for _ in 0..rng.below(6) {
            tcp.sack.push(SeqNum(near(rng)), SeqNum(near(rng)));
        }
        r.header.tcp = Some(tcp);
    }
    r
}
