//! The discipline that runs live is the one that is replayed and simulated. The same recorded arrivals go through a
//! bare [`Driver`] and through the live box's engine under a scripted clock; both must send the same packets and give
//! the same verdicts, at the same instants, in the same order. (`network/tests.rs` in `narrows-sim` holds the simulator
//! against the same driver.)

use std::convert::Infallible;

use narrows_box::{Engine, LaneSettings, Scripted};
use narrows_qdisc::follow::{Follow, FollowConfig};
use narrows_qdisc::{
    BoxedDiscipline, Direction, Driver, Event, Manage as _, Record, Report, Shaper, ShaperConfig, Spec,
};
use narrows_testing::Rng;
use narrows_units::{Bytes, Duration, Ecn, Instant, Rate, SeqNum};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

type Arrival = (Instant, Direction, Record);
type Log = Vec<(Instant, Event<Record>)>;

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
            // As if what went before had just come: an echo of nothing acknowledges no copy (RFC 7323, section 4).
            timestamps: Some((id as u32, id as u32)),
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

/// Every discipline, with settings that use what it can do.
const SPECS: &[&str] = &[
    "fifo:30",
    "cake:60",
    "cake:40,flows=16,ack_filter=aggressive,isolate=dual_dst",
    "codel:60",
    "drr:40",
    "drr:30,share=hash,buckets=16",
    "fq_codel:60,flows=16",
    "pie:60,target=20ms",
    "red:30",
    "rio:ps,buffer=40",
    "sfq:40",
    "classes",
    "classes:packets=5,mark=on,borrow=on",
    "classes:threshold=auto,split=auto",
    "taq:round_limit_ms=500",
    "taq:round_limit_ms=500,window_clamp=off,memory_packets=60",
    "taq:waiting_syn=drop,round_limit_ms=500",
    "taq:round_limit_ms=500,share=user",
    "taq:mode=paper,p_admit=0.01",
    "taq:mode=paper,p_admit=0.01,waiting_syn=hold",
];

const LINKS: [ShaperConfig; 2] = [
    ShaperConfig { overhead: 14, ..ShaperConfig::new(Rate::from_kbps(600)) },
    ShaperConfig { overhead: 14, ..ShaperConfig::new(Rate::from_kbps(60)) },
];

/// Log of events, and the disciplines' reports at the end.
type Outcome = (Log, [Report; 2]);

/// A bare driver: behind fixed rates, or behind such as are followed.
fn driven(spec: &Spec, follow: Option<FollowConfig>, arrivals: &[Arrival]) -> Outcome {
    let one = |link: ShaperConfig| -> BoxedDiscipline<Record> {
        let inner = spec.build::<Record>(&link, 1);
        match follow {
            Some(config) => Box::new(Follow::new(config, link, spec.clone(), inner, 1)),
            None => Box::new(Shaper::new(link, inner)),
        }
    };
    let mut driver = Driver::new(one(LINKS[0]), one(LINKS[1]));
    let mut log = Log::new();
    let Ok(()) = driver.run(arrivals.iter().copied().map(Ok::<_, Infallible>), |now, event| {
        log.push((now, event));
        Ok(())
    });
    let end = log.last().map_or(Instant::ZERO, |e| e.0);
    (log, Direction::BOTH.map(|d| driver.discipline_mut(d).report(end)))
}

/// The live engine.
fn live(spec: &Spec, follow: Option<FollowConfig>, arrivals: &[Arrival]) -> Outcome {
    let lane = |link| LaneSettings { follow, ..LaneSettings::new(Some(link), spec.clone(), 1) };
    let mut engine = Engine::new(&LINKS.map(lane));
    let mut backend = Scripted::new(arrivals.iter().copied());
    backend.run(&mut engine, Instant::FAR_FUTURE);
    let end = backend.log().last().map_or(Instant::ZERO, |e| e.0);
    (backend.log().to_vec(), Direction::BOTH.map(|d| engine.report(end, d)))
}

/// Asserts that pools had to wait: SYNs refused, or admitted later than they came.
fn admission_was_in_use(spec: &str, [down, up]: &[Report; 2]) {
    let waited =
        |r: &Report| r.admission.as_ref().and_then(|a| a.wait_p99).is_some_and(|w| w > Duration::ZERO);
    let refused = down.counters.refused + up.counters.refused;
    if spec.contains("drop") || (spec.contains("paper") && !spec.contains("hold")) {
        assert!(refused > 0, "{spec}: nobody was refused");
    } else {
        assert!(waited(down) || waited(up), "{spec}: nobody had to wait");
    }
}

#[test]
fn the_box_decides_as_a_bare_driver_does() {
    for name in Spec::NAMES {
        assert!(SPECS.iter().any(|s| s.split(':').next() == Some(name)), "{name} is missing");
    }
    for text in SPECS {
        for (seed, follow) in [(1, None), (0xfeed, None), (7, Some(FollowConfig::default()))] {
            println!("{text} seed {seed}");
            let spec: Spec = text.parse().expect("a spec of this test");
            let arrivals = recording(seed, 6_000);
            let ((a, reports), (b, live_reports)) =
                (driven(&spec, follow, &arrivals), live(&spec, follow, &arrivals));
            assert!(a.len() >= arrivals.len(), "{} events of {} arrivals", a.len(), arrivals.len());
            for (n, (x, y)) in a.iter().zip(&b).enumerate() {
                assert_eq!(x, y, "event {n} differs");
            }
            assert_eq!(a.len(), b.len());
            assert_eq!(reports, live_reports);
            if follow.is_some() {
                let found = |r: &Report| r.follows.is_some_and(|f| f.base.is_some());
                assert!(reports.iter().any(found), "{text}: no rate was followed");
            }
            if spec.name() == "taq" {
                admission_was_in_use(text, &reports);
            }
        }
    }
}
