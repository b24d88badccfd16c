//! Numbers of the notes.

use narrows_testing::tables::BURST_WINDOWS;
use narrows_units::{Bytes, Duration, Rate};

use super::super::{After, BurstTcp, Form, Growth, Hop, Pareto, Path};
use super::{btcp, whole_windows};

/// Section 3.1: windows at the flow level, and the packets they come to, for 64 packets with a threshold of 32.
#[test]
fn flow_level() {
    #[rustfmt::skip]
    let table: [(u32, &[u64], &[u64]); 15] = [
        (2, &[1, 16, 24, 28], &[1, 17, 41, 69]),
        (3, &[1, 11, 18, 22, 25], &[1, 12, 30, 52, 77]),
        (4, &[1, 8, 14, 18, 21, 23], &[1, 9, 23, 41, 62, 85]),
        (5, &[1, 7, 12, 16, 19, 21], &[1, 8, 20, 36, 55, 76]),
        (6, &[1, 6, 10, 13, 16, 18], &[1, 7, 17, 30, 46, 64]),
        (7, &[1, 5, 8, 11, 14, 16, 18], &[1, 6, 14, 25, 39, 55, 73]),
        (8, &[1, 4, 7, 10, 12, 14, 16], &[1, 5, 12, 22, 34, 48, 64]),
        (9, &[1, 4, 7, 9, 11, 13, 15, 16], &[1, 5, 12, 21, 32, 45, 60, 76]),
        (10, &[1, 4, 6, 8, 10, 12, 14, 15], &[1, 5, 11, 19, 29, 41, 55, 70]),
        (11, &[1, 3, 5, 7, 9, 11, 12, 13, 14], &[1, 4, 9, 16, 25, 36, 48, 61, 75]),
        (12, &[1, 3, 5, 7, 9, 10, 11, 12, 13], &[1, 4, 9, 16, 25, 35, 46, 58, 71]),
        (13, &[1, 3, 5, 7, 8, 9, 10, 11, 12], &[1, 4, 9, 16, 24, 33, 43, 54, 66]),
        (14, &[1, 3, 5, 6, 7, 8, 9, 10, 11, 12], &[1, 4, 9, 15, 22, 30, 39, 49, 60, 72]),
        (15, &[1, 3, 4, 5, 6, 7, 8, 9, 10, 11], &[1, 4, 8, 13, 19, 26, 34, 43, 53, 64]),
        (16, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], &[1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 66]),
    ];
    for (f, windows, sent) in table {
        let rounds = BurstTcp::new(f, 32, Form::default()).unwrap().flow_level(1, 64).unwrap();
        let whole: Vec<u64> = rounds.windows.iter().map(|w| *w as u64).collect();
        assert_eq!((whole.as_slice(), rounds.sent.as_slice()), (windows, sent), "f {f}");
    }
    let slow_start = Growth::SLOW_START.rounds(1, 64).unwrap();
    assert_eq!(slow_start.windows, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
    assert_eq!(slow_start.sent, [1, 3, 7, 15, 31, 63, 127]);
    assert_eq!(slow_start.count(), 7);
}

/// Section 3.1: a pipe of 32 packets. Slow start sends 1 + 2 + .. + 32 and of the next 64 those 32 that fit; base 4
/// sends 1, 4, 16 and 32.
#[test]
fn overshoot() {
    let of = |base| Growth::SlowStart { base }.overshoot(1, 32).unwrap().unwrap();
    assert_eq!((of(2.0).sent, of(2.0).lost, of(2.0).round), (95, 32, 7));
    assert_eq!((of(4.0).sent, of(4.0).lost, of(4.0).round), (53, 32, 4));
    assert_eq!(Growth::SlowStart { base: 4.0 }.rounds(1, 85).unwrap().windows, [1.0, 4.0, 16.0, 64.0]);
    // Burst TCP as printed stays at its threshold, so a pipe of that size never overflows.
    assert_eq!(btcp(4, 32, Form::Printed).overshoot(1, 32).unwrap(), None);
}

/// Section 3.2: windows at the packet level, with the guard, as far as the notes go. They have 9 for the seventh at f =
/// 13, which is
/// 8.996: to two digits 9.00, and then its whole part.
#[test]
fn packet_level() {
    for (f, expected) in BURST_WINDOWS {
        let windows = whole_windows(btcp(f, 32, Form::default()), 1000);
        let expected: Vec<_> = expected.iter().copied().map(u64::from).collect();
        assert_eq!(windows[..expected.len()], expected, "f {f}");
    }
    // "Then doubles": the round in which it passes the threshold has both.
    let four = btcp(4, 32, Form::default()).rounds(1, 1000).unwrap().windows;
    let at = four.iter().position(|w| *w >= 32.0).unwrap();
    assert!((four[at + 1] - (four[at] + four[at].floor())).abs() < 1e-9);
    // With congestion avoidance instead, about a packet a round trip.
    let smooth = btcp(4, 32, Form::Guarded(After::CongestionAvoidance)).rounds(1, 1000).unwrap().windows;
    assert!(smooth.windows(2).skip(12).all(|w| w[1] > w[0] && w[1] - w[0] < 1.01), "{smooth:?}");
}

/// Section 3.2: the two printed forms near and above the threshold.
#[test]
fn packet_level_as_printed() {
    let four = btcp(4, 32, Form::Ns2).rounds(1, 2000).unwrap().windows;
    let guarded = btcp(4, 32, Form::default()).rounds(1, 2000).unwrap().windows;
    let at = four.iter().position(|w| *w >= 32.0).unwrap();
    assert_eq!(four[..at], guarded[..at]);
    assert_eq!(((four[at - 1] * 100.0).round(), (four[at] * 100.0).round()), (2718.0, 3201.0));
    // "Stays 32.0-32.3": for so many rounds; section 2 has "about 32-33" in the long run.
    assert!(four[at..at + 8].iter().all(|w| (32.0..32.35).contains(w)), "{four:?}");
    assert!(four[at..].iter().all(|w| (31.95..33.05).contains(w)), "{four:?}");
    let eight = btcp(8, 32, Form::Ns2).rounds(1, 2000).unwrap().windows;
    let hundredths: Vec<f64> = eight[15..19].iter().map(|w| (w * 100.0).round()).collect();
    assert_eq!(hundredths, [2345.0, 3297.0, 3198.0, 3206.0]);
    // "Pseudo-code locks at 32.0."
    let printed = btcp(4, 32, Form::Printed).rounds(1, 3000).unwrap().windows;
    let last = printed[printed.len() - 1];
    assert!((last - 32.0).abs() < 0.05, "{last}");
}

/// The long way of Fig. 10 and 12: 1.5 Mbit/s, 0.5 s, packets of 1024 B in all, ACKs of 40 B, which take time at the
/// same rate.
fn long_way(growth: Growth) -> f64 {
    let hop = Hop { rate: Rate::from_kbps(1500), delay: Duration::from_millis(500) };
    let path = Path { hops: vec![hop], data: Bytes(1024), ack: Bytes(40), syn: None };
    path.transfer(&growth, 1, 64).unwrap()[63].as_secs_f64()
}

fn printed(got: f64, expected: f64, digits: i32, what: &str) {
    let half = 0.5 * 10f64.powi(-digits);
    assert!((got - expected).abs() <= half * 1.0001, "{what}: {got}, printed {expected}");
}

/// Hundredths of seconds, from thousandths as the notes have them: their 10.10 at f = 13 is 10.09498, 9.10 at a
/// threshold of 16 is
/// 9.09476.
fn in_hundredths(got: f64, expected: f64, what: &str) {
    let thousandths = (got * 1e3).round();
    assert_eq!((thousandths / 10.0).round(), (expected * 1e2).round(), "{what}: {got}, printed {expected}");
}

/// Section 3.3, no loss, by f.
#[test]
fn times_by_factor() {
    printed(long_way(Growth::SLOW_START), 7.040, 3, "NewReno");
    let thousandths =
        [(2, 5.034), (3, 5.121), (4, 6.083), (5, 6.121), (6, 7.072), (7, 8.056), (8, 8.095), (9, 8.111)];
    let hundredths =
        [(10, 9.06), (11, 10.06), (12, 10.08), (13, 10.10), (14, 11.07), (15, 11.10), (16, 12.12)];
    for (f, expected) in thousandths {
        printed(long_way(btcp(f, 32, Form::default())), expected, 3, &format!("f {f}"));
    }
    for (f, expected) in hundredths {
        in_hundredths(long_way(btcp(f, 32, Form::default())), expected, &format!("f {f}"));
    }
}

/// Section 3.3, no loss, by threshold; the ns-2 code differs where the notes give it in brackets.
#[test]
fn times_by_threshold() {
    let table = [
        (8, 11.13, 11.13),
        (16, 9.10, 12.12),
        (24, 7.08, 10.08),
        (32, 6.08, 8.10),
        (40, 5.13, 7.10),
        (48, 5.08, 7.05),
        (56, 5.03, 6.09),
        (64, 4.14, 6.06),
        (72, 4.12, 5.14),
        (80, 4.09, 5.11),
    ];
    for (mice, four, eight) in table {
        in_hundredths(long_way(btcp(4, mice, Form::default())), four, &format!("f 4, mice_t {mice}"));
        in_hundredths(long_way(btcp(8, mice, Form::default())), eight, &format!("f 8, mice_t {mice}"));
    }
    for (f, mice, expected) in [(4, 8, 12.09), (8, 8, 11.07), (8, 16, 11.13)] {
        in_hundredths(
            long_way(btcp(f, mice, Form::Ns2)),
            expected,
            &format!("ns-2 code, f {f}, mice_t {mice}"),
        );
    }
}

/// Section 3.4, decoded from Table II: the dumbbell, the SYN as packet 0, to the microsecond.
#[test]
fn times_in_the_dumbbell() {
    let side = Hop { rate: Rate::from_kbps(10_000), delay: Duration::from_millis(5) };
    let bottleneck = Hop { rate: Rate::from_kbps(1500), delay: Duration::from_millis(35) };
    let path =
        Path { hops: vec![side, bottleneck, side], data: Bytes(1064), ack: Bytes(40), syn: Some(Bytes(40)) };
    let table = [
        (4, 285_863, 199_558, 199_558),
        (5, 291_538, 205_233, 205_233),
        (6, 297_213, 210_908, 285_863),
        (7, 302_887, 216_582, 291_538),
        (8, 383_518, 222_257, 297_213),
        (9, 389_193, 227_932, 302_887),
        (12, 406_217, 297_213, 383_518),
        (16, 481_172, 319_911, 406_217),
        (24, 526_570, 394_867, 503_871),
        (32, 578_827, 440_265, 590_176),
    ];
    let growths = [Growth::SLOW_START, btcp(4, 32, Form::default()), btcp(8, 32, Form::default())];
    for (packets, newreno, four, eight) in table {
        let micros = growths.map(|growth| {
            let acked = path.transfer(&growth, 1, packets).unwrap();
            (acked[acked.len() - 1].as_secs_f64() * 1e6).round() as u64
        });
        assert_eq!(micros, [newreno, four, eight], "{packets} packets");
    }
    let acked = path.transfer(&Growth::SLOW_START, 1, 2).unwrap();
    printed(acked[0].as_secs_f64(), 0.090_555, 6, "r_syn");
    printed((acked[1].as_nanos() - acked[0].as_nanos()) as f64 * 1e-9, 0.097_654, 6, "r");
}

/// Section 3.5: mean 24, 8.2 % above 32, median 7.1, of the mice 6.7.
#[test]
fn workload() {
    let sizes = Pareto::new(4.0, 1.2).unwrap();
    printed(sizes.mean().unwrap(), 24.0, 9, "mean");
    printed(sizes.above(32.0) * 100.0, 8.2, 1, "elephants");
    printed(sizes.exceeded_by(0.5).unwrap(), 7.1, 1, "median");
    printed(sizes.median_up_to(32.0).unwrap(), 6.7, 1, "median of mice");
    assert_eq!(Pareto::new(4.0, 1.0).unwrap().mean(), None);
    assert!(Pareto::new(0.0, 1.2).is_err() && Pareto::new(4.0, f64::NAN).is_err());
    assert!(
        sizes.exceeded_by(0.0).is_err()
            && sizes.median_up_to(4.0).is_err()
            && sizes.median_up_to(f64::NAN).is_err()
    );
}
