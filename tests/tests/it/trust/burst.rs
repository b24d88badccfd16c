//! Burst TCP's transfers over an empty path: "Burst TCP" (Gonçalves), Table II's uncongested times and Fig. 10 to 12.
//! What slow start takes is in `times.rs`.

use super::{column, coordinate, runs, simulate};

/// 64 packets of 1024 B with their headers, 1.5 Mbit/s both ways, 0.5 s one way: a slot of 5.461333 ms, an ACK of
/// 0.213333 ms.
const LONG_WAY: [&str; 3] = ["mtu=1024", "traffic.0.size=62976", "link.bottleneck.back_rate=1.5mbit"];

/// When the last packet is acknowledged over the long way, seconds, without a loss and with one.
fn acked(f: u32, more: &[&str]) -> [f64; 2] {
    let start = ["tcp.startup=burst", &format!("tcp.burst_f={f}")];
    let sets: Vec<&str> = LONG_WAY.into_iter().chain(start).chain(more.iter().copied()).collect();
    let runs = runs("one-loss.toml", &sets);
    [&runs[0], &runs[1]].map(|run| column(&simulate(run), "transfers", "acked_s")[0])
}

/// Table II: the paper's medians on a path that is nearly empty are these times, in microseconds; files of 8 and 9
/// packets stand in it for NewReno, 9 for B-TCP(4) and B-TCP(8). By hand, with the path of `times.rs`: the SYN's
/// acknowledgment at r_syn = 90.555 ms opens the window to 8 (f = 4) or 4 (f = 8), so a 9th packet with the SYN ends at
/// r_syn + r + 7 slots = 227.932 ms, and with f = 8, as the first of its window's ACKs lets three go, at r_syn + 2 r +
/// 3 slots = 302.887 ms.
#[test]
fn transfers_over_the_empty_dumbbell() {
    let table: [(u32, u32, u32); 10] = [
        (4, 199_558, 199_558),
        (5, 205_233, 205_233),
        (6, 210_908, 285_863),
        (7, 216_582, 291_538),
        (8, 222_257, 297_213),
        (9, 227_932, 302_887),
        (12, 297_213, 383_518),
        (16, 319_911, 406_217),
        (24, 394_867, 503_871),
        (32, 440_265, 590_176),
    ];
    for f in [4, 8] {
        let sets = ["tcp.startup=burst", &format!("tcp.burst_f={f}")];
        for (run, (packets, four, eight)) in runs("dumbbell-times.toml", &sets).iter().zip(table) {
            assert_eq!(coordinate(run, "packets"), f64::from(packets));
            let got = column(&simulate(run), "transfers", "acked_s")[0];
            assert_eq!(
                (got * 1e6).round(),
                f64::from(if f == 4 { four } else { eight }),
                "f {f}, {packets} packets"
            );
        }
    }
}

/// Whether `got` seconds are `due`, given in milliseconds and, with `parts` of a second, rounded once more.
fn is(got: f64, due: f64, parts: f64) -> bool {
    ((got * 1e3).round() * parts / 1e3).round() == (due * parts).round()
}

/// Fig. 10a: by f, without loss. By hand for f = 4: windows of 8, 12, 15, 18, 20 follow the first packet, so the 64th
/// is the tenth of the sixth: 6 r + 9 slots, and r = 1 s + a slot + an ACK: 6.0832 s. Slow start takes 7 r = 7.0397 s:
/// f = 5 is faster, 6 about equal, 7 to 9 a round trip slower.
#[test]
fn by_the_smoothing_factor() {
    let table: [(u32, f64, f64); 15] = [
        (2, 5.034, 1e3),
        (3, 5.121, 1e3),
        (4, 6.083, 1e3),
        (5, 6.121, 1e3),
        (6, 7.072, 1e3),
        (7, 8.056, 1e3),
        (8, 8.095, 1e3),
        (9, 8.111, 1e3),
        (10, 9.06, 1e2),
        (11, 10.06, 1e2),
        (12, 10.08, 1e2),
        (13, 10.10, 1e2),
        (14, 11.07, 1e2),
        (15, 11.10, 1e2),
        (16, 12.12, 1e2),
    ];
    let got: Vec<_> = table.iter().map(|(f, ..)| acked(*f, &[])[0]).collect();
    println!("{got:?}");
    for ((f, due, parts), got) in table.into_iter().zip(got) {
        assert!(is(got, due, parts), "f {f}: {got} s, not {due}");
    }
}

/// Fig. 10b: and with one loss, of the first packet whose sending ends after 3 s. Up to f = 8 it is not slower than
/// NewReno's
/// 12.117 s, f = 9 is. The times of another simulator in hundredths; what half of a window is that is no whole number,
/// NewReno's rules leave open, so three slots may lie between. Left out are f = 3, where half of cwnd and half of
/// `FlightSize` part by a round trip, and f = 16, where a window of three leaves the loss to the timer.
#[test]
fn by_the_smoothing_factor_with_a_loss() {
    let half = ["tcp.reduce_from=flight_size"];
    let table = [5.11, 8.11, 9.11, 10.10, 11.11, 12.10, 13.09, 13.10, 13.12, 13.12, 13.12, 14.13, 15.12];
    let got: Vec<_> = [2].into_iter().chain(4..=15).map(|f| acked(f, &half)[1]).collect();
    println!("{got:?}");
    for (got, due) in got.iter().zip(table) {
        assert!((got - due).abs() < 0.02, "{got} s, not {due}");
    }
    let newreno = acked(8, &["tcp.startup=slow_start", half[0]])[1];
    assert!(is(newreno, 12.12, 1e2), "{newreno}");
    assert!(acked(8, &half)[1] < newreno && newreno < acked(9, &half)[1]);
}

/// Fig. 12: by the mice threshold, without loss, f = 4 and 8; and what the thesis' own ns-2 code takes where that
/// differs.
#[test]
fn by_the_mice_threshold() {
    let table: [(u32, [f64; 2]); 10] = [
        (8, [11.13, 11.13]),
        (16, [9.10, 12.12]),
        (24, [7.08, 10.08]),
        (32, [6.08, 8.10]),
        (40, [5.13, 7.10]),
        (48, [5.08, 7.05]),
        (56, [5.03, 6.09]),
        (64, [4.14, 6.06]),
        (72, [4.12, 5.14]),
        (80, [4.09, 5.11]),
    ];
    let code = [(8, 0, 12.09), (8, 1, 11.07), (16, 1, 11.13)];
    let mut wrong = vec![];
    for (mice, due) in table {
        for (at, f) in [4, 8].into_iter().enumerate() {
            let threshold = format!("tcp.mice_threshold={mice}");
            let got = acked(f, &[&threshold])[0];
            let ns2 = acked(f, &[&threshold, "tcp.burst_step=ns2"])[0];
            let due_ns2 = code.iter().find(|c| (c.0, c.1) == (mice, at)).map_or(due[at], |c| c.2);
            println!("mice_t {mice}, f {f}: {got}, ns-2 code {ns2}");
            if !is(got, due[at], 1e2) || !is(ns2, due_ns2, 1e2) {
                wrong.push((mice, f, got, ns2));
            }
        }
    }
    assert_eq!(wrong, []);
}
