//! The house's promise: the discipline that runs live is the one that is simulated. The same recorded arrivals go through
//! a bare event loop (as a simulator has it) and through the live box's engine under a scripted clock; both must send the
//! same packets and give the same verdicts, at the same instants, in the same order.

use std::collections::VecDeque;

use narrows_box::{Engine, LaneSettings, Scripted};
use narrows_qdisc::{Direction, Duplex, Event, Fifo, Limit, Qdisc, Record, Shaper, ShaperConfig, Spec};
use narrows_units::{Bytes, Ecn, Instant, Rate, SeqNum};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

type Arrival = (Instant, Direction, Record);
type Log = Vec<(Instant, Event<Record>)>;

/// xorshift64*: enough to make traffic, and ours to repeat.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}

fn key(user: u64) -> FlowKey {
    FlowKey::new([10, 0, 1, 1].into(), [10, 0, (user >> 8) as u8, user as u8].into(), 80, 40_000, Proto::TCP)
}

fn segment(id: u64, key: FlowKey, ecn: Ecn, tcp: TcpHeader) -> Record {
    let header =
        Header { key, len: Bytes(u64::from(tcp.payload) + 52), ecn, tcp: Some(tcp), ..Header::default() };
    Record { id, header }
}

/// Downloads of 300 users: handshakes, data, copies, acknowledgments, FINs, some ECN, some UDP.
fn recording(seed: u64, packets: u64) -> Vec<Arrival> {
    let mut rng = Rng(seed);
    let (mut now, mut sent) = (1_000_000_000, vec![0u32; 300]);
    let mut out = Vec::new();
    for id in 0..packets {
        now += rng.below(20_000_000);
        let user = rng.below(300);
        let (down, up) = (key(user), key(user).reverse());
        let next = &mut sent[user as usize];
        let ecn = if user.is_multiple_of(5) { Ecn::Ect0 } else { Ecn::NotEct };
        let seq = |n: u32| SeqNum(1001 + n * 1448);
        let base = TcpHeader {
            flags: Flags::ACK,
            window: 501,
            timestamps: Some((id as u32, 0)),
            ..TcpHeader::default()
        };
        let (direction, tcp) = match (*next, rng.below(10)) {
            (0, _) => {
                *next = 1;
                let syn = TcpHeader { flags: Flags::SYN, window_scale: Some(7), mss: Some(1460), ..base };
                (Direction::Up, syn)
            }
            (1, _) => {
                *next = 2;
                let flags = Flags::SYN.and(Flags::ACK);
                (
                    Direction::Down,
                    TcpHeader { flags, seq: SeqNum(1000), ack: SeqNum(1), window_scale: Some(7), ..base },
                )
            }
            (n, 0..=5) => {
                *next = n + 1;
                (Direction::Down, TcpHeader { seq: seq(n - 2), ack: SeqNum(1), payload: 1448, ..base })
            }
            (n, 6..=7) if n > 3 => {
                let again = n - 3 - (rng.below(u64::from(n - 2)) as u32).min(n - 3);
                (Direction::Down, TcpHeader { seq: seq(again), ack: SeqNum(1), payload: 1448, ..base })
            }
            (n, 8) if n > 12 => {
                *next = 0;
                (Direction::Down, TcpHeader { flags: Flags::FIN.and(Flags::ACK), seq: seq(n - 2), ..base })
            }
            (n, _) => (Direction::Up, TcpHeader { seq: SeqNum(1), ack: seq(n.saturating_sub(3)), ..base }),
        };
        let key = if direction == Direction::Down { down } else { up };
        let mut record = segment(id, key, ecn, tcp);
        if user.is_multiple_of(37) && direction == Direction::Down {
            record.header.key.proto = Proto::UDP;
            record.header.tcp = None;
        }
        out.push((Instant::from_nanos(now), direction, record));
    }
    out
}

const LINK: ShaperConfig = ShaperConfig { overhead: 14, ..ShaperConfig::new(Rate::from_kbps(600)) };

/// A bare event loop.
fn simulated(spec: &Spec, arrivals: &[Arrival]) -> Log {
    let down: Box<dyn Qdisc<Record>> = Box::new(Shaper::new(LINK, spec.build::<Record>(&LINK, 1)));
    let up: Box<dyn Qdisc<Record>> = Box::new(Fifo::new(Limit::Packets(usize::MAX)));
    let mut duplex = Duplex::new(down, up);
    let (mut queue, mut log, mut events) = (VecDeque::from(arrivals.to_vec()), Log::new(), Vec::new());
    let mut wake: Option<Instant> = None;
    let mut now = Instant::ZERO;
    while let Some(next) = [queue.front().map(|a| a.0), wake].into_iter().flatten().min() {
        now = now.max(next);
        while queue.front().is_some_and(|a| a.0 <= now) {
            let Some((_, direction, packet)) = queue.pop_front() else { break };
            duplex.arrive(now, direction, packet, &mut events);
            duplex.serve(now, &mut events);
        }
        duplex.serve(now, &mut events);
        log.extend(events.drain(..).map(|e| (now, e)));
        wake = duplex.next_ready(now);
    }
    log
}

/// The live engine.
fn live(spec: &Spec, arrivals: &[Arrival]) -> Log {
    let open = LaneSettings::new(None, Spec::Fifo(Limit::Packets(1000)), 1);
    let mut engine = Engine::new(&[LaneSettings::new(Some(LINK), spec.clone(), 1), open]);
    let mut backend = Scripted::new(arrivals.iter().copied());
    let mut wake = None;
    let mut now = Instant::ZERO;
    while let Some(next) = [backend.next_arrival(), wake].into_iter().flatten().min() {
        now = now.max(next);
        wake = engine.step(now, &mut backend).expect("a script has no input or output to fail").next;
    }
    backend.log().to_vec()
}

#[test]
fn the_box_decides_as_the_simulator_does() {
    for spec in [
        "fifo:30",
        "classes",
        "classes:packets=5,mark=on,borrow=on",
        "classes:threshold=auto,split=auto",
        "taq",
        "taq:window_clamp=off,memory_packets=60",
        "taq:mode=paper",
        "taq:share=pool",
    ] {
        for seed in [1, 0xfeed, 20_261_120] {
            println!("{spec} seed {seed}");
            let spec: Spec = spec.parse().expect("a spec of this test");
            let arrivals = recording(seed, 6_000);
            let (a, b) = (simulated(&spec, &arrivals), live(&spec, &arrivals));
            assert!(a.len() >= arrivals.len(), "{} events of {} arrivals", a.len(), arrivals.len());
            for (n, (x, y)) in a.iter().zip(&b).enumerate() {
                assert_eq!(x, y, "event {n} differs");
            }
            assert_eq!(a.len(), b.len());
        }
    }
}
