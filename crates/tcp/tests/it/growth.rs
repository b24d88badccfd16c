//! How the window grows and what marks do to it: a path of 100 ms without a rate, so that rounds begin at whole
//! tenths of a second; segments of 1000 bytes.

use crate::common::{Act, SegmentFate, Side, Wire, WirePath};
use narrows_tcp::{Config, TcpEvent};
use narrows_units::{Duration, Ecn, Instant};
use narrows_wire::Flags;

fn config(settings: &str) -> Config {
    format!("rfc:handshake=none,mss=1000,{settings}").parse().expect("settings of a test")
}

const fn ms(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000_000)
}

/// cwnd in the middle of each of the first `rounds` round trips of an endless transfer.
fn windows(config: Config, rounds: u64, mut fate: impl FnMut(u64) -> SegmentFate) -> Vec<f64> {
    let mut sent = 0;
    let mut wire = Wire::new(config, WirePath::delay_ms(50), move |side, _, _| {
        sent += u64::from(side == Side::A);
        if side == Side::A { fate(sent) } else { SegmentFate::Pass }
    });
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(u64::MAX));
    let middle = |round| ms(100 * round + 75);
    (0..rounds)
        .map(|round| {
            wire.run_until(middle(round));
            wire.ends[0].cwnd()
        })
        .collect()
}

fn no_loss(settings: &str, rounds: u64) -> Vec<f64> {
    windows(config(settings), rounds, |_| SegmentFate::Pass)
}

#[test]
fn rfc_5681_slow_start() {
    let each = "initial_window=2,delayed_ack=off,byte_counting=per_ack";
    assert_eq!(no_loss(each, 6), [2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
    // Every second segment is acknowledged: half as many ACKs, half as much again per round.
    let delayed = "initial_window=4,delayed_ack=2,byte_counting=per_ack";
    assert_eq!(no_loss(delayed, 3), [4.0, 6.0, 9.0]);
}

#[test]
fn rfc_3465_counts_bytes() {
    // Section 2.2: with L = 2 an ACK for two segments opens the window by two, with L = 1 by one.
    assert_eq!(no_loss("initial_window=4,delayed_ack=2,byte_counting=2", 5), [4.0, 8.0, 16.0, 32.0, 64.0]);
    assert_eq!(no_loss("initial_window=4,delayed_ack=2,byte_counting=1", 3), [4.0, 6.0, 9.0]);
    // Section 2.1: in congestion avoidance a window of bytes makes a segment, however few the ACKs; counting ACKs
    // gives half.
    let grown = |counting: &str| {
        let w = no_loss(
            &format!("initial_window=10,initial_ssthresh=10,delayed_ack=2,byte_counting={counting}"),
            9,
        );
        w[8] - w[0]
    };
    // Eight rounds, each a little short, as only whole segments leave.
    assert!((7.0..8.0).contains(&grown("1")), "{}", grown("1"));
    assert!((3.3..4.0).contains(&grown("per_ack")), "{}", grown("per_ack"));
}

#[test]
fn rfc_5681_congestion_avoidance() {
    let w = no_loss("initial_window=8,initial_ssthresh=8,delayed_ack=off,byte_counting=per_ack", 11);
    // The window grows by 1 / cwnd for each ACK, one ACK a whole segment: a little less than one segment a round.
    assert!(w.windows(2).all(|w| (0.85..=1.0).contains(&(w[1] - w[0]))), "{w:?}");
}

#[test]
fn rfc_9438_follows_its_curve() {
    // A loss at 100 leaves 70 (Reno-like recovery apart); K = cbrt(30 / 0.4) = 4.217 s. At t = 1, 2, 3, 4 and 5 s
    // W(t) = 100 + 0.4 (t - K)^3 = 86.7, 95.6, 99.3, 100.0 and 100.2. Reno's estimate is at 70 + 10 t * 0.529 = 75.3,
    // 80.6, 85.9, 91.2 and 96.5: below. The window is where the curve is one RTT later, as far as a round's ACKs
    // carry it.
    let settings = "initial_window=100,initial_ssthresh=100,congestion=cubic,delayed_ack=off";
    let w = windows(config(settings), 56, |n| if n == 1 { SegmentFate::Drop } else { SegmentFate::Pass });
    // The loss is known at 100 ms and repaired at 200 ms: avoidance begins with round 2.
    let due = [86.7, 95.6, 99.3, 100.0, 100.2];
    for (second, due) in due.iter().enumerate() {
        let is = w[10 * (second + 1) + 2];
        assert!((is - due).abs() < 1.0, "after {} s: {is}, not {due}", second + 1);
    }
    assert_eq!(w[1], 70.0);
}

#[test]
fn rfc_9438_small_windows_are_reno_s() {
    // Section 4.3: after a loss at 10 the estimate grows by 0.529 a round, where CUBIC's own curve would take K =
    // 1.957 s for 3.
    let settings = "initial_window=10,initial_ssthresh=10,congestion=cubic,delayed_ack=off";
    let w = windows(config(settings), 7, |n| if n == 1 { SegmentFate::Drop } else { SegmentFate::Pass });
    for round in 3..6 {
        let step = w[round + 1] - w[round];
        assert!((0.4..0.6).contains(&step), "{w:?}");
    }
}

#[test]
fn rfc_3168_one_reduction_for_a_window_of_marks() {
    let mut sent = 0;
    // The first window of ten, of which the third and the seventh segment are marked; later the 30th.
    let mut wire = Wire::new(
        config("initial_window=10,ecn=on,delayed_ack=off,byte_counting=per_ack"),
        WirePath::delay_ms(50),
        |side, _, segment| {
            if side == Side::A && segment.tcp.payload > 0 {
                assert_eq!(segment.ecn, Ecn::Ect0);
                sent += 1;
                if matches!(sent, 3 | 7 | 30) {
                    return SegmentFate::Mark;
                }
            }
            SegmentFate::Pass
        },
    );
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(50_000));
    wire.run_until(ms(150));
    // Two ACKs opened the window to 12; the third halves it, once. From there on ACKs open it by 1 / cwnd each.
    let reduced = |wire: &Wire<'_>| wire.count(Side::A, |e| *e == TcpEvent::EcnReduced);
    assert_eq!(reduced(&wire), 1);
    let ssthresh = wire.ends[0].ssthresh();
    assert!((4.0..=6.0).contains(&ssthresh) && wire.ends[0].cwnd() < ssthresh + 2.0, "{ssthresh}");
    wire.run();
    assert_eq!((reduced(&wire), wire.ends[0].counters().retransmitted), (2, 0));
    assert_eq!(wire.delivered(Side::B), 50_000);
    // Section 6.1.2: CWR on the first new segment after each reduction, and on no other; 6.1.3: echoes end with it.
    let has =
        |side, flag| wire.log.iter().filter(|s| s.from == side && s.segment.tcp.flags.has(flag)).count();
    assert_eq!(has(Side::A, Flags::CWR), 2);
    assert!(has(Side::B, Flags::ECE) < 30);
    assert!(
        !wire.log.iter().rfind(|s| s.from == Side::B).is_some_and(|s| s.segment.tcp.flags.has(Flags::ECE))
    );
}

#[test]
fn rfc_5681_after_idling_the_window_is_the_initial_one() {
    for (settings, due) in [("restart_after_idle=on", 4), ("restart_after_idle=off", 20)] {
        let settings = format!("initial_window=4,delayed_ack=off,grow_if_used=on,{settings}");
        let mut wire = Wire::new(config(&settings), WirePath::delay_ms(50), |_, _, _| SegmentFate::Pass);
        wire.act(Side::A, Act::Open);
        wire.act(Side::A, Act::Write(60_000));
        wire.run();
        wire.run_until(wire.now + Duration::from_secs(2));
        let before = wire.log.len();
        wire.act(Side::A, Act::Write(20_000));
        assert_eq!(wire.log.len() - before, due, "{settings}");
    }
}
