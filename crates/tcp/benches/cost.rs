//! Measures the time of one segment at both ends together: sent, received, acknowledged, and the ACK taken. `cargo
//! bench -p narrows-tcp`
//!
//! A window of segments goes round between two ends; one in so many is lost, at random.

use std::collections::VecDeque;

use narrows_tcp::{Config, Endpoint, Io, Preset, Recovery, Segment, TcpEvent};
use narrows_testing::cpu_time_ns;
use narrows_units::{Duration, Instant, SeqNum};

const SEGMENTS: u64 = 3_000_000;

/// The path: segments wait in the pipe until they are due.
#[derive(Default)]
struct Pipe {
    waiting: VecDeque<(Instant, Segment)>,
    now: Instant,
}

impl Io for Pipe {
    fn transmit(&mut self, segment: &Segment) {
        self.waiting.push_back((self.now + Duration::from_millis(50), *segment));
    }
    fn event(&mut self, _: TcpEvent) {}
}

/// Nanoseconds per data segment sent, and segments sent again.
fn run(config: &Config, loss: f64) -> (f64, u32) {
    let mut ends = [Endpoint::new(config, SeqNum(1)), Endpoint::new(config, SeqNum(1))];
    let mut pipes = [Pipe::default(), Pipe::default()];
    let mut random = fastrand::Rng::with_seed(1);
    let start = cpu_time_ns();
    ends[0].open(config, Instant::ZERO, &mut pipes[0]);
    ends[0].write(config, Instant::ZERO, u64::MAX, &mut pipes[0]);
    while ends[0].counters().data_sent < SEGMENTS {
        let arrival = |pipe: &Pipe| pipe.waiting.front().map_or(Instant::FAR_FUTURE, |w| w.0);
        let side = usize::from(arrival(&pipes[0]) > arrival(&pipes[1]));
        let to = 1 - side;
        let at = arrival(&pipes[side]);
        let wake = |end: &Endpoint| end.next_wake().unwrap_or(Instant::FAR_FUTURE);
        let first = usize::from(wake(&ends[0]) > wake(&ends[1]));
        if wake(&ends[first]) < at {
            pipes[first].now = wake(&ends[first]);
            ends[first].wake(config, pipes[first].now, &mut pipes[first]);
            continue;
        }
        let Some((at, segment)) = pipes[side].waiting.pop_front() else { continue };
        if segment.tcp.payload > 0 && random.f64() < loss {
            continue;
        }
        pipes[to].now = at;
        ends[to].receive(config, at, &segment.tcp, segment.ecn, &mut pipes[to]);
    }
    ((cpu_time_ns() - start) / SEGMENTS as f64, ends[0].counters().retransmitted)
}

fn main() {
    println!("bytes per end: {}", size_of::<Endpoint>());
    println!("{:>16} {:>8} {:>8} {:>12} {:>10}", "", "window", "loss", "ns/segment", "again");
    let base = |preset| Config { mss: 1000, ..Config::preset(preset) };
    for (name, config) in [
        ("ns2 newreno", base(Preset::Ns2)),
        ("ns2 sack", Config { recovery: Recovery::Sack, ..base(Preset::Ns2) }),
        ("rfc", base(Preset::Rfc)),
        ("linux", base(Preset::Linux)),
    ] {
        for (window, loss) in [(20, 0.0), (1000, 0.0), (1000, 0.001), (1000, 0.02), (20, 0.1)] {
            let config = Config { receive_window: window * 1000, ..config };
            let best = (0..3).map(|_| run(&config, loss)).reduce(|a, b| if a.0 < b.0 { a } else { b });
            let (ns, again) = best.unwrap_or_default();
            println!("{name:>16} {window:>8} {loss:>8} {ns:>12.1} {again:>10}");
        }
    }
}
