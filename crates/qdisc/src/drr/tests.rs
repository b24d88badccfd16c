use narrows_units::Rate;

use super::*;
use crate::samples::{dropped, packet_of_flow as packet};
use crate::{Framing, Reason};
use crate::{Record, Spec};

fn link() -> ShaperConfig {
    ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(600)) }
}

fn queue(settings: &str) -> Drr<Record> {
    Drr::new(DrrConfig::read(settings).unwrap(), link(), 1)
}

fn enqueue(q: &mut Drr<Record>, packets: &[(u64, u64)]) -> Vec<(u64, Reason)> {
    let mut v = Verdicts::new();
    packets.iter().for_each(|&(id, len)| q.enqueue(Instant::ZERO, packet(id, len), &mut v));
    dropped(&v)
}

fn serve(q: &mut Drr<Record>) -> Option<u64> {
    q.dequeue(Instant::ZERO, &mut Vec::new()).map(|p| p.id)
}

#[test]
fn the_example_of_figures_1_and_2() {
    // Quantum 500. Queue 1: 200, 750, 20 bytes; queue 2: 500, 500; queue 3: 100, 400, 350; queue 4: 50, 700, 180.
    // First turn of queue 1: 500 - 200 leaves 300, too little for 750. Then queue 2 sends 500, queue 3 100 and 400,
    // queue 4 50 (450 left). Second: queue 1 has 800: 750, 20. Queue 2: 500. Queue 3: 350. Queue 4 has 950: 700, 180.
    let mut q = queue("50,quantum=500");
    let lens = [vec![200, 750, 20], vec![500, 500], vec![100, 400, 350], vec![50, 700, 180]];
    let load: Vec<_> =
        (1..).zip(&lens).flat_map(|(f, l)| (0..).zip(l).map(move |(n, len)| (100 * f + n, *len))).collect();
    enqueue(&mut q, &load);
    assert_eq!(serve(&mut q), Some(100));
    assert_eq!(serve(&mut q), Some(200));
    // Figure 2: after its first turn queue 1 has a deficit of 300, and 500 of the next round, which the scheduler adds
    // as a turn ends; queue 2, still in its turn, has 0.
    let lane = |q: &mut Drr<Record>, flow: u64| q.queues.classifier.lane(&packet(100 * flow, 1).header.key);
    let (one, two) = (lane(&mut q, 1), lane(&mut q, 2));
    assert_eq!((q.queues.lanes.deficit(one), q.queues.lanes.deficit(two)), (300 + 500, 0));
    let rest: Vec<_> = core::iter::from_fn(|| serve(&mut q)).collect();
    assert_eq!(rest, [300, 301, 400, 101, 102, 201, 302, 401, 402]);
}

#[test]
fn an_empty_queue_forgets_its_deficit() {
    let mut q = queue("50,quantum=1000");
    enqueue(&mut q, &[(100, 100), (200, 1000)]);
    assert_eq!((serve(&mut q), serve(&mut q)), (Some(100), Some(200)));
    // A queue that has gone empty keeps none of the 900 bytes left over: 1100 take two turns.
    enqueue(&mut q, &[(101, 1100), (201, 1000)]);
    assert_eq!((serve(&mut q), serve(&mut q)), (Some(201), Some(101)));
}

#[test]
fn bytes_are_shared_evenly_whatever_the_packets() {
    // Flow 1 in packets of 1500 B, flow 2 of 100, flow 3 of 700: all backlogged for 60 000 B.
    let mut q = queue("1000,quantum=1500");
    let of = |flow: u64, len: u64| (0..60_000 / len).map(move |n| (1000 * flow + n, len));
    let mut v = Verdicts::new();
    for (id, len) in of(1, 1500).chain(of(2, 100)).chain(of(3, 700)) {
        let mut p = packet(0, len);
        p.id = id;
        p.header.key.dport = (id / 1000) as u16;
        q.enqueue(Instant::ZERO, p, &mut v);
    }
    let mut sent = [0i64; 4];
    // While all three are backlogged, none is ahead by more than a quantum and a packet (paper, lemma 3: FM < Quantum +
    // 2 Max).
    for _ in 0..400 {
        let p = q.dequeue(Instant::ZERO, &mut v).unwrap();
        sent[(p.id / 1000) as usize] += p.header.len.get().cast_signed();
        let (least, most) = (sent[1].min(sent[2]).min(sent[3]), sent[1].max(sent[2]).max(sent[3]));
        assert!(most - least < 1500 + 2 * 1500, "{sent:?}");
    }
    assert!(v.is_empty() && sent.iter().sum::<i64>() > 90_000);
}

#[test]
fn the_queue_with_most_bytes_pays() {
    let mut q = queue("4");
    // Flow 1 has the most packets, flow 2 the most bytes.
    enqueue(&mut q, &[(100, 100), (101, 100), (102, 100), (200, 1500)]);
    assert_eq!(enqueue(&mut q, &[(300, 100)]), [(200, Reason::PushedOut)]);
    assert_eq!(enqueue(&mut q, &[(103, 100)]), [(103, Reason::OverLimit)]);
}

#[test]
fn the_longest_pays_also_where_packets_are_larger_than_said() {
    // The buffer is sized for four packets of 64 B, but these have 1500 and 400.
    let mut q = queue("4,packet=64");
    enqueue(&mut q, &[(100, 1500), (200, 400), (300, 400), (400, 400)]);
    assert_eq!(enqueue(&mut q, &[(500, 400)]), [(100, Reason::PushedOut)]);
}

#[test]
fn a_turn_is_worth_the_largest_packet_with_its_framing() {
    // 1500 B and 14 of overhead are 32 ATM cells of 53 bytes.
    let link = ShaperConfig { overhead: 14, framing: Framing::Atm, mtu: Bytes(1514), ..link() };
    assert_eq!(Drr::<Record>::new(DrrConfig::default(), link, 1).quantum, 32 * 53);
}

#[test]
fn flows_share_no_queue_but_with_hash() {
    let mut exact = queue("64");
    let mut hashed = queue("64,share=hash,buckets=2");
    let load: Vec<_> = (1..=20).map(|f| (100 * f, 99)).collect();
    enqueue(&mut exact, &load);
    enqueue(&mut hashed, &load);
    assert_eq!((exact.queues.lanes.active(), hashed.queues.lanes.active()), (20, 2));
}

#[test]
fn a_flood_of_flows_at_a_full_buffer_takes_no_memory() {
    let mut q = queue("10");
    for n in 0..1000 {
        enqueue(&mut q, &[(100 * n, 40 + n % 1460)]);
        assert!(q.queues.lanes.active() <= 10);
    }
    assert_eq!(core::iter::from_fn(|| serve(&mut q)).count(), 10);
}

#[test]
fn settings_that_make_no_sense() {
    assert_eq!(DrrConfig::read("quantum=100").unwrap_err().key, "quantum");
    assert_eq!(DrrConfig::read("share=host").unwrap_err().key, "share");
}

#[test]
fn new_settings_keep_what_waits() {
    let mut q = queue("20");
    enqueue(&mut q, &[(100, 9), (200, 9), (300, 9), (400, 9)]);
    let spec = |text: &str| text.parse::<Spec>().unwrap();
    assert!(q.reconfigure(Instant::ZERO, spec("drr:2").settings(), &link()));
    assert_eq!(q.backlog().packets, 4);
    assert_eq!(enqueue(&mut q, &[(500, 9)]).len(), 3);
    assert_eq!((serve(&mut q).is_some(), serve(&mut q).is_some(), serve(&mut q)), (true, true, None));
}
