use core::net::IpAddr;

use narrows_units::{Bytes, Ecn, Rate};
use narrows_wire::{FlowKey, Proto};

use super::*;

use crate::{Record, Spec, Verdict};

fn link() -> ShaperConfig {
    ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(1200)) }
}

fn queue(settings: &str) -> FqCodel<Record> {
    FqCodel::new(FqCodelConfig::read(settings).unwrap(), link(), 1)
}

/// A packet of flow `flow`, numbered so that the flow shows: `flow * 1000 + n`.
fn packet(flow: u64, n: u64, len: u64) -> Record {
    let mut r = Record { id: flow * 1000 + n, ..Record::default() };
    let to = IpAddr::from([10, 0, 0, flow as u8]);
    r.header.key = FlowKey::new([192, 0, 2, 1].into(), to, 80, 40_000, Proto::TCP);
    r.header.len = Bytes(len);
    r
}

const T0: Instant = Instant::from_nanos(1_000_000_000);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn feed(q: &mut FqCodel<Record>, flow: u64, numbers: core::ops::Range<u64>, len: u64) -> Verdicts<Record> {
    let mut v = Verdicts::new();
    numbers.for_each(|n| q.enqueue(T0, packet(flow, n, len), &mut v));
    v
}

fn take(q: &mut FqCodel<Record>, n: usize) -> Vec<u64> {
    let mut v = Verdicts::new();
    (0..n).map_while(|_| q.dequeue(T0, &mut v)).map(|p| p.id).collect()
}

#[test]
fn new_queues_go_first_and_then_wait_behind_the_old() {
    let mut q = queue("");
    feed(&mut q, 1, 0..4, 1500);
    feed(&mut q, 2, 0..4, 1500);
    // Two new flows with 1514 bytes: after one packet of 1500 there are 14 left, so each sends two; then -1486, to the
    // old list with 28 more each. Flow 1: two packets, then flow 2: two.
    assert_eq!(take(&mut q, 4), [1000, 1001, 2000, 2001]);
    // A new flow overtakes the old ones, for one packet of 100 bytes.
    feed(&mut q, 3, 0..1, 100);
    assert_eq!(take(&mut q, 1), [3000]);
    // Now it is empty, but not gone: it waits at the end of the old list, and its next packet with it.
    assert_eq!(take(&mut q, 1), [1002]);
    feed(&mut q, 3, 1..2, 100);
    assert_eq!(take(&mut q, 9), [2002, 3001, 1003, 2003]);
}

#[test]
fn turns_are_in_bytes() {
    let mut q = queue("quantum=1500");
    feed(&mut q, 1, 0..30, 300);
    feed(&mut q, 2, 0..10, 1500);
    feed(&mut q, 3, 0..10, 1500);
    let sent = take(&mut q, 28);
    let bytes = |flow: u64, each: u64| sent.iter().filter(|id| *id / 1000 == flow).count() as u64 * each;
    // Four rounds of 1500 bytes each.
    assert_eq!([bytes(1, 300), bytes(2, 1500), bytes(3, 1500)], [6000, 6000, 6000]);
}

#[test]
fn who_is_silent_while_the_link_is_idle_is_new_again() {
    let mut q = queue("");
    let mut v = Verdicts::new();
    feed(&mut q, 1, 0..2, 1500);
    assert_eq!(take(&mut q, 3), [1000, 1001]);
    // The link sends the last packet for 10 ms. Until then flow 1 has its debt: flow 2 goes first.
    let at = |n: u64| T0 + ms(n);
    q.enqueue(at(9), packet(1, 2, 1500), &mut v);
    q.enqueue(at(9), packet(2, 0, 1500), &mut v);
    assert_eq!(take(&mut q, 2), [2000, 1002]);
    q.enqueue(at(30), packet(1, 3, 1500), &mut v);
    q.enqueue(at(30), packet(2, 1, 1500), &mut v);
    assert_eq!(take(&mut q, 2), [1003, 2001]);
}

#[test]
fn the_fattest_queue_loses_half_or_sixty_four_from_its_head() {
    let mut q = queue("20");
    feed(&mut q, 1, 0..5, 100);
    let none = feed(&mut q, 2, 0..15, 100);
    assert!(none.is_empty());
    // The 21st packet: flow 2 has 1500 bytes, of which half are eight packets; they are pushed out by flow 3.
    let lost = feed(&mut q, 3, 0..1, 100);
    let ids: Vec<_> = lost
        .iter()
        .map(|v| match v {
            Verdict::Dropped { packet, reason: Reason::PushedOut } => packet.id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, (2000..2008).collect::<Vec<_>>());
    assert_eq!(q.backlog(), Backlog { packets: 13, bytes: Bytes(1300) });

    let mut q = queue("1000");
    let lost = feed(&mut q, 1, 0..1001, 100);
    assert_eq!(lost.len(), 64);
    assert!(matches!(&lost[0], Verdict::Dropped { packet, reason: Reason::OverLimit } if packet.id == 1000));
}

/// Packets of `flows` flows at once, served one each 10 ms: who was dropped.
fn dropped(settings: &str, flows: u64, each: u64) -> Vec<u64> {
    let mut q = queue(settings);
    for flow in 1..=flows {
        feed(&mut q, flow, 0..each, 1500);
    }
    let (mut v, mut now) = (Verdicts::new(), T0);
    while q.dequeue(now, &mut v).is_some() {
        now += ms(10);
    }
    v.iter()
        .filter_map(|v| match v {
            Verdict::Dropped { packet, .. } => Some(packet.id),
            _ => None,
        })
        .collect()
}

#[test]
fn each_queue_has_its_own_codel() {
    // One flow as plain CoDel: the same packets as by hand there.
    assert_eq!(dropped("", 1, 46), [1011, 1022, 1031, 1037, 1043]);
    // Thirty flows of two packets wait half a second, but none has more than one packet behind; Linux counts what all
    // have. Of two packets neither is dropped even so: the first finds its queue above target for the first time, and
    // the second follows within 10 ms. The third comes 590 ms after the first.
    let apart = "flows=65536,spare=queue";
    assert_eq!(dropped(apart, 30, 2), [0; 0]);
    assert_eq!(dropped("flows=65536", 30, 2), [0; 0]);
    assert_eq!(dropped(apart, 30, 3), [0; 0]);
    // At 600 ms all third packets are due at once. Flow f is above target since 20 (f - 1) ms, so up to flow 26 for an
    // interval.
    let lost = dropped("flows=65536", 30, 3);
    assert_eq!(lost, (1..=26).map(|flow| flow * 1000 + 2).collect::<Vec<_>>());
}

#[test]
fn a_flow_that_comes_back_does_not_pay_for_its_absence() {
    // A hundred flows bring four packets each, wait until all are gone, and bring four more: 4 s of the link each time,
    // and one more flow always has something waiting. How many of the second four are lost?
    let lost = |settings: &str| {
        let (mut q, mut v) = (queue(settings), Verdicts::new());
        for step in 0..1200 {
            let now = T0 + ms(10 * step);
            q.enqueue(now, packet(100, 0, 1500), &mut v);
            for flow in (0..100).filter(|_| step % 600 == 0) {
                let first = step / 600 * 4;
                (first..first + 4).for_each(|n| q.enqueue(now, packet(flow, n, 1500), &mut v));
            }
            q.dequeue(now, &mut v);
        }
        let late = |packet: &Record| packet.id < 100_000 && packet.id % 1000 >= 4;
        let second = |v: &Verdict<Record>| matches!(v, Verdict::Dropped { packet, .. } if late(packet));
        v.iter().filter(|v| second(v)).count()
    };
    assert_eq!(
        lost("flows=65536,spare=queue"),
        0,
        "two leave within an interval, then no more than one is behind"
    );
    // About half; were spells to go on, all but the first few would be.
    let linux = lost("flows=65536");
    assert!((100..=250).contains(&linux), "{linux} of 400");
}

#[test]
fn an_idle_link_ends_the_spells_of_all_queues() {
    // Turns of one packet of 1500 B, one each 10 ms: flow 1 sends at 0, 20, 40, ... and is above target from 20 ms on.
    // It loses one packet at 120 and one at 220, when the next is due at 290.7; its last leaves at 240 with 2000 B of
    // flow 2 behind, which leave in one turn. Nobody looks at flow 1 before the link is idle. It comes back three
    // seconds later, and its first packet waits 10 ms: an interval passes before one is dropped. A spell that went on
    // would have dropped (3 s / (2 * 100 ms))^2 in that one call.
    let lost = |settings: &str| {
        let (mut q, mut v) = (queue(&format!("quantum=1500,{settings}")), Verdicts::new());
        for n in 0..15 {
            q.enqueue(T0, packet(1, n, 1500), &mut v);
            q.enqueue(T0, packet(2, n, if n < 14 { 1500 } else { 1000 }), &mut v);
        }
        q.enqueue(T0, packet(2, 15, 1000), &mut v);
        let sent: Vec<_> = (0..).map_while(|n| q.dequeue(T0 + ms(10 * n), &mut v)).map(|p| p.id).collect();
        assert_eq!(sent[sent.len() - 3..], [1014, 2014, 2015]);
        let before = v.len();
        for n in 100..500 {
            q.enqueue(T0 + ms(3260), packet(1, n, 1500), &mut v);
        }
        q.dequeue(T0 + ms(3270), &mut v);
        v.len() - before
    };
    assert_eq!((lost(""), lost("spare=queue")), (0, 0));
}

#[test]
fn marks_and_new_settings() {
    let mut q = queue("");
    for n in 0..40 {
        let mut p = packet(1, n, 1500);
        p.header.ecn = Ecn::Ect0;
        q.enqueue(T0, p, &mut Verdicts::new());
    }
    let (mut v, mut now) = (Verdicts::new(), T0);
    for _ in 0..20 {
        q.dequeue(now, &mut v);
        now += ms(10);
    }
    assert!(matches!(v.as_slice(), [Verdict::Marked { reason: Reason::Sojourn, .. }]), "{v:?}");
    let spec = |text: &str| text.parse::<Spec>().unwrap();
    assert!(q.reconfigure(now, spec("fq_codel:10,target=50ms").settings(), &link()));
    assert_eq!(q.backlog().packets, 20);
    assert!(!q.reconfigure(now, spec("fq_codel:flows=16").settings(), &link()));
    assert_eq!(q.report(now).flows, 1);
    // The lower limit counts from the next arrival on.
    q.enqueue(now, packet(2, 0, 100), &mut v);
    assert!(q.backlog().packets <= 10);
}

#[test]
fn a_queue_is_one_line_of_a_cache() {
    assert_eq!(size_of::<FqCodelFlow>(), 64);
}
