//! Silences in which nothing was lost, and the beginning and the end of connections.

use super::*;

#[test]
fn a_server_that_thinks_and_a_client_that_does_not_ask() {
    let mut s = Story::opened(10);
    s.request(70);
    // The answer comes 3 s after the request was acknowledged here, at 120 ms.
    s.data(3_120, 0);
    s.ack(3_130, 1);
    // The client asks again 8 s later.
    s.put(11_130, CLIENT, Flags::ACK, (101, 1001), 100);
    let flow = s.end();
    let found = stalls(&flow);
    assert_eq!(found, [(Cause::DataUnavailable, 3_000, None, 0), (Cause::ClientIdle, 8_000, None, 0)]);
    // Nobody waited in the second.
    assert!((flow.stalled_s() - 3.0).abs() < 1e-9);
    // The capture is 40 ms away from the server: the answer may have been lost, or have waited, on its way here.
    assert_eq!(flow.stalls[0].certainty, Certainty::Possible);
}

#[test]
fn a_closed_window_is_not_a_loss_and_its_probes_are_no_retransmissions() {
    let mut s = Story::opened(10);
    s.request(70);
    s.data(200, 0);
    s.window(0).ack(210, 1);
    for ms in [500, 1_100] {
        s.put(ms, SERVER, Flags::ACK, (1000, 101), 0);
        s.window(0).ack(ms + 10, 1);
    }
    s.ack(2_210, 1);
    s.data(2_260, 1);
    s.ack(2_270, 2);
    let flow = s.end();
    assert_eq!(stalls(&flow), [(Cause::ZeroWindow, 2_050, None, 0)]);
    let counts = &flow.directions[1].counts;
    assert_eq!((counts.window_probes, counts.again, counts.timeouts), (2, 0, 0));
}

#[test]
fn keep_alives_are_left_out() {
    let mut s = Story::opened(10);
    s.request(70);
    s.data(200, 0);
    s.ack(210, 1);
    s.put(60_000, SERVER, Flags::ACK, (1000, 101), 0);
    s.ack(60_010, 1);
    s.put(120_000, SERVER, Flags::ACK, (1000, 101), 1);
    s.ack(120_010, 1);
    let flow = s.end();
    assert_eq!(
        (flow.stalls.len(), flow.events.len(), flow.directions[1].counts.keep_alives),
        (0, 0, 2),
        "{flow:?}"
    );
}

#[test]
fn a_lost_handshake() {
    let mut s = Story::new();
    s.put(0, CLIENT, Flags::SYN, (0, 0), 0);
    s.put(1_000, CLIENT, Flags::SYN, (0, 0), 0);
    s.put(3_000, CLIENT, Flags::SYN, (0, 0), 0);
    s.put(3_050, SERVER, Flags::SYN.and(Flags::ACK), (0, 1), 0);
    s.put(3_060, CLIENT, Flags::ACK, (1, 1), 0);
    let flow = s.end();
    assert_eq!(stalls(&flow), [(Cause::HandshakeLost, 3_060, Some(Repair::Handshake), 0)]);
    let stall = &flow.stalls[0];
    assert_eq!(
        (stall.lost, stall.by, stall.ended, stall.frames.iter().collect::<Vec<_>>()),
        (Place::Unknown, 0, true, vec![1, 4, 5])
    );
    assert_eq!(flow.directions[0].counts.handshake, 2);
    assert_eq!(flow.directions[1].sender_half_s, None, "a repeated SYN times nothing (Karn)");
}

#[test]
fn nobody_answers() {
    let mut s = Story::new();
    for ms in [0, 1_000, 3_000, 7_000] {
        s.put(ms, CLIENT, Flags::SYN, (0, 0), 0);
    }
    let flow = s.end();
    assert_eq!((stalls(&flow)[0].0, flow.stalls[0].ended), (Cause::NoAnswer, false));
}

#[test]
fn the_end_of_a_connection_lost_and_a_transfer_cut_off() {
    let mut s = Story::opened(10);
    s.request(70);
    s.data(200, 0);
    s.ack(210, 1);
    s.put(220, SERVER, Flags::ACK.and(Flags::FIN), (1001, 101), 0);
    s.put(900, SERVER, Flags::ACK.and(Flags::FIN), (1001, 101), 0);
    s.put(910, CLIENT, Flags::ACK, (101, 1002), 0);
    assert_eq!(stalls(&s.end()), [(Cause::Closing, 690, Some(Repair::Timeout), 1)]);

    let mut s = Story::opened(10);
    s.request(70);
    s.data(200, 0);
    s.data(9_200, 0);
    let flow = s.end();
    assert_eq!((stalls(&flow)[0].1, flow.stalls[0].ended), (9_000, false));
}
