//! RACK and TLP (RFC 8985) on a path of 100 ms, ten segments in the first flight, no delayed ACKs: worked by hand.

use crate::common::{Act, SegmentFate, Side, Wire, WirePath, of_copies};
use narrows_tcp::{Config, TcpEvent};
use narrows_units::{Duration, Instant};

fn config(more: &str) -> Config {
    format!("rfc:handshake=none,delayed_ack=off,mss=1000,initial_window=10,dsack=on,rack_tlp=on,{more}")
        .parse()
        .expect("settings of a test")
}

/// Sends `segments` of them at once; `fate` is asked for each copy, counted from 1, of each segment.
fn run<'a>(config: Config, segments: u64, fate: impl FnMut(u32, usize) -> SegmentFate + 'a) -> Wire<'a> {
    let mut wire = Wire::new(config, WirePath::delay_ms(50), of_copies(fate));
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(segments * 1000));
    wire.run();
    assert_eq!(wire.delivered(Side::B), segments * 1000);
    wire
}

/// The first copies of segment `n` are lost, and nothing else.
fn lost(n: u32, copies: usize) -> impl FnMut(u32, usize) -> SegmentFate {
    move |m, copy| if m == n && copy <= copies { SegmentFate::Drop } else { SegmentFate::Pass }
}

fn timeouts(wire: &Wire<'_>) -> usize {
    wire.count(Side::A, |e| matches!(e, TcpEvent::Timeout { .. }))
}

/// Data segments sent after the first flight.
fn later(wire: &Wire<'_>) -> Vec<(u64, u32)> {
    wire.data(Side::A).into_iter().filter(|s| s.0 > 0).collect()
}

#[test]
fn a_lost_last_segment_is_probed() {
    // Section 7.2: PTO = 2 * SRTT + 200 ms for a delayed ACK, as one segment is out, from the last ACK on: 100 + 400
    // ms.
    let wire = run(config(""), 10, lost(10, 1));
    assert_eq!((later(&wire), timeouts(&wire)), (vec![(500, 10)], 0));
    assert_eq!(wire.now, Instant::ZERO + Duration::from_millis(600));
    // Without it the timer waits for a second after the last ACK.
    let wire = run(config("rack_tlp=off"), 10, lost(10, 1));
    assert_eq!((later(&wire), timeouts(&wire)), (vec![(1100, 10)], 1));
}

#[test]
fn a_lost_tail_is_found_by_its_probe() {
    // The probe repeats the last segment after 2 * SRTT; its SACK at 400 ms tells that 8 and 9, sent 400 ms ago, are
    // lost.
    let wire = run(
        config(""),
        10,
        |n, copy| if n >= 8 && copy == 1 { SegmentFate::Drop } else { SegmentFate::Pass },
    );
    assert_eq!((later(&wire), timeouts(&wire)), (vec![(300, 10), (400, 8), (400, 9)], 0));
}

#[test]
fn a_probe_that_repairs_halves_the_window_once() {
    // Section 7.4.2: known only when more is acknowledged without a D-SACK.
    let mut wire = run(config(""), 10, lost(10, 1));
    assert!(wire.ends[0].ssthresh().is_infinite());
    wire.act(Side::A, Act::Write(4000));
    wire.run();
    // Four segments were out.
    assert_eq!((wire.ends[0].ssthresh(), wire.ends[0].counters().fast_retransmits), (2.0, 0));
}

#[test]
fn a_probe_that_was_not_needed_costs_nothing() {
    // The last segment is late by 450 ms: probe at 500 ms, and a D-SACK for whichever copy comes second.
    let late = SegmentFate::Late(Duration::from_millis(450));
    let mut wire =
        run(config(""), 10, move |n, copy| if (n, copy) == (10, 1) { late } else { SegmentFate::Pass });
    assert_eq!(later(&wire), [(500, 10)]);
    wire.act(Side::A, Act::Write(4000));
    wire.run();
    assert!(wire.ends[0].ssthresh().is_infinite());
}

#[test]
fn a_lost_copy_is_sent_again_without_a_timeout() {
    // 3 and its copy of 100 ms are lost. What the ACKs of 1 and 2 let go at 100 ms is SACKed at 200 ms: it was sent
    // after the copy.
    let wire = run(config(""), 20, lost(3, 2));
    let third: Vec<_> = wire.data(Side::A).into_iter().filter(|s| s.1 == 3).collect();
    assert_eq!((third, timeouts(&wire)), (vec![(0, 3), (100, 3), (200, 3)], 0));
    let wire = run(config("rack_tlp=off"), 20, lost(3, 2));
    assert_eq!(timeouts(&wire), 1);
}

#[test]
fn reordering_within_a_quarter_of_the_round_trip_is_no_loss() {
    // Two segments overtake the ninth (fewer than tell a loss): the window is min_RTT / 4 = 25 ms, and its timer 2 ms
    // late.
    for (late, copies) in [(26, 1), (28, 2)] {
        let late = SegmentFate::Late(Duration::from_millis(late));
        let wire =
            run(config(""), 10, move |n, copy| if (n, copy) == (9, 1) { late } else { SegmentFate::Pass });
        let ninth = wire.data(Side::A).into_iter().filter(|s| s.1 == 9).collect::<Vec<_>>();
        assert_eq!(ninth.len(), copies, "{ninth:?}");
        assert_eq!(ninth.last(), Some(&(if copies == 1 { 0 } else { 127 }, 9)));
    }
}

#[test]
fn three_above_it_tell_a_loss_at_once_while_no_reordering_was_seen() {
    let wire = run(config(""), 10, lost(7, 1));
    assert_eq!(later(&wire), [(100, 7)]);
}

#[test]
fn a_needless_copy_widens_the_window() {
    // Section 6.2, step 4. 9 overtaken shows reordering. 15 comes 30 ms late: sent again after 25 ms, and the D-SACK
    // makes the window 2 * 25 ms. Then 42 comes 45 ms late, or 55.
    for (late, copies) in [(45, 1), (55, 2)] {
        let mut wire = run(config(""), 40, move |n, copy| match (n, copy) {
            (9, 1) => SegmentFate::Late(Duration::from_millis(20)),
            (15, 1) => SegmentFate::Late(Duration::from_millis(30)),
            (42, 1) => SegmentFate::Late(Duration::from_millis(late)),
            _ => SegmentFate::Pass,
        });
        assert_eq!(wire.ends[0].counters().retransmitted, 1, "{:?}", later(&wire));
        wire.act(Side::A, Act::Write(6000));
        wire.run();
        assert_eq!(wire.ends[0].counters().retransmitted, copies);
    }
}
