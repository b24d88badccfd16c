//! Single stalls.

use super::*;

/// Asserts that sight and `narrows diagnose` both say this.
fn both(mut story: Story, expected: &[(String, u64, String, String, u8)]) {
    assert_eq!(story.stalls(), expected, "sight");
    assert_eq!(story.diagnosed(), expected, "diagnose");
}

#[test]
fn a_quick_transfer_has_nothing_to_tell() {
    let mut s = Story::opened();
    s.request(70);
    (0..8).for_each(|n| s.data(130 + u64::from(n), n));
    (0..8).for_each(|n| s.ack(140 + u64::from(n), n + 1));
    let report = s.report();
    assert_eq!(report.words, "None of 1 user stalled since the start.");
    assert_eq!(report.goodput_bytes, [8000, 100]);
    // The box to the client and back: 10 ms; to the server and back, 50 ms.
    assert_eq!(report.lan_round_trip_s.counts[1], 1, "{:?}", report.lan_round_trip_s);
    both(s, &[]);
}

#[test]
fn the_end_was_lost_behind_the_box_and_the_timer_sends_it_again() {
    let mut s = Story::opened();
    s.loses_the_end(0);
    // 300 ms and more after the ACK, beyond two round trips of 60 ms.
    s.end(641, 1);
    s.ack(651, 2);
    both(s, &[told("tail_loss", 510, "behind", "timeout", 1)]);
}

#[test]
fn two_timeouts_double_the_wait() {
    let mut s = Story::opened();
    s.loses_the_end(0);
    s.end(641, 1);
    s.end(1641, 1);
    s.ack(1651, 2);
    both(s, &[told("double_retransmission", 1510, "behind", "timeout", 2)]);
}

#[test]
fn what_was_never_seen_was_lost_before_the_box() {
    let mut s = Story::opened();
    s.request(70);
    (0..2).for_each(|n| s.data(130 + u64::from(n), n));
    (0..2).for_each(|n| s.ack(140 + u64::from(n), n + 1));
    // Segment 2 is missing, 3 comes; the timer sends 2.
    s.data(200, 3);
    s.ack(210, 2);
    s.data(900, 2);
    s.ack(910, 4);
    let stalls = s.stalls();
    assert_eq!(stalls.len(), 1, "{stalls:?}");
    assert_eq!((stalls[0].1, stalls[0].2.as_str()), (690, "before"));
    assert_eq!(stalls[0].3, "timeout");
}

#[test]
fn what_the_box_dropped_was_lost_here() {
    let mut s = Story::opened();
    s.request(70);
    s.data(130, 0);
    s.dropped().end(131, 1);
    s.ack(141, 1);
    // The loss is not repaired yet, and already known.
    s.until(2000);
    let going_on = &s.report().stalls_now;
    assert_eq!((going_on[0].cause.as_str(), going_on[0].lost.as_str()), ("tail_loss", "here"));
    s.end(2141, 1);
    s.ack(2151, 2);
    assert_eq!(s.stalls(), [told("tail_loss", 2010, "here", "timeout", 1)]);
}

#[test]
fn three_duplicate_acks_are_no_stall() {
    let mut s = Story::opened();
    s.request(70);
    (0..6).for_each(|n| s.data(130 + u64::from(n), n));
    s.ack(141, 1);
    (0..4).for_each(|n| s.ack(142 + n, 1));
    s.data(195, 1);
    s.ack(205, 6);
    let report = s.report();
    assert_eq!((report.fast_retransmits, report.timeouts), (1, 0));
    both(s, &[]);
}

#[test]
fn a_long_queue_of_ours_is_no_loss() {
    let mut s = Story::opened();
    s.request(70);
    s.data(130, 0);
    s.ack(140, 1);
    s.waits(900).end(200, 1);
    // The timer is shorter than the queue; both copies come, and the first is acknowledged.
    s.end(800, 1);
    s.until(1090);
    let report = s.report();
    assert_eq!((report.states["waiting"], report.states["stalled"], report.users_stalled), (1, 0, 0));
    s.ack(1110, 2);
    assert_eq!(s.stalls(), []);
}

#[test]
fn the_receiver_closes_its_window() {
    let mut s = Story::opened();
    s.request(70);
    s.data(130, 0);
    s.tcp.window = 0;
    s.ack(140, 1);
    s.put(500, DOWN, Flags::ACK, (1000, 101), 0);
    s.tcp.window = 0;
    s.ack(510, 1);
    s.ack(1500, 1);
    s.data(1560, 1);
    s.ack(1570, 2);
    let stalls = s.stalls();
    assert_eq!((stalls.len(), stalls[0].0.as_str(), stalls[0].1), (1, "zero_window", 1360), "{stalls:?}");
}

#[test]
fn a_syn_is_lost_behind_here_or_held() {
    let syns = |s: &mut Story| {
        s.put(1000, UP, Flags::SYN, (0, 0), 0);
        s.put(1050, DOWN, Flags::SYN.and(Flags::ACK), (0, 1), 0);
        s.put(1060, UP, Flags::ACK, (1, 1), 0);
    };
    let mut s = Story::new();
    s.put(0, UP, Flags::SYN, (0, 0), 0);
    syns(&mut s);
    // The box knows on which side of it: a capture has no sides.
    assert_eq!(s.stalls(), [told("handshake_lost", 1060, "behind", "handshake", 0)]);

    let mut s = Story::new();
    s.dropped().put(0, UP, Flags::SYN, (0, 0), 0);
    syns(&mut s);
    assert_eq!(s.stalls(), [told("handshake_lost", 1060, "here", "handshake", 0)]);

    // Admission control keeps it for 1.9 s.
    let mut s = Story::new();
    s.waits(1900).put(0, UP, Flags::SYN, (0, 0), 0);
    s.put(1950, DOWN, Flags::SYN.and(Flags::ACK), (0, 1), 0);
    s.put(1960, UP, Flags::ACK, (1, 1), 0);
    assert_eq!(s.stalls(), [told("held_at_admission", 1960, "unknown", "", 0)]);
}

#[test]
fn a_server_that_does_not_answer_is_told_apart_from_the_network() {
    let mut s = Story::opened();
    s.request(70);
    s.until(8000);
    let report = s.report();
    assert_eq!(report.users_stalled_lately, 0);
    assert_eq!(report.states["idle"], 1);
    s.data(9000, 0);
    s.ack(9010, 1);
    let stalls = s.stalls();
    // From the ACK of the request to the answer, without the way to the server and back.
    assert_eq!((stalls.len(), stalls[0].0.as_str(), stalls[0].1), (1, "data_unavailable", 8830));
    assert_eq!(s.report().users_stalled_lately, 0);
}

#[test]
fn a_client_that_asks_nothing_is_idle() {
    let mut s = Story::opened();
    s.request(70);
    s.end(130, 0);
    s.ack(140, 1);
    s.until(60_000);
    s.put(60_000, UP, Flags::ACK, (101, 1001), 100);
    s.put(60_050, DOWN, Flags::ACK, (1001, 201), 1000);
    s.put(60_060, UP, Flags::ACK, (201, 2001), 0);
    assert_eq!(s.stalls(), []);
}

fn quic(s: &mut Story, ms: u64, way: Direction, packet: QuicPacket) {
    s.until(ms);
    let key = datagram_key(7);
    let key = if way == DOWN { key } else { key.reverse() };
    s.pass(way, &Header { key, len: Bytes(1200), quic: Some(packet), ..Header::default() });
}

#[test]
fn quic_that_asks_twice_is_starved_and_that_is_silent_is_idle() {
    let mut s = Story::new();
    let short = QuicPacket::Short { spin: false };
    quic(&mut s, 0, UP, QuicPacket::Initial);
    quic(&mut s, 60, DOWN, QuicPacket::Initial);
    quic(&mut s, 70, UP, short);
    // Silence; then it asks at 20 s, again by its timer, and is answered at 22 s.
    quic(&mut s, 20_000, UP, short);
    quic(&mut s, 20_300, UP, short);
    quic(&mut s, 20_900, UP, short);
    s.until(21_500);
    assert_eq!(s.report().stalls_now[0].cause, "starved");
    quic(&mut s, 22_000, DOWN, short);
    assert_eq!(s.stalls(), [told("starved", 2000, "unknown", "", 0)]);
    s.until(60_000);
    assert_eq!(s.report().states["stalled"], 0);
}
