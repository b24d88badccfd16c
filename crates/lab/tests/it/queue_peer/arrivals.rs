//! Arrivals for comparing our disciplines with others, what ours make of them, and how alike two outcomes are. Shared
//! with `xtask`, which asks ns-3 the same.

use std::time::Duration;

use narrows_qdisc::{Qdisc, Record, Shaper, ShaperConfig, Spec, Verdict};
use narrows_units::{Bytes, Instant, Rate};
use narrows_wire::{FlowKey, Proto};

/// A packet of 1014 bytes on the wire takes 8 ms.
pub const RATE: Rate = Rate::from_kbps(1014);
pub const RUN: Duration = Duration::from_secs(5);
/// Flows: bytes of an IP packet, and milliseconds between two. Together twice the rate, the last alone a tenth of it.
pub const FLOWS: [(usize, u64); 4] = [(1000, 8), (1000, 12), (500, 12), (200, 16)];
/// The user each flow goes to, 10.78.0.x: for disciplines that are fair to hosts. All come from 10.78.0.2.
pub const USERS: [u8; FLOWS.len()] = [1, 3, 3, 3];

/// One packet: its flow, its number in it, and when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub flow: usize,
    pub number: u32,
    pub at: Duration,
}

/// When each flow means to send, in order.
pub fn plan() -> Vec<(Duration, usize)> {
    let mut all: Vec<_> = FLOWS
        .iter()
        .enumerate()
        .flat_map(|(flow, &(_, gap_ms))| {
            // Each starts at another phase, so that no two mean the same instant.
            (0..RUN.as_millis() as u64 / gap_ms)
                .map(move |n| (Duration::from_micros(1000 * n * gap_ms + 700 * flow as u64), flow))
        })
        .collect();
    all.sort_unstable();
    all
}

/// The flows of [`plan`], each packet up to 6 ms later. The first flow's 8 ms are also what the link takes for a
/// packet: without the scatter the same packets meet an empty queue each time, where the clock is exact.
#[allow(dead_code, reason = "xtask does not ask ns-3 this")]
pub fn scattered() -> Vec<(Duration, usize)> {
    let later = |n: usize| Duration::from_micros(u64::from((n as u32).wrapping_mul(0x9E37_79B1) >> 8) % 6000);
    let mut all: Vec<_> =
        plan().into_iter().enumerate().map(|(n, (due, flow))| (due + later(n), flow)).collect();
    all.sort_unstable();
    all
}

/// Flows that have little and often nothing waiting: three packets each at a time, every half second, together one and
/// a half times the rate. Flow n has the packets and the user of flow n modulo 4.
#[allow(dead_code, reason = "xtask does not ask ns-3 this")]
pub fn bursts() -> Vec<(Duration, usize)> {
    const BURSTING: usize = 48;
    let mut all: Vec<_> = (0..BURSTING)
        .flat_map(|flow| {
            (0..RUN.as_millis() as u64 / 500).flat_map(move |n| {
                (0..3)
                    .map(move |k| (Duration::from_micros(500_000 * n + 10_300 * flow as u64 + 200 * k), flow))
            })
        })
        .collect();
    all.sort_unstable();
    all
}

/// Two halves of 64 flows by turns: six packets of each flow of a half at once, which are a second and a tenth of the
/// link, and a second later the other half's. Even the first of them wait long, and one half is away while the other is
/// served.
#[allow(dead_code, reason = "xtask does not ask ns-3 this")]
pub fn waves() -> Vec<(Duration, usize)> {
    const HALF: u64 = 32;
    let wave = |n: u64| {
        (0..6 * HALF).map(move |k| {
            (Duration::from_micros(1_000_000 * n + 100 * k), (n % 2 * HALF + k % HALF) as usize)
        })
    };
    (0..6).flat_map(wave).collect()
}

/// One flow that fills the link, and twenty with a small packet each half second.
#[allow(dead_code, reason = "xtask does not ask ns-3 this")]
pub fn trickles() -> Vec<(Duration, usize)> {
    let flood = (0..830).map(|n| (Duration::from_micros(6000 * n), 0));
    let small = (0..10).flat_map(|n| {
        (0..20).map(move |flow| {
            (Duration::from_micros(500_000 * n + 24_700 * flow + 300), 4 * flow as usize + 3)
        })
    });
    let mut all: Vec<_> = flood.chain(small).collect();
    all.sort_unstable();
    all
}

/// The kind of a flow: place in [`FLOWS`] and [`USERS`].
pub const fn like(flow: usize) -> usize {
    flow % FLOWS.len()
}

/// Runs our discipline on the same arrivals; returns the packets that leave, in order.
pub fn ours(spec: &str, overhead: u32, seed: u64, sent: &[Sent]) -> Vec<(usize, u32)> {
    let link = ShaperConfig { overhead, ..ShaperConfig::new(RATE) };
    through(link, spec.parse::<Spec>().expect("the callers name disciplines").build(&link, seed), sent)
}

/// The arrivals through `inner`, at the rate of `link`: what leaves, in order.
pub fn through(link: ShaperConfig, inner: impl Qdisc<Record>, sent: &[Sent]) -> Vec<(usize, u32)> {
    let mut q = Shaper::new(link, inner);
    let (mut left, mut verdicts) = (Vec::new(), Vec::<Verdict<Record>>::new());
    let instant = |at: Duration| Instant::from_nanos(1_000_000_000 + at.as_nanos() as u64);
    let mut now = Instant::ZERO;
    let mut arrivals = sent.iter().peekable();
    loop {
        let wake = q.next_ready(now).map(|t| t.max(now));
        match (arrivals.peek().map(|s| instant(s.at)), wake) {
            (Some(a), w) if w.is_none_or(|w| a <= w) => {
                now = now.max(a);
                if let Some(s) = arrivals.next() {
                    let mut r = Record { id: u64::from(s.number) << 8 | s.flow as u64, ..Record::default() };
                    let (src, dst) = ([10, 78, 0, 2].into(), [10, 78, 0, USERS[like(s.flow)]].into());
                    r.header.key = FlowKey::new(src, dst, 40_000 + s.flow as u16, 9000, Proto::UDP);
                    r.header.len = Bytes(FLOWS[like(s.flow)].0 as u64);
                    q.enqueue(now, r, &mut verdicts);
                }
            }
            (_, Some(w)) => now = w,
            (_, None) => return left,
        }
        while let Some(p) = q.dequeue(now, &mut verdicts) {
            left.push(((p.id & 0xff) as usize, (p.id >> 8) as u32));
        }
    }
}

/// Length of the longest sequence of flows that both served in this order, as a part of the longer.
pub fn agreement(a: &[(usize, u32)], b: &[(usize, u32)]) -> f64 {
    let mut row = vec![0usize; b.len() + 1];
    for x in a {
        let mut diagonal = 0;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if x.0 == y.0 { diagonal + 1 } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    row[b.len()] as f64 / a.len().max(b.len()).max(1) as f64
}

/// How many of each kind of flow.
pub fn by_flow(served: &[(usize, u32)]) -> [usize; FLOWS.len()] {
    core::array::from_fn(|at| served.iter().filter(|(f, _)| like(*f) == at).count())
}
