//! Cost of sight to a packet: a data segment as it comes and leaves, every second one acknowledged the other way,
//! and the look at all connections. `cargo bench -p narrows-box --bench sight [-- PACKETS]`

use narrows_box::{Mark, Sight};
use narrows_qdisc::Direction;
use narrows_testing::cpu_time_ns;
use narrows_units::{Bytes, Duration, Instant, SeqNum};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

const PACKETS: u32 = 2_000_000;
/// Number of packets that come together under load: a batch of the packet sockets.
const TOGETHER: usize = 64;

fn header(flow: u32) -> Header {
    let [_, a, b, c] = flow.to_be_bytes();
    let key = FlowKey::new([192, 0, 2, 1].into(), [10, a, b, c].into(), 80, 40_000, Proto::TCP);
    let tcp = TcpHeader { flags: Flags::ACK, payload: 1000, window: 500, ..TcpHeader::default() };
    Header { key, len: Bytes(1040), tcp: Some(tcp), ..Header::default() }
}

fn main() {
    let packets = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(PACKETS);
    println!("{:>8} {:>12} {:>16} {:>16}", "flows", "nothing ns", "alone ns", "together ns");
    for flows in [1_u32, 100, 1_000, 10_000, 30_000] {
        let best =
            |with: Option<usize>| (0..3).map(|_| run(flows, packets, with)).fold(f64::INFINITY, f64::min);
        let without = best(None);
        let [alone, together] = [1, TOGETHER].map(|n| best(Some(n)) - without);
        println!("{flows:>8} {without:>12.1} {alone:>16.1} {together:>16.1}");
    }
}

/// Time for a packet in nanoseconds, when `flows` flows are known.
fn run(flows: u32, segments: u32, with: Option<usize>) -> f64 {
    let mut sight = Sight::new(Instant::ZERO, 1);
    let mut sent = vec![0_u32; flows as usize];
    let (mut now, mut x, mut packets) = (Instant::ZERO, 1_u64, 0_u32);
    let mut batch = Vec::new();
    let start = cpu_time_ns();
    for i in 0..segments {
        // xorshift64
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let n = (x >> 33) as usize % flows as usize;
        // 100 000 packets a second.
        now += Duration::from_micros(10);
        let mut h = header(n as u32);
        if let Some(tcp) = h.tcp.as_mut() {
            tcp.seq = SeqNum(sent[n]);
        }
        sent[n] = sent[n].wrapping_add(1000);
        batch.push((Direction::Down, h, Mark::default()));
        if i % 2 == 0 {
            let ack = TcpHeader { ack: SeqNum(sent[n]), payload: 0, ..h.tcp.unwrap_or_default() };
            let h = Header { key: h.key.reverse(), tcp: Some(ack), ..h };
            batch.push((Direction::Up, h, Mark::default()));
        }
        if batch.len() >= with.unwrap_or(TOGETHER) {
            packets += batch.len() as u32;
            if with.is_some() {
                pass(&mut sight, now, &mut batch);
            }
            std::hint::black_box(&mut batch).clear();
        }
    }
    (cpu_time_ns() - start) / f64::from(packets)
}

/// Passes packets through sight as the box does.
fn pass(sight: &mut Sight, now: Instant, batch: &mut [(Direction, Header, Mark)]) {
    sight.tick(now);
    batch.iter_mut().for_each(|(way, h, mark)| *mark = sight.place(*way, h));
    batch.iter().for_each(|(.., place)| sight.fetch(*place));
    for (way, h, mark) in batch {
        *mark = sight.arrived_at(*mark, now, *way, h, None);
        sight.left(now, *way, *mark, h);
    }
}
