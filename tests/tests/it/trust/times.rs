//! Transfers over an empty path take as long as addition says: "Burst TCP" (Gonçalves), Table II and Fig. 10, NewReno.

use narrows_testing::tables::DUMBBELL_TIMES;

use super::{column, coordinate, runs, simulate};

/// Nanoseconds to put `bytes` on a link, rounded up as in `units`.
const fn nanos(bytes: u64, bits_per_second: u64) -> u64 {
    (bytes * 8 * 1_000_000_000).div_ceil(bits_per_second)
}

/// Data packets of slow start from a window of one, without delayed ACKs, over a path wide enough for all of them: when
/// the `n`th, from 1, is acknowledged, in nanoseconds after the first window is sent. Windows are `first`, twice that,
/// and so on; each window is sent as ACKs of the one before it come in, two packets each, and so leaves the bottleneck
/// packet behind packet, a `slot` apart. A window begins with the first ACK of the one before: the rounds are `r`
/// apart.
fn acknowledged(n: u64, first: u64, r: u64, slot: u64) -> u64 {
    let (mut window, mut before, mut rounds) = (first, 0, 1);
    while before + window < n {
        (before, window, rounds) = (before + window, 2 * window, rounds + 1);
    }
    rounds * r + (n - before - 1) * slot
}

/// Table II: a 1064 B packet takes 0.8512 ms on either side link and a slot of 5.674667 ms at the bottleneck, an ACK of
/// 40 B 0.032 ms and 0.213333 ms, and propagation is 45 ms each way. So r = 97.6544 ms, and r_syn, of 40 B both ways,
/// 90.554667 ms. The SYN's acknowledgment opens the window to two. The column is the paper's, in microseconds.
#[test]
fn transfers_over_the_empty_dumbbell() {
    let slot = nanos(1064, 1_500_000);
    let there = |bytes| 2 * nanos(bytes, 10_000_000) + nanos(bytes, 1_500_000) + 45_000_000;
    let (r, r_syn) = (there(1064) + there(40), 2 * there(40));
    assert_eq!((r, r_syn, slot), (97_654_401, 90_554_668, 5_674_667));
    let runs = runs("dumbbell-times.toml", &[]);
    assert_eq!(runs.len(), DUMBBELL_TIMES.len());
    for (run, (packets, micros)) in runs.iter().zip(DUMBBELL_TIMES) {
        assert_eq!(coordinate(run, "packets"), f64::from(packets));
        let acked = column(&simulate(run), "transfers", "acked_s");
        let by_hand = r_syn + acknowledged(u64::from(packets) - 1, 2, r, slot);
        println!("{packets} packets: {acked:?} s, by hand {by_hand} ns, Table II {micros} us");
        assert_eq!(acked.len(), 1);
        assert_eq!((acked[0] * 1e6).round(), f64::from(micros), "{packets} packets");
        // Here and there a nanosecond is rounded up that the sum has not.
        assert!((acked[0] * 1e9 - by_hand as f64).abs() < 10.0, "{packets} packets");
    }
}

/// Fig. 10: 64 packets, 1.5 Mbit/s, 0.5 s one way, window 1, nothing but the bottleneck takes time: r = 1 s + slot.
///
/// Without loss, windows of 1, 2, .. 32 make 63 packets; the 64th begins the seventh: 7 r = 7.0397 s.
///
/// With a loss (of the first packet whose sending ends after 3 s: the 8th, which begins the fourth window at 3 r =
/// 3.017 s) packets 9 to 15 give seven duplicate ACKs, from 4 r + s on, a slot s apart. The third, at 4 r + 3 s, has
/// packet 8 sent again, ssthresh 4, and a window of 7; the last four widen it to 11, which lets 16, 17, 18 go. At 5 r +
/// 3 s all up to 15 is acknowledged; the window is 4, in which 16 to 18 are under way, so 19 goes, and with this ACK
/// congestion avoidance begins: 1/cwnd each. The windows that follow begin at 3 s after 5 r, 6 r, ..: packets 19-22,
/// and, as ACK 19 brings the window past 5 and so on, 23-27, 28-33, 34-40, 41-48, 49-57, 58-64. The last, seventh of
/// its window, is acknowledged at 12 r + (3 + 6) s = 12.1192 s.
///
/// So it is without limited transmit. With it (ns-2's default) 16 and 17 go at the first two duplicate ACKs, 18 at the
/// sixth and 19 at the seventh, and all that follows is a packet ahead.
#[test]
fn one_loss_on_a_long_way() {
    let slot = nanos(1064, 1_500_000);
    let r = 1_000_000_000 + slot;
    let acked = |sets: &[&str]| {
        let runs = runs("one-loss.toml", sets);
        runs.iter().map(|run| column(&simulate(run), "transfers", "acked_s")[0]).collect::<Vec<_>>()
    };
    let (table, default) = (acked(&[]), acked(&["tcp.limited_transmit=on"]));
    println!("{table:?}, with limited transmit {default:?}");
    for (got, by_hand) in [
        (table[0], 7 * r),
        (table[1], 12 * r + 9 * slot),
        (default[0], acknowledged(64, 1, r, slot)),
        (default[1], 12 * r + 8 * slot),
    ] {
        // ACKs and side links take some nanoseconds each time.
        let late = got * 1e9 - by_hand as f64;
        assert!((0.0..10_000.0).contains(&late), "{got} s, by hand {by_hand} ns");
    }
    // The notes give 7.040 s and 12.12 s.
    assert_eq!(((table[0] * 1e3).round(), (table[1] * 1e2).round()), (7040.0, 1212.0));
}
