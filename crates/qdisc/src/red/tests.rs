use narrows_units::{Ecn, Rate};

use super::*;
use crate::Verdict;
use crate::samples::ecn_packet as packet;
use crate::{Framing, Record, Spec};

fn link() -> ShaperConfig {
    ShaperConfig::new(Rate::from_kbps(600))
}

fn queue(settings: &str) -> Red<Record> {
    Red::new(RedConfig::read(settings).unwrap(), link(), 1)
}

/// Fates of `n` arrivals at one instant: sent, marked, early, over limit.
fn fates(q: &mut Red<Record>, n: u64, len: u64, ecn: Ecn) -> [usize; 4] {
    let mut v = Verdicts::new();
    (0..n).for_each(|id| q.enqueue(Instant::ZERO, packet(id, len, ecn), &mut v));
    let lost =
        |why| v.iter().filter(|v| matches!(v, Verdict::Dropped { reason, .. } if *reason == why)).count();
    let marked = v.iter().filter(|v| matches!(v, Verdict::Marked { .. })).count();
    [q.backlog().packets, marked, lost(Reason::Early), lost(Reason::OverLimit)]
}

/// The average is the queue itself, and between the thresholds next to nothing is dropped.
const STEP: &str = "20,min=2,max=5,w_q=1,max_p=0.000001,gentle=off";

#[test]
fn above_max_everything_is_dropped() {
    // The sixth arrival finds five.
    assert_eq!(fates(&mut queue(STEP), 30, 500, Ecn::NotEct), [5, 0, 25, 0]);
}

#[test]
fn marks_instead_of_drops_as_rfc_3168_and_as_linux() {
    assert_eq!(fates(&mut queue(STEP), 30, 500, Ecn::Ect0), [5, 0, 25, 0]);
    let linux = format!("{STEP},harddrop=off");
    // 20 fit; those that find 5 to 19 are marked. Those that find 20 have no place.
    assert_eq!(fates(&mut queue(&linux), 30, 500, Ecn::Ect1), [20, 15, 0, 10]);
    assert_eq!(fates(&mut queue(&linux), 30, 500, Ecn::NotEct), [5, 0, 25, 0]);
    assert_eq!(fates(&mut queue(&format!("{linux},ecn=off")), 30, 500, Ecn::Ect0), [5, 0, 25, 0]);
    // Between the thresholds, with a chance that reaches certainty at max: whoever is told is marked.
    let [kept, marked, early, _] = fates(&mut queue("20,min=2,max=5,w_q=1,max_p=1"), 30, 500, Ecn::Ect0);
    assert!(marked > 0 && kept > 5 && kept + early == 30, "{kept} {marked} {early}");
}

#[test]
fn in_bytes_thresholds_are_packets_of_the_typical_size() {
    // 5 * 1000 B: of packets of 250 B the 21st finds 5000 B.
    let bytes = format!("{STEP},bytes=on,packet=1000");
    assert_eq!(fates(&mut queue(&bytes), 40, 250, Ecn::NotEct), [20, 0, 20, 0]);
    assert_eq!(queue(&bytes).config.limits(&link()).packets, 1000);
}

#[test]
fn a_short_burst_passes() {
    // 1x: 15 000 B are ten packets of 1500 B; thresholds 2 and 7. The average of a burst of ten is 0.1.
    let mut q = queue("");
    assert_eq!(
        q.config.sizes(&link()).curve,
        Thresholds { min: 2, max: 7, max_p: Ppm(100_000), gentle: true, wait: false }
    );
    assert_eq!(fates(&mut q, 11, 1500, Ecn::NotEct), [10, 0, 0, 1]);
    assert_eq!(q.average(), 0);
}

#[test]
fn idle_time_begins_when_the_link_is_free() {
    let (mut q, mut v) = (queue("20,w_q=0.5,packet=750"), Verdicts::new());
    // 750 B take 10 ms. Four arrivals find 0, 1, 2, 3: avg 0, 0.5, 1.25, 2.125.
    (0..4).for_each(|id| q.enqueue(Instant::ZERO, packet(id, 750, Ecn::NotEct), &mut v));
    assert_eq!(q.average(), 2);
    let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
    (0..4).for_each(|n| assert!(q.dequeue(at(10 * n), &mut v).is_some()));
    // The last leaves at 30 and is sent at 40; at 51 one slot has passed: 1.06.
    q.enqueue(at(51), packet(9, 750, Ecn::NotEct), &mut v);
    assert_eq!(q.average(), 1);
    q.dequeue(at(51), &mut v);
    // At 71 one more slot: 0.53.
    q.enqueue(at(71), packet(10, 750, Ecn::NotEct), &mut v);
    assert_eq!(q.average(), 0);
}

#[test]
fn by_size_a_full_packet_has_the_whole_chance_and_no_more() {
    // In ATM cells 1500 B and 14 of overhead take 1696 B, 40 B take 106: a sixteenth.
    let link = ShaperConfig { overhead: 14, framing: Framing::Atm, ..link() };
    let q = Red::<Record>::new(RedConfig::read("by_size=on").unwrap(), link, 1);
    assert_eq!(q.part(Bytes(1500)), Some((1696, 1696)));
    assert_eq!(q.part(Bytes(40)), Some((106, 1696)));
}

#[test]
fn settings_that_make_no_sense() {
    assert_eq!(RedConfig::read("min=10,max=10").unwrap_err().key, "max");
    assert_eq!(RedConfig::read("20,min=20").unwrap_err().key, "min");
    assert!(RedConfig::read("20,min=19").is_ok() && RedConfig::read("1x,min=2000").is_ok());
    assert_eq!(RedConfig::read("w_q=0").unwrap_err().key, "w_q");
    // One threshold alone: the other keeps clear of it.
    let c = RedConfig::read("30,min=28").unwrap().sizes(&link()).curve;
    assert_eq!((c.min, c.max), (28, 29));
}

#[test]
fn new_settings_keep_queue_and_average() {
    let mut q = queue("20,w_q=1");
    fates(&mut q, 5, 500, Ecn::NotEct);
    let spec = |text: &str| text.parse::<Spec>().unwrap();
    assert!(q.reconfigure(Instant::ZERO, spec("red:3").settings(), &link()));
    assert_eq!((q.average(), q.backlog().packets, q.limit), (4, 5, 3));
    assert!(!q.reconfigure(Instant::ZERO, spec("fifo:3").settings(), &link()));
}
