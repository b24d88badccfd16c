//! One flow of each stack through a bottleneck, the window in whole packets: small enough to read, and pinned.
//!
//! 1 Mbit/s, 100 ms, packets of 1000 B (8 ms each), a tail-drop buffer of 12 packets beside the one in service. The
//! bandwidth-delay product is 13 packets, so a window of 26 is where a packet is dropped.

use core::fmt::Write as _;
use std::path::Path as File;

use crate::common::{Act, SegmentFate, Side, Wire, WirePath};
use narrows_tcp::{Config, RtoRecovery, RttSampling, Segment, TcpEvent};
use narrows_units::{Bytes, Duration, Instant, Rate};

const RATE: Rate = Rate::from_kbps(1000);
const BUFFER: u64 = 12;
const STACKS: [(&str, &str); 6] = [
    ("ns2", "ns2:mss=960,receive_window=960000"),
    ("ns2 sack", "ns2:mss=960,receive_window=960000,recovery=sack"),
    ("ns3", "ns3:mss=960"),
    ("rfc", "rfc:mss=960"),
    ("linux", "linux:mss=960"),
    ("linux reno", "linux:mss=960,congestion=reno,startup=slow_start"),
];
const SAMPLES: u64 = 75;
const STEP: Duration = Duration::from_millis(200);

/// A link with a buffer: a packet waits for those before it, or finds no place.
fn bottleneck() -> impl FnMut(Side, Instant, &Segment) -> SegmentFate {
    let mut free_at = Instant::ZERO;
    move |side, now, segment| {
        if side == Side::B {
            return SegmentFate::Pass;
        }
        let time = RATE.time_to_send(Bytes(u64::from(segment.tcp.payload + 40)));
        if free_at.since(now) > RATE.time_to_send(Bytes(1000)) * BUFFER {
            return SegmentFate::Drop;
        }
        free_at = (if free_at < now { now } else { free_at }) + time;
        SegmentFate::Late(free_at.since(now))
    }
}

/// Runs a stack for 15 s; the picture of its window.
fn picture(name: &str, settings: &str) -> String {
    let config: Config = settings.parse().expect("settings of a test");
    let mut wire = Wire::new(config, WirePath::delay_ms(50), bottleneck());
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(u64::MAX));
    let (mut text, mut seen) = (String::new(), 0);
    for sample in 0..SAMPLES {
        wire.run_until(Instant::ZERO + STEP * (sample + 1));
        let now: Vec<_> = wire.events[seen..].iter().filter(|e| e.1 == Side::A).map(|e| e.2).collect();
        seen = wire.events.len();
        let mark = if now.iter().any(|e| matches!(e, TcpEvent::Timeout { .. })) {
            'T'
        } else if now.contains(&TcpEvent::FastRetransmit) {
            '*'
        } else {
            ' '
        };
        let _ = write!(text, "{:>4}{mark}", wire.ends[0].cwnd() as u32);
        if (sample + 1) % 15 == 0 {
            text.push('\n');
        }
    }
    check(name, &config, &wire);
    let counters = wire.ends[0].counters();
    format!(
        "{name}: {} packets delivered, {} sent again, {} timeouts\n{text}\n",
        wire.delivered(Side::B) / u64::from(config.mss),
        counters.retransmitted,
        counters.timeouts
    )
}

/// Checks the bounds that every picture must keep.
fn check(name: &str, config: &Config, wire: &Wire<'_>) {
    let total = RATE.bytes_in(STEP * SAMPLES).get() / 1000;
    let delivered = wire.delivered(Side::B) / u64::from(config.mss);
    assert!(delivered <= total, "{name}: {delivered} of {total} packets: more than the link carries");
    // A loss leaves at least half of 26, which is the path's product: the link stays busy but for start-up and
    // recoveries.
    assert!(delivered * 100 >= total * 85, "{name}: {delivered} of {total} packets");
    for event in &wire.events {
        if let (Side::A, TcpEvent::RttSample(rtt)) = (event.1, event.2) {
            // 100 ms there and back and 8 ms on the link at least; at most 13 packets before it besides, and an ACK
            // delayed.
            let delay = config.delayed_ack.map_or(Duration::ZERO, |d| d.timeout);
            // Timestamps count whole milliseconds. One timed segment may wait behind a hole until that is repaired.
            let hole = match config.rtt_sampling {
                RttSampling::OneAtATime => Duration::from_millis(2 * (100 + 13 * 8)),
                RttSampling::EverySegment | RttSampling::EveryAck => Duration::ZERO,
            };
            let (low, high) =
                (Duration::from_millis(100), Duration::from_millis(100 + 14 * 8) + delay + hole);
            assert!((low..=high).contains(&rtt), "{name}: a round trip of {rtt}");
        }
    }
    let lost = wire.log.iter().filter(|s| s.fate == SegmentFate::Drop).count();
    let again = wire.ends[0].counters().retransmitted as usize;
    let found = wire
        .log
        .iter()
        .filter(|s| s.fate == SegmentFate::Drop && s.at + Duration::from_secs(1) < wire.now)
        .count();
    // Each loss is repaired once, the last ones perhaps not yet, but for a probe or two; going back repeats what had
    // arrived.
    let needless = if config.rto_recovery == RtoRecovery::GoBackN { lost } else { 2 };
    assert!(again >= found && again <= lost + needless, "{name}: {lost} lost, {again} sent again");
}

#[test]
fn windows() {
    let path = File::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/windows.txt");
    let head = "cwnd in whole packets every 200 ms; * a loss was found, T a timeout. \
         1 Mbit/s, 100 ms, 1000 B, 12 packets.\n\n";
    let text = STACKS.iter().fold(head.to_owned(), |text, (name, settings)| text + &picture(name, settings));
    if std::env::var_os("NARROWS_WRITE").is_some() {
        std::fs::write(&path, &text).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == golden,
        "not as in {}; NARROWS_WRITE=1 cargo test -p narrows-tcp --test it golden writes what is below, \
         if it is right:\n{text}",
        path.display()
    );
}
