//! Tests of the kind that a segment is taken for.

use super::*;
use PacketKind::*;

#[test]
fn at_or_below_the_highest_is_a_retransmission() {
    let mut s = Scene::new();
    assert_eq!(s.passes(0, 0, 100), New);
    assert_eq!(s.passes(1, 100, 100), New);
    assert_eq!(s.passes(2, 0, 100), Retransmission);
    assert_eq!(s.passes(3, 100, 100), Retransmission);
    assert_eq!(s.passes(4, 150, 50), Retransmission);
    assert_eq!(s.passes(5, 0, 200), Retransmission);
    // New bytes behind old ones: new.
    assert_eq!(s.passes(6, 150, 100), New);
    assert_eq!((s.flow().max_seq(), s.tracker.counters().overlapping), (SeqNum(250), 1));
    assert_eq!((s.flow().new_pkts(), s.flow().retx_pkts()), (3, 4));
}

#[test]
fn the_same_across_the_wrap() {
    let start = u32::MAX - 149;
    let mut s = Scene::new();
    assert_eq!(s.passes(0, start, 100), New);
    assert_eq!(s.passes(1, start + 100, 100), New);
    assert_eq!(s.flow().max_seq(), SeqNum(50));
    assert_eq!(s.passes(2, start + 100, 100), Retransmission);
    assert_eq!(s.passes(3, 50, 100), New);
    // A hole over the wrap's far side, filled at once.
    assert_eq!(s.passes(4, 250, 100), New);
    assert_eq!(s.passes(5, 150, 100), Reordered);
    s.acks(6, 350);
    assert_eq!(s.flow().highest_ack(), Some(SeqNum(350)));
    // A drop across it, and its repair.
    let mut s = Scene::new();
    s.falls(0, start, 300);
    assert_eq!(s.flow().unrepaired(), 1);
    s.passes(1, start, 150);
    assert_eq!(s.flow().unrepaired(), 1);
    s.passes(2, 0, 150);
    assert_eq!(s.flow().unrepaired(), 0);
}

#[test]
fn four_gigabytes_of_one_flow() {
    // 2^32 bytes in segments of 2^20: the numbers come round, and every segment is new.
    let mut s = Scene::new();
    for i in 0..4200u32 {
        assert_eq!(s.passes(u64::from(i), i << 20, 1 << 20), New, "{i}");
    }
    assert_eq!(s.flow().sent_packets(), 4200);
}

#[test]
fn an_overtaken_segment_is_not_a_retransmission() {
    let mut s = Scene::begun();
    assert_eq!(s.passes(1, 200, 100), New);
    assert_eq!(s.passes(2, 400, 100), New);
    assert_eq!(s.passes(3, 300, 100), Reordered);
    assert_eq!(s.passes(4, 300, 100), Retransmission, "seen by now");
    assert_eq!(s.passes(5, 100, 100), Reordered);
    assert_eq!(s.phase(), Phase::LossRecovery, "for the copy, not for the reordering");
    assert_eq!((s.flow().new_pkts(), s.flow().retx_pkts()), (5, 1));
}

#[test]
fn a_hole_filled_after_half_an_epoch_was_a_loss_before_this_box() {
    let mut s = Scene::begun();
    s.passes(1, 200, 100);
    assert_eq!(s.passes(50, 100, 100), Reordered);
    s.passes(52, 400, 100);
    assert_eq!(s.passes(103, 300, 100), Retransmission);
    assert_eq!(s.phase(), Phase::LossRecovery);
}

#[test]
fn what_fills_a_hole_in_passing_has_been_seen() {
    // 100 to 200 is skipped, then comes with bytes that go beyond: new. Its copy is a retransmission.
    let mut s = Scene::begun();
    s.passes(1, 200, 100);
    assert_eq!(s.passes(2, 100, 250), New);
    assert_eq!(s.passes(3, 100, 100), Retransmission);
    // A hole the receiver acknowledges was filled by another way; what comes there now is needless.
    let mut s = Scene::begun();
    s.passes(1, 200, 100);
    s.acks(2, 300);
    assert_eq!(s.passes(3, 100, 100), Retransmission);
}

#[test]
fn a_keep_alive_is_told_from_a_retransmission() {
    let mut s = Scene::begun();
    // Without payload, and with one byte of garbage that a longer segment's retransmission would not repeat alone.
    assert_eq!(s.passes(10_000, 99, 0), KeepAlive);
    assert_eq!(s.passes(20_000, 99, 1), KeepAlive);
    // A last segment of one byte: ACKs are not seen, so it may be lost.
    assert_eq!(s.passes(20_001, 100, 1), New);
    assert_eq!(s.passes(20_300, 100, 1), Retransmission);
    // ACKs are seen: not covered yet, then covered.
    s.acks(20_400, 100);
    assert_eq!(s.passes(20_500, 100, 1), Retransmission);
    s.acks(20_600, 101);
    assert_eq!(s.passes(80_000, 100, 1), KeepAlive);
    let phase = s.phase();
    assert_eq!(phase, Phase::Idle, "nor is it activity");
    assert_eq!(s.flow().max_seq(), SeqNum(101));
}

#[test]
fn a_probe_of_a_closed_window() {
    let mut s = Scene::begun();
    s.acks_window(50, 100, 0);
    // One number low and empty (as Linux), and one byte at the edge (RFC 9293), again and again.
    assert_eq!(s.passes(300, 99, 0), WindowProbe);
    assert_eq!(s.passes(700, 100, 1), WindowProbe);
    assert_eq!(s.passes(1500, 100, 1), WindowProbe);
    s.acks_window(1550, 100, 500);
    // A full segment at the edge is new data.
    assert_eq!(s.passes(1600, 100, 100), New);
    // With the window open the first would have been a keep-alive.
    s.acks(1650, 200);
    assert_eq!(s.passes(1700, 199, 0), KeepAlive);
}

#[test]
fn syn_fin_and_rst_are_their_own_kinds() {
    let mut s = Scene::new();
    assert_eq!(s.goes(0, SYN_ACK, 99, 0), SynAck);
    assert_eq!(s.goes(1000, SYN_ACK, 99, 0), SynAck);
    assert_eq!(s.goes(1100, ACK, 100, 0), PureAck);
    assert_eq!(s.passes(1200, 100, 100), New);
    assert_eq!(s.goes(1300, FIN_ACK, 200, 0), Fin);
    assert_eq!(s.flow().max_seq(), SeqNum(201));
    assert_eq!(s.goes(1700, FIN_ACK, 200, 0), Retransmission);
    assert_eq!(s.goes(1800, ACK, 201, 0), PureAck);
    // The FIN took a number that pure ACKs sent at the same time do not have yet.
    assert_eq!(s.goes(1800, ACK, 200, 0), PureAck);
    assert_eq!(s.goes(1900, RST, 201, 0), Rst);
    assert!(s.flow().syn_seen() && s.flow().fin_seen() && s.flow().closed());
}

#[test]
fn data_rides_on_syn_and_fin() {
    // TCP Fast Open (RFC 7413): a SYN with 50 bytes.
    let mut s = Scene::new();
    assert_eq!(s.goes(0, SYN, 99, 50), Syn);
    assert_eq!(s.flow().max_seq(), SeqNum(150));
    assert_eq!(s.passes(100, 150, 100), New);
    // The last data with the FIN: new data, then a retransmission of both.
    assert_eq!(s.goes(200, FIN_ACK, 250, 100), New);
    assert!(s.flow().fin_seen());
    assert_eq!(s.flow().max_seq(), SeqNum(351));
    assert_eq!(s.goes(500, FIN_ACK, 250, 100), Retransmission);
    // A dropped FIN waits for repair like any other segment.
    s.dropped(501, 350, 0);
    let id = s.id();
    s.tracker.dropped(ms(501), id, &segment(s.key, FIN_ACK, 350, 0));
    assert_eq!(s.flow().unrepaired(), 1);
}

#[test]
fn a_syn_with_another_number_is_another_connection() {
    let mut s = Scene::new();
    s.goes(0, SYN_ACK, 99, 0);
    s.falls(100, 100, 100);
    let id = s.id();
    s.tracker.queued(id);
    // The user's new SYN passes; the record is as new, but keeps its slot and what waits.
    let new = TcpHeader { seq: SeqNum(1), flags: SYN, window_scale: Some(7), ..TcpHeader::default() };
    assert_eq!(s.answers(200, new), Some(id));
    assert_eq!((s.flow().phase(), s.flow().unrepaired(), s.flow().queued()), (None, 0, 1));
    assert_eq!((s.flow().reverse_scale(), s.flow().syn_seen()), (Some(7), false));
    let seen = s.arrives(400, SYN_ACK, 5_000, 0);
    assert!(seen.restarted && !seen.fresh);
    assert_eq!(s.flow().age(ms(400)).as_millis(), 200, "of the connection");
    let again = s.arrives(1400, SYN_ACK, 5_000, 0);
    assert!(!again.restarted, "the same number: sent again");
    assert_eq!(s.tracker.counters().restarted, 1);
    // In a one-way view the answer alone tells.
    let mut s = Scene::new();
    s.goes(0, SYN_ACK, 99, 0);
    assert!(s.arrives(100, SYN_ACK, 1234, 0).restarted);
}

#[test]
fn the_window_the_receiver_means() {
    let offer = |seq, flags, scale| TcpHeader {
        seq: SeqNum(seq),
        ack: SeqNum(100),
        flags,
        window: 1000,
        window_scale: scale,
        ..TcpHeader::default()
    };
    for (theirs, ours, shift) in
        [(Some(7), Some(2), 7), (Some(0), Some(0), 0), (Some(7), None, 0), (None, Some(7), 0)]
    {
        let mut s = Scene::new();
        let syn = offer(1, SYN, theirs);
        s.answers(0, syn);
        assert_eq!(s.flow().reverse_window(&syn), None, "one SYN is not enough");
        let (key, answer) = (s.key, offer(99, SYN_ACK, ours));
        s.tracker.forward(ms(1), &header(key, answer));
        assert_eq!((s.flow().reverse_scale(), s.flow().forward_scale()), (theirs, ours));
        assert_eq!(s.flow().reverse_window(&offer(2, ACK, None)), Some(1000 << shift));
        assert_eq!(s.flow().reverse_window(&syn), Some(1000), "never scaled in a SYN");
    }
}

#[test]
fn numbers_from_another_world_are_followed() {
    let mut s = Scene::new();
    s.falls(0, 0, 100);
    assert_eq!(s.passes(1, 2_000_000_000, 100), New);
    assert_eq!(s.passes(2, 2_000_000_100, 100), New);
    assert_eq!((s.flow().unrepaired(), s.tracker.counters().out_of_window), (0, 1));
    // An ACK of what nobody sent is not believed.
    s.acks(3, 2_100_000_000);
    assert_eq!(s.flow().highest_ack(), None);
    s.acks(4, 2_000_000_100);
    assert_eq!(s.flow().highest_ack(), Some(SeqNum(2_000_000_100)));
}
