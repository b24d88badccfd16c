use narrows_units::{Ecn, Rate};

use super::*;
use crate::Record;
use crate::Verdict;
use crate::samples::ecn_packet;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn config(settings: &str) -> PieConfig {
    PieConfig::read(settings).unwrap()
}

fn queue(settings: &str) -> Pie<Record> {
    Pie::new(config(settings), ShaperConfig::new(Rate::from_kbps(1200)), 1)
}

fn packet(id: u64, ecn: Ecn) -> Record {
    ecn_packet(id, 1500, ecn)
}

/// A controller with the chance `p`, a delay of `now_ms` and one of `old_ms` before.
fn control(p: f64, now_ms: u64, old_ms: u64) -> PieState {
    let drop_prob = (p * ONE as f64) as u64;
    PieState { drop_prob, current_qdelay: ms(now_ms), qdelay_old: ms(old_ms), ..PieState::default() }
}

fn chance(c: PieState) -> f64 {
    c.drop_prob as f64 / ONE as f64
}

/// The chance after one correction.
fn updated(p: f64, now_ms: u64, old_ms: u64, settings: &str) -> f64 {
    let mut c = control(p, now_ms, old_ms);
    c.update(&config(settings));
    chance(c)
}

#[track_caller]
fn near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-12 + 1e-9 * b.abs(), "{a} {b}");
}

#[test]
fn corrections_by_hand() {
    // alpha (d - ref) + beta (d - old) with d = 55 ms, old = 35 ms: 0.125 * 0.040 + 1.25 * 0.020 = 0.005 + 0.025 =
    // 0.03. Auto-tuning, section 4.2, from the chance before.
    for (p, by) in
        [(0.0, 2048.0), (0.000_005, 512.0), (0.000_05, 128.0), (0.000_5, 32.0), (0.005, 8.0), (0.05, 2.0)]
    {
        near(updated(p, 55, 35, ""), p + 0.03 / by);
    }
    // From 10 % on as it is, but no more than 2 % with the cap (section 5.5).
    near(updated(0.5, 55, 35, "cap=off"), 0.53);
    near(updated(0.5, 55, 35, ""), 0.52);
    // Falling: d = 5, old = 25: 0.125 * -0.010 + 1.25 * -0.020 = -0.02625.
    near(updated(0.5, 5, 25, ""), 0.473_75);
    near(updated(0.01, 5, 25, ""), 0.0);
    // Never above 1. Twice no delay: 0.125 * -0.015 = -0.001875, then 2 % less.
    near(updated(0.999, 400, 300, "cap=off"), 1.0);
    near(updated(0.5, 0, 0, ""), (0.5 - 0.001_875) * 0.98);
    // d = old = 300: 0.125 * 0.285 = 0.035625; capped at 2 %, and with `steep` 2 % more.
    near(updated(0.5, 300, 300, "steep=on"), 0.54);
    near(updated(0.0, 300, 300, "steep=on"), 0.035_625 / 2048.0 + 0.02);
}

#[test]
fn a_chance_decays_to_nothing_and_none_runs_over() {
    // Without alpha and beta only the 2 % of section 4.2 are left; they take whole steps.
    let mut last = control(0.0, 0, 0);
    last.drop_prob = 60;
    (0..60).for_each(|_| last.update(&config("alpha=0,beta=0")));
    assert_eq!(last.drop_prob, 0);
    // A thousand packets at 1 kbit/s are 12 000 s; alpha and beta of 100 make 2.4e6 of that, and back.
    let steep = "alpha=100,beta=100,cap=off";
    near(updated(0.5, 12_000_000, 0, steep), 1.0);
    near(updated(0.5, 0, 12_000_000, steep), 0.0);
    near(updated(0.0, 12_000_000_000, 0, steep), 1.0);
}

#[test]
fn a_burst_after_a_calm_passes_for_max_burst() {
    let (c, mut dice) = (config("derandomize=off"), Dice::new(1));
    let mut control = PieState { burst_allowance: ms(150), ..control(1.0, 100, 100) };
    let long = Bytes(30_000);
    for _ in 0..10 {
        assert!(!control.decide(&c, long, &mut dice));
        control.update(&c);
    }
    assert!(control.decide(&c, long, &mut dice), "ten corrections of 15 ms are 150 ms");
    // Only once chance and both delays are low there is a new allowance.
    let mut calm = self::control(0.0, 7, 7);
    assert!(!calm.decide(&c, long, &mut dice));
    assert_eq!(calm.burst_allowance, ms(150));
    let mut not_yet = self::control(0.0, 7, 8);
    not_yet.decide(&c, long, &mut dice);
    assert_eq!(not_yet.burst_allowance, Duration::ZERO);
}

#[test]
fn nothing_is_dropped_from_a_short_queue_or_at_half_the_target() {
    let (c, mut dice) = (config("derandomize=off"), Dice::new(1));
    let mut decide = |p: f64, old_ms: u64, waiting: u64| {
        (0..1000).filter(|_| control(p, 100, old_ms).decide(&c, Bytes(waiting), &mut dice)).count()
    };
    assert_eq!(decide(1.0, 100, 2048), 0);
    assert_eq!(decide(1.0, 100, 2049), 1000);
    // Section 4.1: below half the target, unless the chance is 20 % or more.
    assert_eq!(decide(0.19, 7, 30_000), 0);
    let some = decide(0.21, 7, 30_000);
    // Binomial: mean 210, deviation 13.
    assert!((150..270).contains(&some), "{some}");
}

#[test]
fn drops_are_neither_close_nor_far_apart() {
    // Section 5.4 with 5 %: none among the first 16 (0.80), by chance from the 17th, the 170th (8.5) for certain.
    let (c, mut dice) = (config(""), Dice::new(3));
    let mut gaps = Vec::new();
    let mut control = control(0.05, 100, 100);
    let mut gap = 0;
    while gaps.len() < 2000 {
        gap += 1;
        if control.decide(&c, Bytes(30_000), &mut dice) {
            control.accu_prob = 0;
            gaps.push(gap);
            gap = 0;
        }
    }
    assert_eq!(gaps.iter().min(), Some(&17));
    assert!(gaps.iter().all(|&g| g <= 170));
    // 16 and a geometric wait of 20: mean 36, deviation of the mean 20 / sqrt(2000) = 0.44.
    let mean = f64::from(gaps.iter().sum::<i32>()) / 2000.0;
    assert!((33.8..38.2).contains(&mean), "{mean}");
    let mut rare = self::control(0.05, 100, 100);
    rare.accu_prob = percent(850);
    assert!(rare.decide(&c, Bytes(30_000), &mut dice));
}

#[test]
fn corrections_come_at_their_time_however_seldom_one_calls() {
    let at = |n: u64| Instant::ZERO + ms(n);
    let mut q = queue("steep=on");
    let mut v = Verdicts::new();
    for id in 0..100 {
        q.enqueue(at(0), packet(id, Ecn::NotEct), &mut v);
    }
    // One packet leaves after 400 ms: 26 corrections with no delay yet. At 1000 ms there have been 66: forty with 400
    // ms.
    q.dequeue(at(400), &mut v);
    let mut by_hand = PieState { current_qdelay: ms(400), ..PieState::default() };
    (0..40).for_each(|_| by_hand.update(&q.config));
    let mut polled = q.control;
    (0..40).for_each(|_| polled.update(&q.config));
    q.catch_up(at(1000));
    assert_eq!((q.control.drop_prob, q.control.qdelay_old), (polled.drop_prob, ms(400)));
    assert_eq!(by_hand.drop_prob, polled.drop_prob);
    // Days of rest cost nothing, and the grid stays.
    while q.dequeue(at(1000), &mut v).is_some() {}
    q.catch_up(at(1000 + 30 * 86_400_000));
    assert_eq!(q.control.drop_prob, 0);
    assert_eq!(q.update_at.unwrap().as_nanos() % 15_000_000, 0);
}

#[test]
fn the_delay_settles_at_the_target() {
    // Twice what the link carries, evenly: the chance must settle near one half, and the delay near 15 ms plus what
    // packets of 10 ms make of it.
    let mut q = queue("derandomize=off,cap=off");
    let mut v = Verdicts::new();
    let mut waits = Vec::new();
    for n in 0..40_000u64 {
        let now = Instant::ZERO + ms(5 * n);
        q.enqueue(now, packet(n, Ecn::NotEct), &mut v);
        if n % 2 == 1 && q.dequeue(now, &mut v).is_some() && n > 20_000 {
            waits.push(q.backlog().packets);
        }
    }
    let early = q.counters.dropped[Reason::Early as usize];
    assert!((17_000..21_000).contains(&early), "{early}");
    let mean = waits.iter().sum::<usize>() as f64 / waits.len() as f64;
    assert!((1.0..4.0).contains(&mean), "{mean} packets wait");
}

#[test]
fn marks_while_the_chance_is_small() {
    for (p, settings, marks) in
        [(0.099, "", true), (0.101, "", false), (0.099, "ecn=off", false), (0.9, "mark_ecnth=1", true)]
    {
        let mut q = queue(&format!("derandomize=off,{settings}"));
        let mut v = Verdicts::new();
        q.control = control(0.0, 0, 0);
        (0..50).for_each(|id| q.enqueue(Instant::ZERO, packet(id, Ecn::Ect0), &mut v));
        q.control = control(p, 100, 100);
        (50..150).for_each(|id| q.enqueue(Instant::ZERO, packet(id, Ecn::Ect0), &mut v));
        let marked = v.iter().filter(|v| matches!(v, Verdict::Marked { .. })).count();
        assert_eq!((marked > 0, v.len() - marked > 0), (marks, !marks), "{p} {settings}");
        // A packet that cannot be marked is dropped.
        let before = q.counters.dropped_total();
        (150..250).for_each(|id| q.enqueue(Instant::ZERO, packet(id, Ecn::NotEct), &mut v));
        assert!(q.counters.dropped_total() > before);
    }
    assert_eq!(PieConfig::read("target=0s").unwrap_err().key, "target");
}
