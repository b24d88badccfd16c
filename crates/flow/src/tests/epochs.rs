//! Tests of the two epoch estimators, by hand.

use super::*;
use narrows_users::UserRule;

fn synack(seq: u32, ack: u32) -> TcpHeader {
    TcpHeader { seq: SeqNum(seq), ack: SeqNum(ack), flags: SYN_ACK, ..TcpHeader::default() }
}
fn syn(seq: u32) -> TcpHeader {
    TcpHeader { seq: SeqNum(seq), flags: SYN, ..TcpHeader::default() }
}

/// A download: the user's SYN passes at 0, the server's answer comes at 200 and leaves at 210, the user's ACK passes at
/// 240. Server side 200 ms, user's side 30 ms.
fn download_opened() -> Scene {
    let mut s = Scene::new();
    s.answers(0, syn(CALL));
    s.arrives(200, SYN_ACK, 99, 0);
    s.leaves(210, SYN_ACK, 99, 0);
    s.acks(240, 100);
    s
}

#[test]
fn the_handshake_gives_both_sides_of_the_box() {
    let mut s = download_opened();
    assert_eq!(s.flow().receiver_rtt(), Some(millis(30)));
    // To 2^16 ns: 200 ms is 3051.76 units.
    assert_eq!(s.flow().sender_rtt().unwrap().as_nanos(), 3051 << 16);
    assert_eq!(s.flow().epoch_len().as_nanos(), 30_000_000 + (3051 << 16));
    assert!(s.flow().epoch_is_two_way());
}

#[test]
fn the_two_way_average_by_hand() {
    let mut s = Scene::new();
    // No handshake was seen: what is measured counts as the whole, and the first sample as it is.
    s.passes(0, 0, 100);
    s.acks(80, 100);
    assert_eq!((s.flow().epoch_len(), s.flow().srtt()), (millis(80), Some(millis(80))));
    // 7/8 * 80 + 1/8 * 160 = 90 ms. Of two segments in flight the first is timed.
    s.passes(100, 100, 100);
    s.passes(150, 200, 100);
    s.acks(260, 300);
    assert_eq!((s.flow().epoch_len(), s.flow().srtt()), (millis(90), Some(millis(90))));
    assert_eq!(s.flow().receiver_rtt(), Some(millis(80)));
}

#[test]
fn the_wait_in_this_box_counts_only_if_told_to() {
    for (epoch_includes_queue, epoch) in [(false, 80), (true, 180)] {
        let mut s = Scene::with(TrackerConfig { epoch_includes_queue, ..TrackerConfig::default() });
        s.arrives(0, ACK, 0, 100);
        s.leaves(100, ACK, 0, 100);
        s.acks(180, 100);
        assert_eq!((s.flow().epoch_len(), s.flow().receiver_rtt()), (millis(epoch), Some(millis(80))));
    }
}

#[test]
fn what_was_retransmitted_dropped_or_skipped_is_not_timed() {
    // Karn: the ACK of a segment that was sent twice.
    let mut s = Scene::begun();
    s.passes(500, 0, 100);
    s.acks(550, 100);
    assert_eq!(s.flow().receiver_rtt(), None);
    // A drop below the timed segment: its ACK waits for the repair.
    let mut s = Scene::begun();
    s.dropped(1, 0, 100);
    s.acks(550, 100);
    assert_eq!(s.flow().receiver_rtt(), None);
    // Behind a hole.
    let mut s = Scene::new();
    s.arrives(0, ACK, 0, 0);
    s.passes(0, 1000, 100);
    s.acks(550, 1100);
    assert_eq!(s.flow().receiver_rtt(), None);
    // A segment that never left.
    let mut s = Scene::new();
    s.arrives(0, ACK, 0, 100);
    s.acks(550, 100);
    assert_eq!(s.flow().receiver_rtt(), None);
    // A SYN-ACK sent twice.
    let mut s = Scene::new();
    s.goes(0, SYN_ACK, 99, 0);
    s.goes(1000, SYN_ACK, 99, 0);
    s.acks(1030, 100);
    assert_eq!(s.flow().receiver_rtt(), None);
}

#[test]
fn an_upload_is_timed_by_its_handshake_too() {
    let mut s = Scene::new();
    // The sender opens: its SYN leaves at 0, is answered at 150; the sender's ACK comes 40 ms after that.
    s.goes(0, SYN, 99, 0);
    s.answers(150, synack(7000, 100));
    assert_eq!((s.flow().receiver_rtt(), s.flow().epoch_len()), (Some(millis(150)), millis(150)));
    s.goes(190, ACK, 100, 0);
    assert_eq!(s.flow().epoch_len().as_nanos(), 150_000_000 + (40_000_000 >> 16 << 16));
    assert_eq!(s.flow().user(&UserRule::OPENER).address(), s.key.src());
}

#[test]
fn a_syn_that_waited_for_admission_is_timed_from_its_release() {
    let mut s = Scene::new();
    s.answers(0, syn(CALL));
    s.answers(4000, syn(CALL));
    s.goes(4100, SYN_ACK, 99, 0);
    assert_eq!(s.flow().sender_rtt().unwrap().as_nanos(), 100_000_000 >> 16 << 16);
}

#[test]
fn the_one_way_estimate_begins_with_the_handshake() {
    let mut s = Scene::new();
    s.goes(0, SYN_ACK, 99, 0);
    s.passes(320, 100, 100);
    assert_eq!(s.flow().epoch_len(), millis(320));
    assert!(!s.flow().epoch_is_two_way());
}

#[test]
fn the_one_way_average_by_hand() {
    let mut s = Scene::begun();
    // Within a burst: 50 ms is not more than half of 100 ms.
    s.passes(50, 100, 100);
    // A burst starts 140 ms after the one before it: 7/8 * 100 + 1/8 * 140 = 105 ms.
    s.passes(140, 200, 100);
    assert_eq!(s.flow().epoch_len(), millis(105));
    // 220 ms is more than twice 105 ms: an idle gap.
    s.passes(360, 300, 100);
    assert_eq!(s.flow().epoch_len(), millis(105));
    // From there 53 ms: a burst start (above 52.5), and a sample: 7/8 * 105 + 1/8 * 53 = 98.5 ms.
    s.passes(413, 400, 100);
    assert_eq!(s.flow().epoch_len().as_nanos(), 98_500_000);
}

#[test]
fn two_way_samples_silence_the_one_way_estimator() {
    let mut s = Scene::begun();
    s.acks(80, 100);
    s.passes(150, 100, 100);
    assert_eq!(s.flow().epoch_len(), millis(80));
}

#[test]
fn the_epoch_stays_within_its_bounds() {
    let mut s = Scene::begun();
    s.acks(1, 100);
    assert_eq!(s.flow().epoch_len(), millis(10));
    let mut s = Scene::new();
    s.goes(0, SYN_ACK, 99, 0);
    s.passes(20_000, 100, 100);
    assert_eq!(s.flow().epoch_len(), millis(3000));
}

#[test]
fn rate_is_bytes_per_epoch_averaged() {
    let mut s = Scene::new();
    // 4 packets of 140 bytes in the first epoch of 100 ms: 560 B are 44.8 kbit/s, taken as they are.
    s.burst(0, 0, 4);
    s.now = 100;
    assert_eq!(s.flow().rate().as_bps(), 44_800);
    // No packet in the second: 560 - 560/8 = 490 B.
    s.now = 200;
    assert_eq!(s.flow().rate().as_bps(), 39_200);
    // 2 packets, 280 B, in the third: 490 - 61 + 35 = 464 B.
    s.burst(200, 400, 2);
    s.now = 300;
    assert_eq!(s.flow().rate().as_bps(), 37_120);
    // Long gone: what rounding leaves is below 8 bytes an epoch.
    s.now = 60_000;
    assert!(s.flow().rate().as_bps() <= 560);
}

#[test]
fn a_transmit_rate_counts_what_was_sent_on() {
    let config = TrackerConfig { initial_epoch: millis(100), ..TrackerConfig::default() };
    for (rate_of_departures, bps) in [(false, 44_800), (true, 11_200)] {
        let mut s = Scene::with(TrackerConfig { rate_of_departures, ..config });
        // Four packets of 140 bytes arrive in 100 ms, and one leaves: 560 B or 140 B in that time.
        for n in 0..4 {
            s.arrives(0, ACK, n * 100, 100);
        }
        s.leaves(50, ACK, 0, 100);
        s.dropped(60, 100, 100);
        s.now = 100;
        assert_eq!(s.flow().rate().as_bps(), bps);
    }
}

#[test]
fn the_window_is_the_fuller_of_two_epochs() {
    let mut s = Scene::new();
    s.burst(0, 0, 3);
    assert_eq!(s.flow().window_pkts(), 3);
    s.burst(100, 300, 1);
    assert_eq!(s.flow().window_pkts(), 3, "one of this epoch so far, three of the last");
    s.passes(110, 300, 100);
    assert_eq!(s.flow().window_pkts(), 3, "a retransmission is not new");
    s.now = 200;
    assert_eq!(s.flow().window_pkts(), 1);
    s.now = 300;
    assert_eq!(s.flow().window_pkts(), 0);
}
