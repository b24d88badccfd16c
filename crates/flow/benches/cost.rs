//! Measures the time to follow flows, per packet: tick, arrival, queueing and departure of a data segment, and every
//! second packet an ACK the other way. `cargo bench -p narrows-flow`

use std::hint::black_box;

use narrows_flow::{Tracker, TrackerConfig};
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

/// Nanoseconds per packet of `work`, the best of three.
fn time(mut work: impl FnMut()) -> f64 {
    (0..3)
        .map(|_| {
            let start = cpu_time_ns();
            work();
            (cpu_time_ns() - start) / f64::from(PACKETS)
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() {
    println!("bytes per flow: {}", Tracker::BYTES_PER_FLOW);
    println!("{:>8} {:>12} {:>14} {:>14}", "flows", "lookup ns", "forward ns", "with ACKs ns");
    for flows in [100u32, 10_000, 50_000] {
        let headers: Vec<Header> = (0..flows).map(header).collect();
        let mut sent = vec![0u32; flows as usize];
        let mut tracker = Tracker::new(TrackerConfig::default(), 1);
        let mut now = Instant::ZERO;
        let mut x = 1u64;
        let mut next = move || {
            // xorshift64
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 33) as usize % flows as usize
        };
        let mut run = |tracker: &mut Tracker, acks: bool| {
            for i in 0..PACKETS {
                let n = next();
                // 100 000 packets a second.
                now += Duration::from_micros(10);
                // A packet has just been read: its header is in the cache.
                let mut h = header(n as u32);
                if let Some(tcp) = h.tcp.as_mut() {
                    tcp.seq = SeqNum(sent[n]);
                }
                sent[n] = sent[n].wrapping_add(1000);
                tracker.tick(now);
                let Some(id) = tracker.forward(now, &h).id else { continue };
                tracker.queued(id);
                tracker.departed(now, id, &h);
                tracker.unqueued(id);
                if acks && i % 2 == 0 {
                    let ack = TcpHeader { ack: SeqNum(sent[n]), payload: 0, ..h.tcp.unwrap_or_default() };
                    tracker.reverse(now, &Header { key: h.key.reverse(), tcp: Some(ack), ..h });
                }
            }
        };
        let forward = time(|| run(&mut tracker, false));
        let with_acks = time(|| run(&mut tracker, true));
        let lookup = time(|| {
            for i in 0..PACKETS {
                let n = (i.wrapping_mul(2_654_435_761) % flows) as usize;
                black_box(tracker.lookup(black_box(&headers[n].key)));
            }
        });
        println!("{flows:>8} {lookup:>12.0} {forward:>14.0} {with_acks:>14.0}");
    }
}
