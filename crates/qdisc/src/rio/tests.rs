use narrows_units::{Ecn, Rate};
use narrows_wire::{FlowKey, Proto, TcpHeader};

use super::*;
use crate::Verdict;
use crate::{Record, Spec};

fn link() -> ShaperConfig {
    ShaperConfig::new(Rate::from_kbps(600))
}

fn queue(settings: &str) -> Rio<Record> {
    Rio::new(RioConfig::read(settings).unwrap(), link(), 1)
}

fn packet(flow: u16, dscp: u8, payload: u32) -> Record {
    let mut r = Record { id: u64::from(flow), ..Record::default() };
    r.header.key = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 80, flow, Proto::TCP);
    r.header.len = Bytes(u64::from(payload) + 40);
    r.header.dscp = Dscp::new(dscp).unwrap();
    r.header.tcp = Some(TcpHeader { flags: Flags::ACK, payload, ..TcpHeader::default() });
    r
}

/// How many of `n` such packets stay.
fn kept(q: &mut Rio<Record>, n: usize, p: Record) -> usize {
    let (before, mut v) = (q.backlog().packets, Verdicts::new());
    (0..n).for_each(|_| q.enqueue(Instant::ZERO, p, &mut v));
    q.backlog().packets - before
}

/// The averages are the queues themselves, and between the thresholds next to nothing is dropped.
const STEP: &str = "buffer=20,w_q=1,in_min=8,in_max=12,in_p=0.000001,out_min=2,out_max=4,out_p=0.000001";

#[test]
fn out_goes_by_the_whole_queue_in_by_its_own() {
    let mut q = queue(STEP);
    // "Out" until four wait; then "in" until twelve of these do; "out" again not at all.
    assert_eq!(kept(&mut q, 10, packet(1, 12, 500)), 4);
    assert_eq!(kept(&mut q, 30, packet(2, 10, 500)), 12);
    assert_eq!(kept(&mut q, 10, packet(1, 0, 500)), 0);
    let report = q.report(Instant::ZERO);
    let classes: Vec<_> = report.classes.iter().map(|c| (&*c.name, c.backlog.packets)).collect();
    assert_eq!(classes, [("in", 12), ("out", 4)]);
    assert_eq!(report.counters.dropped[Reason::Early as usize], 6 + 18 + 10);
}

#[test]
fn the_first_packets_of_a_flow_are_in() {
    let mut q = queue(&format!("ps,short=3,{STEP}"));
    // Three "in"; the fourth is "out" and finds three; the fifth finds four.
    assert_eq!(kept(&mut q, 10, packet(1, 0, 500)), 4);
    assert_eq!(kept(&mut q, 10, packet(2, 0, 500)), 3);
    // Acknowledgments do not make a flow long.
    assert_eq!(kept(&mut q, 5, packet(3, 0, 0)), 5);
    assert_eq!(q.report(Instant::ZERO).flows, 3);
    // After a reset the ports are those of another flow.
    let mut reset = packet(1, 0, 0);
    reset.header.tcp.as_mut().unwrap().flags = Flags::RST;
    kept(&mut q, 1, reset);
    assert_eq!(kept(&mut q, 1, packet(1, 0, 500)), 1);
}

#[test]
fn what_the_edge_marks_the_core_takes_for_the_same() {
    let mut edge = queue("ps,short=3,mark=on,buffer=30,out_min=20,out_max=30");
    kept(&mut edge, 8, packet(1, 0, 500));
    let mut core = queue("buffer=30,out_min=20,out_max=30");
    let mut v = Verdicts::new();
    let mut codes = Vec::new();
    while let Some(p) = edge.dequeue(Instant::ZERO, &mut v) {
        codes.push(p.header.dscp.get());
        core.enqueue(Instant::ZERO, p, &mut v);
    }
    assert_eq!(codes, [10, 10, 10, 12, 12, 12, 12, 12]);
    let waiting = core.report(Instant::ZERO).classes.iter().map(|c| c.backlog.packets).collect::<Vec<_>>();
    assert_eq!(waiting, [3, 5]);
}

#[test]
fn an_end_and_a_beginning_make_another_flow() {
    let ports_again = |flags| {
        let mut q = queue(&format!("ps,short=3,{STEP}"));
        kept(&mut q, 10, packet(1, 0, 500));
        let mut p = packet(1, 0, 0);
        p.header.tcp.as_mut().unwrap().flags = flags;
        kept(&mut q, 1, p);
        // The queue is full of "out"; only "in" finds a place.
        kept(&mut q, 1, packet(1, 0, 500))
    };
    for (flags, place) in [
        (Flags::FIN.and(Flags::ACK), 1),
        (Flags::SYN, 1),
        (Flags::SYN.and(Flags::ACK), 1),
        (Flags::RST, 1),
        (Flags::ACK, 0),
    ] {
        assert_eq!(ports_again(flags), place, "{flags:?}");
    }
}

#[test]
fn an_out_packet_does_not_lower_the_average_of_in() {
    // 750 B take 10 ms. Four "in" find 0, 1, 2, 3: averages 0, 0.5, 1.25, 2.125. The last leaves at 30 and is sent at
    // 40. "Out" packets that come meanwhile leave the average of "in" alone (Clark and Fang, section III).
    let mut q = queue("buffer=20,w_q=0.5,packet=750");
    let mut v = Verdicts::new();
    let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
    (0..4).for_each(|_| q.enqueue(at(0), packet(1, 10, 710), &mut v));
    (0..4).for_each(|n| assert!(q.dequeue(at(10 * n), &mut v).is_some()));
    q.enqueue(at(35), packet(2, 12, 710), &mut v);
    assert_eq!((q.halves[0].average.get(), q.halves[1].average.get()), (2, 1));
    // Idle time ages both averages: from 50 on, when that packet has been sent, to 71, two slots: 2.125 / 4.
    assert!(q.dequeue(at(40), &mut v).is_some());
    q.enqueue(at(71), packet(2, 12, 710), &mut v);
    assert_eq!((q.halves[0].average.get(), q.halves[1].average.get()), (0, 0));
}

#[test]
fn marks_below_the_upper_threshold_only() {
    // Up to twice 4 the chance grows to 1: whoever is told and understands it stays, marked.
    let mut q = queue("buffer=40,w_q=1,out_min=1,out_max=4,out_p=1,gentle=on");
    let (mut v, mut p) = (Verdicts::new(), packet(1, 0, 500));
    p.header.ecn = Ecn::Ect0;
    (0..30).for_each(|_| q.enqueue(Instant::ZERO, p, &mut v));
    let marked = v.iter().filter(|v| matches!(v, Verdict::Marked { .. })).count();
    assert!(marked > 0 && q.backlog().packets == 8, "{marked} {:?}", q.backlog());
}

#[test]
fn new_settings_keep_queue_and_flows() {
    let mut q = queue("ps,short=3,buffer=20");
    kept(&mut q, 5, packet(1, 0, 500));
    let spec = |text: &str| text.parse::<Spec>().unwrap();
    assert!(q.reconfigure(Instant::ZERO, spec("rio:ps,short=4,buffer=30").settings(), &link()));
    assert_eq!((q.backlog().packets, q.sizes.known()), (5, 1));
    // Another `idle` counts from now on, and nobody becomes short by it; another number of flows makes a new table.
    assert!(q.reconfigure(Instant::ZERO, spec("rio:ps,idle=1s").settings(), &link()));
    assert_eq!(q.sizes.known(), 1);
    assert_eq!(q.sizes.count(Instant::from_nanos(1_000_000_000), &packet(1, 0, 1).header.key, false), 5);
    assert_eq!(q.sizes.count(Instant::from_nanos(2_000_000_001), &packet(1, 0, 1).header.key, false), 0);
    assert!(q.reconfigure(Instant::ZERO, spec("rio:ps,flows=16").settings(), &link()));
    assert_eq!(q.sizes.known(), 0);
    assert!(!q.reconfigure(Instant::ZERO, spec("red").settings(), &link()));
    assert_eq!(RioConfig::read("ps,buffer=20,out_min=30").unwrap_err().key, "out_min");
    assert_eq!(RioConfig::read("ps,in_min=20,buffer=20").unwrap_err().key, "in_min");
    assert_eq!(RioConfig::read("in_min=9,in_max=9").unwrap_err().key, "in_max");
}

#[test]
fn thresholds_are_those_of_the_notes_in_eighths() {
    // Burst TCP notes, section 5: in 40 to 70, out 10 to 30, of a buffer of 80.
    let [a, b] = RioConfig::read("buffer=80").unwrap().thresholds(&link());
    assert_eq!((a.min, a.max, a.max_p, b.min, b.max, b.max_p), (40, 70, Ppm(20_000), 10, 30, Ppm(500_000)));
}
