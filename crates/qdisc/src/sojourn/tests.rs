use narrows_units::Rate;

use super::*;

/// RFC 8289, sections 4.2 and 4.3.
fn rfc() -> Law {
    Law { target: ms(5), interval: ms(100), mtu: Bytes(1500) }
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

const MUCH: Bytes = Bytes(30_000);

/// Packets that leave each millisecond from `from` up to `to`, all having waited 20 ms with much behind: when one is
/// told.
fn signalled(codel: &mut CodelState, from: u64, to: u64) -> Vec<u64> {
    (from..to)
        .filter(|&t| {
            let mut before = Before::Nothing;
            let mut any = false;
            while let Some(next) = codel.decide(&rfc(), at(t), ms(20), MUCH, before) {
                (before, any) = (next, true);
            }
            any
        })
        .collect()
}

#[test]
fn drops_come_at_interval_over_root_count() {
    // Above target from 1 ms: a first drop 100 ms later. From there 100/sqrt(n): + 100, + 70.71, + 57.74, + 50, +
    // 44.72, ...
    let due = [101.0, 201.0, 271.71, 329.45, 379.45, 424.17, 464.99];
    let seen = signalled(&mut CodelState::default(), 1, 470);
    assert_eq!(seen, due.map(|t: f64| t.ceil() as u64));
}

#[test]
fn the_law_by_hand() {
    // 100 ms / sqrt(2) = 70.710678 ms; sqrt(3): 57.735027; 10: 31.622777; 1000: 3.162278; 10^6: 0.1.
    for (count, ns) in
        [(2, 70_710_678), (3, 57_735_026), (10, 31_622_776), (1000, 3_162_277), (1_000_000, 100_000)]
    {
        let gap = rfc().next(at(0), count).as_nanos();
        assert!(ns - 2 <= gap && gap <= ns + 1, "{count}: {gap}");
    }
    for count in (2..100_000).chain([u32::MAX - 1, u32::MAX]) {
        let x = u128::from(inverse_sqrt(count));
        // x <= 2^32 / sqrt(count), and x + 5 is above: squares, so that no root is needed.
        let square = |x: u128| x * x * u128::from(count);
        assert!(square(x) <= 1 << 64 && square(x + 5) > 1 << 64, "{count}: {x}");
    }
}

#[test]
fn no_drop_below_target_nor_with_one_packet_behind() {
    let mut codel = CodelState::default();
    for t in 1..1000 {
        assert_eq!(codel.decide(&rfc(), at(t), ms(4), MUCH, Before::Nothing), None);
        assert_eq!(codel.decide(&rfc(), at(t), ms(400), Bytes(1500), Before::Nothing), None);
    }
    // A single packet below target within the interval starts it anew.
    assert_eq!(signalled(&mut codel, 1000, 1099), [0; 0]);
    codel.decide(&rfc(), at(1099), ms(4), MUCH, Before::Nothing);
    assert_eq!(signalled(&mut codel, 1100, 1202), [1200]);
}

#[test]
fn a_second_spell_takes_up_the_count_of_the_first() {
    let mut codel = CodelState::default();
    // Six drops until 425 (hand-worked above), the count then 6, of which 5 since the spell began with 1.
    assert_eq!(signalled(&mut codel, 1, 430).len(), 6);
    codel.decide(&rfc(), at(430), ms(1), MUCH, Before::Nothing);
    // Again above from 440: first drop at 540. The last was due at 464.99, less than 1.6 s ago: count = 6 - 1 = 5, and
    // the next come 100/sqrt(5) = 44.72 and 100/sqrt(6) = 40.82 ms later.
    assert_eq!(signalled(&mut codel, 440, 640), [540, 585, 626]);
}

#[test]
fn after_sixteen_intervals_the_count_is_forgotten() {
    let mut codel = CodelState::default();
    assert_eq!(signalled(&mut codel, 1, 430).len(), 6);
    codel.decide(&rfc(), at(430), ms(1), MUCH, Before::Nothing);
    // The spell begins at 2100, 1635 ms after the drop that was due at 464.99.
    assert_eq!(signalled(&mut codel, 2000, 2250), [2100, 2200]);
}

#[test]
fn one_call_drops_as_many_as_are_due() {
    let mut codel = CodelState::default();
    signalled(&mut codel, 1, 102);
    // At 350 those of 201, 271.71 and 329.45 are due; the fourth packet is sent.
    let mut before = Before::Nothing;
    for _ in 0..3 {
        let next = codel.decide(&rfc(), at(350), ms(20), MUCH, before);
        assert_eq!(next, Some(Before::Drop));
        before = next.unwrap();
    }
    assert_eq!(codel.decide(&rfc(), at(350), ms(20), MUCH, before), None);
    assert_eq!((codel.count, codel.drop_next.as_nanos() / 10_000), (4, 37_944));
}

#[test]
fn marks_keep_the_schedule_of_drops() {
    let mut codel = CodelState::default();
    let mut seen = Vec::new();
    for t in 1..470 {
        if let Some(signal) = codel.decide(&rfc(), at(t), ms(20), MUCH, Before::Nothing) {
            codel.marked(&rfc(), signal);
            seen.push(t);
        }
    }
    assert_eq!(seen, [101, 201, 272, 330, 380, 425, 465]);
}

#[test]
fn the_target_of_a_thin_link() {
    // 1500 B at 600 kbit/s take 20 ms: target 30 ms, 25 more than 5; interval 125 ms.
    let link = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(600)) };
    let scaled = Law::on(&link, ms(5), ms(100), true);
    assert_eq!((scaled.target, scaled.interval), (ms(30), ms(125)));
    assert_eq!(Law::on(&link, ms(5), ms(100), false), rfc());
    assert_eq!(Law::on(&link, ms(40), ms(100), true).target, ms(40));
    // At 60 kbit/s: 200 ms a packet, 300 ms of target, and an interval of at least twice that.
    let thin = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(60)) };
    assert_eq!(Law::on(&thin, ms(5), ms(100), true).interval, ms(600));
}

#[test]
fn no_spell_outlasts_the_queue() {
    // Drops at 101 and 201 ms, the next due at 271.7; then the queue is found empty, and comes back after 3 s.
    let mut codel = CodelState::default();
    assert_eq!(signalled(&mut codel, 1, 260), [101, 201]);
    // Were the spell to go on, all the drops of 3 s would be made good at once. RFC 8289: an interval passes first.
    codel.emptied();
    assert_eq!(signalled(&mut codel, 3260, 3400), [3360]);
}
