//! What sight costs a packet: a data segment as it comes and leaves, every second one acknowledged the other way, and
//! the look at all connections. `cargo bench -p narrows-box --bench sight [-- PACKETS]`

use narrows_box::Sight;
use narrows_qdisc::Direction;
use narrows_testing::cpu_time_ns;
use narrows_units::{Bytes, Duration, Instant, SeqNum};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

const PACKETS: u32 = 2_000_000;

fn header(flow: u32) -> Header {
    let [_, a, b, c] = flow.to_be_bytes();
    let key = FlowKey::new([192, 0, 2, 1].into(), [10, a, b, c].into(), 80, 40_000, Proto::TCP);
    let tcp = TcpHeader { flags: Flags::ACK, payload: 1000, window: 500, ..TcpHeader::default() };
    Header { key, len: Bytes(1040), tcp: Some(tcp), ..Header::default() }
}

fn main() {
    let packets = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(PACKETS);
    println!("{:>8} {:>16} {:>16} {:>16}", "flows", "nothing ns", "with sight ns", "sight alone ns");
    for flows in [1_u32, 100, 1_000, 10_000, 30_000] {
        let best = |with: bool| (0..3).map(|_| run(flows, packets, with)).fold(f64::INFINITY, f64::min);
        let (without, with) = (best(false), best(true));
        println!("{flows:>8} {without:>16.1} {with:>16.1} {:>16.1}", with - without);
    }
}

/// Nanoseconds a packet.
fn run(flows: u32, segments: u32, with: bool) -> f64 {
    let mut sight = Sight::new(Instant::ZERO, 1);
    let mut sent = vec![0_u32; flows as usize];
    let (mut now, mut x, mut packets) = (Instant::ZERO, 1_u64, 0_u32);
    let mut pass = |sight: &mut Sight, now: Instant, way: Direction, h: &Header| {
        packets += 1;
        if with {
            let mark = sight.arrived(now, way, h, None);
            sight.left(now, way, mark, h);
        } else {
            std::hint::black_box((way, h));
        }
    };
    let start = cpu_time_ns();
    for i in 0..segments {
        // xorshift64
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let n = (x >> 33) as usize % flows as usize;
        // 100 000 packets a second.
        now += Duration::from_micros(10);
        if with {
            sight.tick(now);
        }
        let mut h = header(n as u32);
        if let Some(tcp) = h.tcp.as_mut() {
            tcp.seq = SeqNum(sent[n]);
        }
        sent[n] = sent[n].wrapping_add(1000);
        pass(&mut sight, now, Direction::Down, &h);
        if i % 2 == 0 {
            let ack = TcpHeader { ack: SeqNum(sent[n]), payload: 0, ..h.tcp.unwrap_or_default() };
            pass(&mut sight, now, Direction::Up, &Header { key: h.key.reverse(), tcp: Some(ack), ..h });
        }
    }
    (cpu_time_ns() - start) / f64::from(packets)
}
