//! Loss recovery worked by hand: a path of 100 ms without a rate, so that a window leaves at once and its ACKs come
//! back in order 100 ms later; segments of 1000 bytes, no handshake, no delayed ACKs.

use crate::common::{Act, SegmentFate, Side, Wire, WirePath};
use narrows_tcp::TcpEvent;

/// Runs a transfer of `segments` in which the first copies of `lost` are lost. Returns the segments sent after the
/// first window, and the number of timeouts.
fn after_loss(settings: &str, segments: u64, lost: &[u32]) -> (Vec<(u64, u32)>, usize) {
    let config = format!("rfc:handshake=none,delayed_ack=off,byte_counting=per_ack,mss=1000,{settings}");
    let config: narrows_tcp::Config = config.parse().expect("settings of a test");
    let mut copies = [0; 200];
    let mut wire = Wire::new(config, WirePath::delay_ms(50), |side, _, segment| {
        let number = (segment.tcp.seq.0 - 1001) / 1000 + 1;
        if side == Side::B {
            return SegmentFate::Pass;
        }
        copies[number as usize] += 1;
        if copies[number as usize] == 1 && lost.contains(&number) {
            SegmentFate::Drop
        } else {
            SegmentFate::Pass
        }
    });
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(segments * 1000));
    wire.run();
    assert_eq!(wire.delivered(Side::B), segments * 1000);
    let later = wire.data(Side::A).into_iter().filter(|s| s.0 > 0).collect();
    (later, wire.count(Side::A, |e| matches!(e, TcpEvent::Timeout { .. })))
}

#[test]
fn rfc_3042_two_duplicates_send_two_segments() {
    // The first of three segments is lost. The two duplicate ACKs let 4 and 5 go; theirs are the third and fourth, and
    // the first is sent again after two round trips, not after the RTO of 1 s.
    for recovery in ["newreno", "sack"] {
        let with = after_loss(&format!("initial_window=3,recovery={recovery}"), 5, &[1]);
        assert_eq!(with, (vec![(100, 4), (100, 5), (200, 1)], 0), "{recovery}");
        let without =
            after_loss(&format!("initial_window=3,recovery={recovery},limited_transmit=off"), 5, &[1]);
        assert_eq!((without.0[0], without.1), ((1000, 1), 1), "{recovery}");
    }
}

#[test]
fn rfc_6582_a_partial_ack_repairs_the_next_hole() {
    // Eight segments, 1 and 4 lost. Six duplicates at 100 ms: two send 9 and 10 (RFC 3042), the third repeats 1 with
    // ssthresh = 8 / 2 and cwnd = 4 + 3 (step 2), three more inflate it to 10, all of which is out. At 200 ms 9 and
    // 10 add two: 11 and 12 go. The ACK up to 4 is partial (recover is 10): 4 again, cwnd = 12 - 3 + 1, nine are out:
    // 13 goes. At 300 ms 11 and 12 add two: 14 and 15 go; the ACK up to 13 is a full one and recovery ends.
    let (sent, timeouts) = after_loss("initial_window=8,recovery=newreno", 15, &[1, 4]);
    let due =
        [(100, 9), (100, 10), (100, 1), (200, 11), (200, 12), (200, 4), (200, 13), (300, 14), (300, 15)];
    assert_eq!((sent, timeouts), (due.to_vec(), 0));
}

#[test]
fn rfc_2581_reno_leaves_recovery_with_the_first_hole() {
    // The first copies of 1 and 4 are lost: Reno takes the ACK up to 4 as the end, and 4 needs three more duplicates or
    // the timer.
    let (sent, _) = after_loss("initial_window=8,recovery=reno", 15, &[1, 4]);
    let fourth = sent.iter().find(|s| s.1 == 4).map(|s| s.0);
    assert!(fourth > Some(200), "{sent:?}");
}

#[test]
fn tahoe_begins_anew() {
    // Window 1, then 2: 1 again at 100 ms; its ACK covers up to 4, the second loss, which goes again in order with 5.
    let (sent, timeouts) = after_loss("initial_window=8,recovery=tahoe,limited_transmit=off", 8, &[1, 4]);
    assert_eq!((&sent[..3], timeouts), (&[(100, 1), (200, 4), (200, 5)][..], 0));
}

#[test]
fn rfc_6675_holes_are_known_and_the_pipe_is_counted() {
    // Eight segments, 1 and 4 lost. SACKs at 100 ms: 2 and 3 let 9 and 10 go; 5 is the third duplicate: 1 again,
    // ssthresh = 8 / 2 = cwnd; pipe = 10 out - 3 SACKed - 1 lost + 1 = 7. 6: pipe 6. 7: 4 is lost too (three above
    // it), pipe 4. 8: pipe 3, so 4 goes. At 200 ms 9, 10 and the two copies arrive: each takes one out of the pipe
    // and lets one go.
    let (sent, timeouts) = after_loss("initial_window=8", 13, &[1, 4]);
    let due = [(100, 9), (100, 10), (100, 1), (100, 4), (200, 11), (200, 12), (200, 13)];
    assert_eq!((sent, timeouts), (due.to_vec(), 0));
}

#[test]
fn rfc_6675_many_holes_in_one_round_trip() {
    // Twenty segments, 1 to 5 lost: fifteen SACKs at 100 ms. NewReno needs a round trip for each hole; with SACK half
    // of the window is left for repairs, all within this and the next round trip.
    let lost = [1, 2, 3, 4, 5];
    let last = |settings: &str| {
        let (sent, timeouts) = after_loss(settings, 40, &lost);
        assert_eq!(timeouts, 0, "{settings}");
        sent.iter().filter(|s| lost.contains(&s.1)).map(|s| s.0).max()
    };
    assert_eq!(last("initial_window=20"), Some(100));
    assert_eq!(last("initial_window=20,recovery=newreno"), Some(500));
}

#[test]
fn rfc_6675_the_last_of_a_flight_needs_the_timer() {
    // No ACK comes after it: 1 s after the last one, at 100 ms.
    assert_eq!(after_loss("initial_window=8", 8, &[8]), (vec![(1100, 8)], 1));
}

#[test]
fn after_a_timeout_only_what_is_missing_goes_again() {
    // All but 3 and 4 of six are lost; two SACKs are too few (and nothing new is there to send). RFC 6675, section
    // 5.1: the SACKed ones stay so. Going back sends 2 with the first ACK and then finds 3 and 4 acknowledged.
    let (sent, timeouts) = after_loss("initial_window=6", 6, &[1, 2, 5, 6]);
    let numbers: Vec<_> = sent.iter().map(|s| s.1).collect();
    assert_eq!((numbers, timeouts), (vec![1, 2, 5, 6], 1));
    assert_eq!(sent[0].0, 1000);
}
