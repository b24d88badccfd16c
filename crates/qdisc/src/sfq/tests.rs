use narrows_units::Rate;

use super::*;
use crate::Reason;
use crate::samples::{dropped, packet_of_flow as packet};
use crate::{Record, Spec};

fn link() -> ShaperConfig {
    ShaperConfig::new(Rate::from_kbps(600))
}

fn queue(settings: &str) -> Sfq<Record> {
    Sfq::new(SfqConfig::read(settings).unwrap(), link(), 1)
}

fn enqueue(q: &mut Sfq<Record>, at: Instant, packets: &[(u64, u64)]) -> Vec<(u64, Reason)> {
    let mut v = Verdicts::new();
    packets.iter().for_each(|&(id, len)| q.enqueue(at, packet(id, len), &mut v));
    dropped(&v)
}

fn served(q: &mut Sfq<Record>) -> Vec<u64> {
    core::iter::from_fn(|| q.dequeue(Instant::ZERO, &mut Vec::new())).map(|p| p.id).collect()
}

#[test]
fn one_packet_of_each_flow_in_turn() {
    let mut q = queue("50");
    enqueue(&mut q, Instant::ZERO, &[(100, 99), (101, 99), (102, 99), (200, 1500), (201, 1500), (300, 40)]);
    assert_eq!(served(&mut q), [100, 200, 300, 101, 201, 102]);
}

#[test]
fn a_new_flow_waits_for_one_packet_of_each_other() {
    let mut q = queue("50");
    enqueue(&mut q, Instant::ZERO, &[(100, 99), (101, 99), (102, 99), (200, 99), (201, 99)]);
    assert_eq!(q.dequeue(Instant::ZERO, &mut Vec::new()).map(|p| p.id), Some(100));
    enqueue(&mut q, Instant::ZERO, &[(300, 99)]);
    assert_eq!(served(&mut q), [200, 101, 300, 201, 102]);
}

#[test]
fn turns_in_bytes_run_into_debt_and_pay_it() {
    // Flow 1 sends 1000 B, flow 2 400 B, turns of 1000 B. Credit after each packet:
    // 100: 0; so flow 2: 200: 600, 201: 200, 202: -200; flow 1: 101: 0; flow 2 (800): 203: 400, 204: 0; 102.
    let mut q = queue("50,quantum=1000");
    let flow_1 = [(100, 1000), (101, 1000), (102, 1000)];
    let flow_2 = [(200, 400), (201, 400), (202, 400), (203, 400), (204, 400), (205, 400)];
    enqueue(&mut q, Instant::ZERO, &[&flow_1[..], &flow_2[..]].concat());
    assert_eq!(served(&mut q), [100, 200, 201, 202, 101, 203, 204, 102, 205]);
    // A packet larger than many turns: it goes, and then its flow is passed over.
    let mut q = queue("50,quantum=300");
    enqueue(
        &mut q,
        Instant::ZERO,
        &[(100, 1050), (101, 300), (200, 300), (201, 300), (202, 300), (203, 300)],
    );
    assert_eq!(served(&mut q), [100, 200, 201, 202, 101, 203]);
    // Turns of a byte would go round thousands of times for one packet.
    assert_eq!(SfqConfig::read("quantum=255").unwrap_err().key, "quantum");
    assert!(SfqConfig::read("quantum=256").is_ok() && SfqConfig::read("quantum=0").is_ok());
}

#[test]
fn the_longest_bucket_pays_with_its_last_packet() {
    let mut q = queue("4");
    assert_eq!(enqueue(&mut q, Instant::ZERO, &[(100, 9), (101, 9), (102, 9), (200, 9)]), []);
    // Flow 3 comes to a full buffer: flow 1, with three packets, loses its third.
    assert_eq!(enqueue(&mut q, Instant::ZERO, &[(300, 9)]), [(102, Reason::PushedOut)]);
    // Flow 2's second makes it as long as flow 1, and later: itself.
    assert_eq!(enqueue(&mut q, Instant::ZERO, &[(201, 9)]), [(201, Reason::OverLimit)]);
    assert_eq!(served(&mut q), [100, 200, 300, 101]);
}

#[test]
fn who_meets_in_one_bucket_shares_it_until_the_hash_changes() {
    // Two buckets, three flows: some share.
    let mut q = queue("60,buckets=2,perturb=10s");
    let load: Vec<_> = (1..=3).flat_map(|f| (0..10).map(move |n| (100 * f + n, 99))).collect();
    enqueue(&mut q, Instant::ZERO, &load);
    assert_eq!(q.queues.lanes.active(), 2);
    let mut apart = [false; 2];
    for change in 1..20 {
        // One packet of a flow already there makes the hash change; nothing is lost, and each flow stays in order.
        let at = Instant::ZERO + Duration::from_secs(10 * change + change);
        enqueue(&mut q, at, &[(100 + 9 + change, 99)]);
        let of = |q: &mut Sfq<Record>, flow| q.queues.classifier.lane(&packet(flow, 1).header.key);
        let [a, b, c] = [100, 200, 300].map(|f| of(&mut q, f));
        apart[usize::from(a == b || b == c)] = true;
        let shared: usize = (0..2).map(|lane| q.queues.lanes.backlog_of(lane).packets).sum();
        assert_eq!(shared, 30 + change as usize, "{a} {b} {c}");
    }
    assert_eq!(apart, [true; 2], "who meets whom changes");
    let order = served(&mut q);
    for flow in 1..=3 {
        let own: Vec<_> = order.iter().filter(|&&id| id / 100 == flow).collect();
        assert!(own.is_sorted(), "{own:?}");
    }
}

#[test]
fn new_settings_keep_what_waits() {
    let mut q = queue("20");
    enqueue(&mut q, Instant::ZERO, &[(100, 9), (101, 9), (200, 9), (300, 9)]);
    let spec = |text: &str| text.parse::<Spec>().unwrap();
    assert!(q.reconfigure(Instant::ZERO, spec("sfq:3,buckets=7,quantum=1500").settings(), &link()));
    assert_eq!(q.backlog().packets, 4);
    // The next arrival finds the limit of three: two go.
    assert_eq!(enqueue(&mut q, Instant::ZERO, &[(200, 9)]).len(), 2);
    assert!(!q.reconfigure(Instant::ZERO, spec("fifo:3").settings(), &link()));
}
