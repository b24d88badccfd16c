//! Values worked by hand from the notes on class isolation, sections 2.1 and 2.2.

use narrows_units::{Bytes, Duration, Ecn, Instant, Rate, SeqNum};
use narrows_wire::{FlowKey, Proto, TcpHeader};

use super::adapt::{Divider, Lengths};
use super::*;
use crate::Verdict;
use crate::{Record, Settings as _, Spec};

/// 1 Mbit/s: a packet of 1000 bytes takes 8 ms, of half the link 16 ms.
const LINK: ShaperConfig = ShaperConfig { mtu: Bytes(1000), ..ShaperConfig::new(Rate::from_kbps(1000)) };

fn ms(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000_000)
}

fn classes(settings: &str) -> Classes<Record> {
    let spec: Spec = format!("classes:{settings}").parse().unwrap();
    let Spec::Classes(config) = spec else { panic!("not classes") };
    Classes::new(config, LINK, 1)
}

/// A packet of data; `id` is in thousands by flow, so that tests can tell them apart.
fn data(flow: u16, number: u64) -> Record {
    let mut r = Record { id: u64::from(flow) * 1000 + number, ..Record::default() };
    r.header.key = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 80, flow, Proto::TCP);
    r.header.len = Bytes(1000);
    r.header.tcp = Some(TcpHeader { payload: 960, seq: SeqNum(960 * number as u32), ..TcpHeader::default() });
    r
}

fn labelled(flow: u16, number: u64, dscp: u8) -> Record {
    let mut r = data(flow, number);
    r.header.dscp = Dscp::new(dscp).unwrap();
    r
}

fn put(q: &mut Classes<Record>, now: Instant, packets: impl IntoIterator<Item = Record>) -> usize {
    let mut verdicts = Vec::new();
    for p in packets {
        q.enqueue(now, p, &mut verdicts);
    }
    verdicts.len()
}

/// Departures up to `end`, by a driver that calls when it is told: milliseconds and number.
fn drain(q: &mut Classes<Record>, from: Instant, end: Instant) -> Vec<(u64, u64)> {
    let (mut out, mut now, mut verdicts) = (Vec::new(), from, Vec::new());
    while let Some(at) = q.next_ready(now) {
        now = now.max(at);
        if now > end {
            break;
        }
        let p = q.dequeue(now, &mut verdicts).expect("it said so");
        out.push((now.as_nanos() / 1_000_000, p.id));
    }
    out
}

#[test]
fn two_pipes_each_at_its_own_rate() {
    // Section 2.2: next_allowed[c] += size * 8 / C[c]; shares of 1/4 and 3/4 of 1 Mbit/s: 32 ms and 10.67 ms a packet.
    let mut q = classes("dscp,share=0.25,buffer=40");
    put(&mut q, ms(0), (0..3).map(|n| labelled(1, n, 18)));
    put(&mut q, ms(0), (0..6).map(|n| labelled(2, n, 10)));
    let out = drain(&mut q, ms(0), ms(1000));
    assert_eq!(
        out,
        [
            (0, 1000),
            (0, 2000),
            (10, 2001),
            (21, 2002),
            (32, 1001),
            (32, 2003),
            (42, 2004),
            (53, 2005),
            (64, 1002)
        ]
    );
    // A pipe's unused time is nobody's: a class alone gets its share and no more.
    put(&mut q, ms(1000), (0..3).map(|n| labelled(1, 10 + n, 18)));
    assert_eq!(drain(&mut q, ms(1000), ms(2000)), [(1000, 1010), (1032, 1011), (1064, 1012)]);
}

#[test]
fn a_class_that_waits_for_the_link_makes_up_for_it() {
    // Each class always has something to send, over a link that takes 8 ms a packet: 60 of 120 packets each in 960
    // ms.
    let mut q = classes("dscp,buffer=400");
    put(&mut q, ms(0), (0..100).map(|n| labelled(1, n, 18)));
    put(&mut q, ms(0), (0..100).map(|n| labelled(2, n, 10)));
    let (mut now, mut sent, mut verdicts) = (ms(0), [0, 0], Vec::new());
    for _ in 0..120 {
        now = now.max(q.next_ready(now).unwrap());
        let p = q.dequeue(now, &mut verdicts).unwrap();
        sent[(p.id / 1000 - 1) as usize] += 1;
        now += Duration::from_millis(8);
    }
    assert_eq!((now, sent), (ms(960), [60, 60]));
}

#[test]
fn with_borrowing_nothing_is_left() {
    // Weights of 1 to 3, packets of one size: of four packets one is of the short class; alone it gets all.
    let mut q = classes("dscp,share=0.25,borrow=on,buffer=100");
    put(&mut q, ms(0), (0..10).map(|n| labelled(1, n, 18)));
    put(&mut q, ms(0), (0..9).map(|n| labelled(2, n, 10)));
    let order: String =
        drain(&mut q, ms(0), ms(0)).iter().map(|(_, id)| if *id < 2000 { 's' } else { 'l' }).collect();
    assert_eq!(order, "lllslllslllssssssss");
}

#[test]
fn each_class_is_drop_tail_with_its_own_buffer() {
    // k_b of each class is its share of the buffer: 5 and 15 of 20.
    let mut q = classes("dscp,share=0.25,buffer=20");
    assert_eq!(put(&mut q, ms(0), (0..7).map(|n| labelled(1, n, 18))), 2);
    assert_eq!(put(&mut q, ms(0), (0..16).map(|n| labelled(2, n, 10))), 1);
    let r = q.report(ms(0));
    assert_eq!(r.classes.iter().map(|c| c.backlog.packets).collect::<Vec<_>>(), [5, 15]);
    let counters = |c: usize| r.classes[c].counters.clone().unwrap();
    assert_eq!([counters(0).dropped_total(), counters(1).dropped_total()], [2, 1]);
    assert_eq!((counters(0).arrived, r.counters.arrived, r.counters.dropped_total()), (7, 23, 3));
}

#[test]
fn after_the_threshold_a_flow_is_long_until_it_ends() {
    // Section 2.1: class = LONG if count > N_th, sticky. With N_th = 3 the fourth packet of data is a long flow's.
    let mut q = classes("packets=3,mark=on,borrow=on,buffer=100");
    let marks = |q: &mut Classes<Record>, now: Instant| {
        std::iter::from_fn(|| q.dequeue(now, &mut Vec::new()).map(|p| p.header.dscp.get()))
            .collect::<Vec<_>>()
    };
    let mut seen = Vec::new();
    for n in 0..5 {
        put(&mut q, ms(n), [data(1, n)]);
        seen.extend(marks(&mut q, ms(n)));
    }
    assert_eq!(seen, [18, 18, 18, 10, 10]);
    // Its FIN is its own; what comes after belongs to another flow.
    let mut fin = data(1, 5);
    fin.header.tcp.as_mut().unwrap().flags = Flags::FIN;
    put(&mut q, ms(6), [fin, data(2, 0)]);
    assert_eq!(marks(&mut q, ms(6)), [18, 10]);
    put(&mut q, ms(7), [data(1, 6)]);
    assert_eq!(marks(&mut q, ms(7)), [18]);
    // A minute of silence makes the flow new again.
    put(&mut q, ms(8), (7..11).map(|n| data(1, n)));
    assert_eq!(marks(&mut q, ms(8)), [10; 4], "moved as a whole");
    put(&mut q, ms(60_008), [data(1, 11)]);
    assert_eq!(marks(&mut q, ms(60_008)), [10]);
    put(&mut q, ms(120_009), [data(1, 12)]);
    assert_eq!(marks(&mut q, ms(120_009)), [18]);
}

#[test]
fn a_flow_moves_with_all_it_has_and_in_order() {
    let mut q = classes("packets=3,buffer=20");
    // Three of flow 1 and one of flow 2 wait in the short class; the fourth of flow 1 takes them to the long one.
    put(&mut q, ms(0), [data(1, 0), data(2, 0), data(1, 1), data(1, 2)]);
    let waits = |q: &mut Classes<Record>| {
        q.report(ms(0)).classes.iter().map(|c| (c.backlog.packets, c.flows)).collect::<Vec<_>>()
    };
    assert_eq!(waits(&mut q), [(4, 2), (0, 0)]);
    put(&mut q, ms(0), [data(1, 3)]);
    assert_eq!(waits(&mut q), [(1, 1), (4, 1)]);
    let out = drain(&mut q, ms(0), ms(1000));
    assert_eq!(out, [(0, 2000), (0, 1000), (16, 1001), (32, 1002), (48, 1003)]);
}

#[test]
fn a_flow_that_finds_no_room_in_its_new_class_loses_what_comes() {
    // The long class holds 2, and they are there; flow 1 has 3 waiting in the short one.
    let mut q = classes("packets=3,buffer_short=5,buffer_long=2");
    put(&mut q, ms(0), (0..4).map(|n| data(2, n)));
    assert_eq!(q.report(ms(0)).classes[0].backlog.packets, 3, "2 packets of room for the 4 of flow 2");
    let mut q = classes("packets=3,buffer_short=5,buffer_long=4");
    put(&mut q, ms(0), (0..4).map(|n| data(2, n)));
    put(&mut q, ms(0), (0..3).map(|n| data(1, n)));
    assert_eq!(put(&mut q, ms(0), [data(1, 3)]), 1, "lost, as it would have been there");
    let order: Vec<u64> = drain(&mut q, ms(0), ms(1000)).into_iter().map(|(_, id)| id).collect();
    assert_eq!(order, [1000, 2000, 1001, 2001, 1002, 2002, 2003]);
}

#[test]
fn by_seconds_age_counts_and_not_packets() {
    let mut q = classes("threshold=seconds,seconds=1,mark=on,borrow=on,buffer=100");
    let mut marks = Vec::new();
    for at in [0, 500, 1000, 1001, 1002] {
        put(&mut q, ms(at), [data(1, at)]);
        marks.push(q.dequeue(ms(at), &mut Vec::new()).unwrap().header.dscp.get());
    }
    assert_eq!(marks, [18, 18, 18, 10, 10]);
}

#[test]
fn chance_takes_half_of_the_flows_each_and_keeps_them() {
    let mut q = classes("random,buffer=10000");
    put(&mut q, ms(0), (0..1000).flat_map(|flow| (0..2).map(move |n| data(flow, n))));
    let r = q.report(ms(0));
    let flows: Vec<usize> = r.classes.iter().map(|c| c.flows).collect();
    // Four standard deviations of a fair coin thrown 1000 times are 63.
    assert!((437..=563).contains(&flows[0]) && flows[0] + flows[1] == 1000, "{flows:?}");
    assert_eq!(r.classes[0].backlog.packets, 2 * flows[0]);
}

#[test]
fn the_table_is_bounded_and_flows_with_packets_waiting_stay() {
    let mut q = classes("flows=16,buffer=10,packets=1,mark=on");
    put(&mut q, ms(0), [data(1, 0), data(1, 1)]);
    put(&mut q, ms(1), (100..200).map(|flow| data(flow, 0)));
    let r = q.report(ms(1));
    assert_eq!((r.flows, r.counters.evicted), (16, 85));
    let mut verdicts = Vec::new();
    let first: Vec<u64> = std::iter::from_fn(|| q.dequeue(ms(1), &mut verdicts)).map(|p| p.id).collect();
    assert!(first.contains(&1000), "{first:?}");
}

#[test]
fn the_threshold_is_what_nine_flows_of_ten_do_not_pass() {
    // 95 of 100 flows have 10 packets, 5 have 1000. Levels are 2, 3, 4, 6, 8, 12, ...: 12 is the least that holds ten.
    let mut lengths = Lengths::new();
    let mut threshold = None;
    for flow in 0..400 {
        for n in 1..=(if flow % 20 == 0 { 1000 } else { 10 }) {
            threshold = lengths.note(n).or(threshold);
        }
    }
    assert_eq!(threshold, Some(12));
    // Flows all of one length have none that is longer than most.
    let mut lengths = Lengths::new();
    for _ in 0..200 {
        for n in 1..=33 {
            threshold = lengths.note(n).or(threshold);
        }
    }
    assert_eq!(threshold, Some(48));
}

#[test]
fn the_split_closes_an_eighth_of_the_gap_each_step() {
    let link = Rate::from_kbps(1000);
    let step = Duration::from_millis(200);
    // Three short flows to one long: the ratio of averages is 3/4 from the first step. The short ones use the half that
    // they begin with, and a quarter of what they leave of their three makes 9/16.
    let mut d = Divider::new(step, link, Ppm(500_000), true);
    let mut share = 0.5;
    for k in 0..60_u64 {
        let now = ms(k * 200);
        d.pass(now);
        for class in [0, 0, 0, 1] {
            d.heard(class, Some(200), false);
        }
        d.send(0, Bytes(12_500));
        assert!((f64::from(d.share().0) / 1e6 - share).abs() < 2e-6, "step {k}: {:?}, {share}", d.share());
        share += (0.5625 - share) / 8.0;
    }
}

/// As many flows of each class; the short ones use up to `most` of the link in parts of a million, the long ones all
/// they are given.
fn both_use(d: &mut Divider, steps: core::ops::Range<u64>, most: u32) -> u32 {
    for k in steps {
        d.pass(ms(k * 200));
        d.heard(0, None, false);
        d.heard(1, None, false);
        let share = d.share().0;
        // A step of 200 ms carries 25 000 bytes.
        d.send(0, Bytes(25_000 * u64::from(most.min(share)) / 1_000_000));
        d.send(1, Bytes(25_000 * u64::from(1_000_000 - share) / 1_000_000));
    }
    d.share().0
}

#[test]
fn a_class_gets_what_it_uses_and_room_by_what_it_leaves() {
    let divider =
        |borrow| Divider::new(Duration::from_millis(200), Rate::from_kbps(1000), Ppm(500_000), borrow);
    // A class with half the link uses 18 % of it: (50 - 18) / 8 = 4 more. With borrowing twice that.
    let mut d = divider(false);
    assert!((219_000..221_000).contains(&both_use(&mut d, 0..200, 180_000)), "{:?}", d.share());
    // When they want more, they get their half.
    assert!((499_000..501_000).contains(&both_use(&mut d, 200..600, 1_000_000)), "{:?}", d.share());
    // A use of 36 % leaves 14, of which an eighth is less than a tenth of 40.
    assert!((399_000..401_000).contains(&both_use(&mut d, 600..800, 360_000)), "{:?}", d.share());
    let mut d = divider(true);
    assert!((259_000..261_000).contains(&both_use(&mut d, 0..200, 180_000)), "{:?}", d.share());
}

#[test]
fn a_flow_that_waits_for_its_timer_is_active() {
    // Each step has a packet of either class; each hundred steps a long flow comes back after 8 s, 40 steps of pause.
    let part = |lost: bool| {
        let mut d = Divider::new(Duration::from_millis(200), Rate::from_kbps(1000), Ppm(500_000), true);
        let (mut sum, mut n) = (0.0, 0);
        for k in 0..4000_u64 {
            d.pass(ms(k * 200));
            d.heard(0, Some(200), false);
            d.heard(1, Some(200), false);
            d.send(0, Bytes(20_000));
            d.send(1, Bytes(20_000));
            if k % 100 == 99 {
                d.heard(1, Some(8000), lost);
            }
            if k >= 1000 {
                sum += f64::from(d.share().0) / 1e6;
                n += 1;
            }
        }
        sum / f64::from(n)
    };
    // One to 1.05 without, of a second in 20; one to 1.4 with, of 8 s in 20. The rest is that a mean of ratios is no
    // ratio of means.
    assert!((part(false) - 1.0 / 2.05).abs() < 0.003, "{}", part(false));
    assert!((part(true) - 1.0 / 2.4).abs() < 0.02, "{}", part(true));
}

/// Three short flows to one long, borrowing, in steps of 200 ms; the short ones use half of a link of 240 kbit/s. The
/// share nears 1/2 + (3/4 - 1/2) / 4 by an eighth a step.
fn three_to_one(q: &mut Classes<Record>, steps: core::ops::Range<u64>) {
    for k in steps {
        put(q, ms(200 * k), [(1, 18), (2, 18), (3, 18), (4, 10)].map(|(flow, dscp)| labelled(flow, k, dscp)));
        while q.dequeue(ms(200 * k), &mut Vec::new()).is_some() {}
    }
}

fn reload(q: &mut Classes<Record>, now: Instant, settings: &str, link: &ShaperConfig) {
    assert!(q.reconfigure(now, &Config::read(settings).unwrap(), link), "{settings}");
}

fn share_of(q: &mut Classes<Record>, now: Instant) -> f64 {
    f64::from(q.report(now).classes[0].share.unwrap().0) / 1e6
}

#[test]
fn a_reload_keeps_the_split_that_set_itself() {
    let auto = "dscp,split=auto,borrow=on,rtt=200ms";
    let link = ShaperConfig { rate: Rate::from_kbps(240), ..LINK };
    let Ok(Spec::Classes(config)) = format!("classes:{auto},buffer=100").parse() else {
        panic!("not classes")
    };
    let mut q = Classes::new(config, link, 1);
    three_to_one(&mut q, 0..11);
    // The first packet only begins a step: ten steps have ended by the eleventh call.
    let due = |steps: i32| 0.5625 - 0.0625 * 0.875_f64.powi(steps);
    let is = |q: &mut Classes<Record>, steps: i32| {
        let share = share_of(q, ms(0));
        assert!((share - due(steps)).abs() < 2e-6, "{share}, {}", due(steps));
    };
    is(&mut q, 10);
    // Another buffer, another beginning: it goes on without a break.
    reload(&mut q, ms(2001), &format!("{auto},buffer=200,share=0.1"), &link);
    is(&mut q, 10);
    three_to_one(&mut q, 11..12);
    is(&mut q, 11);
    // On another link the share stays as well; the step that was being counted is left out.
    let slower = ShaperConfig { rate: Rate::from_kbps(120), ..LINK };
    reload(&mut q, ms(2201), &format!("{auto},buffer=200"), &slower);
    is(&mut q, 11);
    three_to_one(&mut q, 12..13);
    is(&mut q, 11);
    // A split that is told is as told; one that sets itself again begins where it is told to.
    reload(&mut q, ms(2601), "dscp,share=0.333333,borrow=on", &slower);
    assert_eq!(q.report(ms(2601)).classes[0].share, Some(Ppm(333_333)));
    reload(&mut q, ms(2602), &format!("{auto},share=0.25"), &slower);
    assert_eq!(q.report(ms(2602)).classes[0].share, Some(Ppm(250_000)));
    // Classes by another edge are other classes.
    three_to_one(&mut q, 14..20);
    assert_ne!(q.report(ms(3999)).classes[0].share, Some(Ppm(250_000)));
    reload(&mut q, ms(4000), "split=auto,borrow=on,rtt=200ms", &slower);
    assert_eq!(q.report(ms(4000)).classes[0].share, Some(Ppm(500_000)));
}

#[test]
fn a_reload_keeps_the_threshold_that_set_itself() {
    let mut q = classes("threshold=auto,borrow=on,buffer=100");
    let up_to = |q: &mut Classes<Record>| q.report(ms(0)).classes[0].up_to_packets.unwrap();
    let send = |q: &mut Classes<Record>, flows: core::ops::Range<u16>| {
        for flow in flows {
            put(q, ms(0), (0..5).map(|n| data(flow, n)));
            while q.dequeue(ms(0), &mut Vec::new()).is_some() {}
        }
    };
    // Before 64 flows were seen it is where it begins, also where a reload says another beginning.
    send(&mut q, 0..30);
    reload(&mut q, ms(0), "threshold=auto,packets=7,borrow=on,buffer=100", &LINK);
    assert_eq!(up_to(&mut q), 7);
    // Flows counted before count on: all of 80 flows have 5 packets, and 6 is the least level they are within.
    send(&mut q, 30..80);
    assert_eq!(up_to(&mut q), 6);
    reload(&mut q, ms(0), "threshold=auto,packets=50,split=auto,buffer=200", &LINK);
    assert_eq!(up_to(&mut q), 6);
    reload(&mut q, ms(0), "packets=9,buffer=200", &LINK);
    assert_eq!(up_to(&mut q), 9);
    reload(&mut q, ms(0), "threshold=auto,packets=50,buffer=200", &LINK);
    assert_eq!(up_to(&mut q), 50);
}

#[test]
fn settings_that_do_not_go_together() {
    for (wrong, key) in [
        ("dscp_short=10", "dscp_short"),
        ("dscp,threshold=auto", "threshold"),
        ("buffer_short=5", "buffer_long"),
        ("split=auto,buffer_short=5,buffer_long=5", "buffer_short"),
        ("share=0.99", "share"),
        ("sizes", "edge"),
    ] {
        assert_eq!(format!("classes:{wrong}").parse::<Spec>().unwrap_err().key, key, "{wrong}");
    }
}

#[test]
fn red_looks_at_each_class_alone() {
    // Long class: room for 20 of 40, thresholds 5 and 15; w_q = 1 makes the average the queue. Up to 5 packets nothing
    // is lost, and the short class is left alone.
    let mut q = classes("dscp,queue=red,w_q=1,max_p=1,buffer=40");
    assert_eq!(put(&mut q, ms(0), (0..6).map(|n| labelled(2, n, 10))), 0);
    assert!(put(&mut q, ms(0), (6..100).map(|n| labelled(2, n, 10))) > 70);
    assert_eq!(put(&mut q, ms(0), (0..5).map(|n| labelled(1, n, 18))), 0);
    let r = q.report(ms(0));
    let lost = r.classes[1].counters.clone().unwrap().dropped;
    assert!(lost[Reason::Early as usize] > 70 && lost[Reason::OverLimit as usize] == 0, "{lost:?}");
}

#[test]
fn what_finds_no_room_is_not_marked_before_it_is_lost() {
    // Room for 5 of 10 in the long class, thresholds 1 and 3; an average of one packet and a chance of one: every
    // arrival from the third on is told. Those that fit are marked; the others are lost and nothing else.
    let mut q = classes("dscp,queue=red,w_q=1,max_p=1,buffer=10");
    let mut verdicts = Verdicts::new();
    for n in 0..40 {
        let mut p = labelled(2, n, 10);
        p.header.ecn = Ecn::Ect0;
        p.header.tcp.as_mut().unwrap().seq = SeqNum(n as u32);
        q.enqueue(ms(0), p, &mut verdicts);
    }
    let seq = |h: &Header| h.tcp.unwrap().seq.0;
    let (mut marked, mut dropped) = (Vec::new(), Vec::new());
    for v in &verdicts {
        match v {
            Verdict::Marked { header, .. } => marked.push(seq(header)),
            Verdict::Dropped { packet, .. } => dropped.push(seq(&packet.header)),
            other => panic!("{other:?}"),
        }
    }
    assert!(!marked.is_empty() && marked.iter().all(|m| !dropped.contains(m)), "{marked:?} {dropped:?}");
    assert_eq!(q.backlog().packets + dropped.len(), 40);
}

#[test]
fn a_class_is_idle_from_when_its_last_flow_has_left_it() {
    // w_q = 1/2: flow 1's first three packets find 0, 1, 2: averages 0, 0.5, 1.25. At 2990 ms its fourth takes all four
    // to the long class. A packet of 1500 B takes 24 ms at half the rate: 10 ms later none has passed.
    let mut q = classes("packets=3,queue=red,w_q=0.5,buffer=80");
    put(&mut q, ms(1000), (0..3).map(|n| data(1, n)));
    put(&mut q, ms(2990), [data(1, 3)]);
    assert_eq!([0, 1].map(|c| q.store.backlog(c).packets), [0, 4]);
    let short = |q: &Classes<Record>| q.reds.as_ref().unwrap().average(0);
    put(&mut q, ms(3000), [data(2, 0)]);
    assert_eq!(short(&q), 1);
}

#[test]
fn a_faster_link_does_not_wait_for_the_old_one() {
    // 5 % of 1 kbit/s: 1000 B take 160 s. At 1 s the link becomes one of 100 Mbit/s, and 5 % of that send 1000 B in 1.6
    // ms.
    let slow = ShaperConfig { rate: Rate::from_kbps(1), ..LINK };
    let fast = ShaperConfig { rate: Rate::from_kbps(100_000), ..LINK };
    let spec: Spec = "classes:dscp,share=0.05,buffer=60".parse().unwrap();
    let Spec::Classes(config) = &spec else { panic!("not classes") };
    let mut q = Classes::new(*config, slow, 1);
    put(&mut q, ms(0), (0..2).map(|n| labelled(1, n, 18)));
    assert!(q.dequeue(ms(0), &mut Verdicts::new()).is_some());
    assert_eq!(q.next_ready(ms(0)), Some(ms(160_000)));
    assert!(q.reconfigure(ms(1000), spec.settings(), &fast));
    assert_eq!(q.next_ready(ms(1000)), Some(ms(1000) + Duration::from_micros(1600)));
}
