//! Stories of a Linux kernel, in the times of recordings with its tracepoints (`cargo xtask kernel-senders`), rounded.

use super::*;

/// The capture is at the server; the client is `trip` away. One request has been sent.
fn at_the_server(trip: u64) -> Story {
    let mut s = Story::new();
    s.tcp.beyond = true;
    s.put(0, CLIENT, Flags::SYN, (0, 0), 0);
    s.tcp.beyond = true;
    s.put(0, SERVER, Flags::SYN.and(Flags::ACK), (0, 1), 0);
    s.put(trip, CLIENT, Flags::ACK, (1, 1), 0);
    s.put(trip, CLIENT, Flags::ACK, (1, 1), 100);
    s
}

fn server_repairs(s: Story) -> Vec<(Repair, u64)> {
    repairs(&s.end())
}

#[test]
fn the_ack_of_a_probe_lets_a_repair_go_at_once() {
    let mut s = at_the_server(490);
    s.data(500, 0);
    s.data(500, 1);
    s.ack(1000, 1);
    s.data(1000, 2);
    // A probe with new data, as no ACK comes; its selective ACK shows that segment 1, which was sent earlier, is lost.
    // The timer would have been about to expire.
    s.data(1200, 3);
    s.sack(1700, 1, 3, 4);
    let frame = s.data(1700, 1);
    s.ack(2200, 4);
    let found = server_repairs(s);
    assert_eq!(found.last(), Some(&(Repair::FastRetransmit, frame)), "{found:?}");
}

#[test]
fn after_a_timeout_a_lost_repair_is_a_new_loss_and_a_silence_a_new_timeout() {
    let mut s = at_the_server(490);
    for n in 0..4 {
        s.data(500, n);
    }
    let mut expected = vec![(Repair::Timeout, s.data(2000, 0))];
    s.ack(2490, 1);
    expected.push((Repair::AfterTimeout, s.data(2490, 1)));
    expected.push((Repair::AfterTimeout, s.data(2491, 2)));
    // The second of these has arrived.
    s.sack(2991, 1, 2, 3);
    expected.push((Repair::FastRetransmit, s.data(2991, 1)));
    s.ack(3490, 3);
    expected.push((Repair::Recovery, s.data(3490, 3)));
    // Nothing is heard any more.
    expected.push((Repair::Timeout, s.data(5200, 3)));
    s.ack(5700, 4);
    assert_eq!(server_repairs(s), expected);
}

#[test]
fn a_sender_that_paces_has_no_timeouts_between_two_repairs() {
    let mut s = at_the_server(400);
    // A segment each 100 ms, whenever ACKs come.
    for n in 0..12 {
        s.data(410 + 100 * u64::from(n), n);
        if n > 4 {
            s.ack(450 + 100 * u64::from(n), n - 4);
        }
    }
    s.data(1610, 12);
    // Segments 8 and 9 are lost; 10 to 12 arrive.
    s.ack(1660, 8);
    for (n, ms) in [(11, 1870), (12, 1970), (13, 2070)] {
        s.sack(ms, 8, 10, n);
    }
    let frames = [s.data(2160, 8), s.data(2360, 9)];
    s.ack(2760, 13);
    assert_eq!(server_repairs(s), [(Repair::FastRetransmit, frames[0]), (Repair::Recovery, frames[1])]);
}

/// The point is behind the queue, without timestamps, and with a SYN that was sent again, so that it gives no round
/// trip: half a second passes from an ACK until what it lets go, as the request has shown.
#[test]
fn what_acks_let_go_one_by_one_is_told_by_how_long_the_request_took() {
    let mut s = Story::new();
    s.put(0, CLIENT, Flags::SYN, (0, 0), 0);
    s.put(1000, CLIENT, Flags::SYN, (0, 0), 0);
    s.tcp.beyond = true;
    s.put(1490, SERVER, Flags::SYN.and(Flags::ACK), (0, 1), 0);
    s.put(1490, CLIENT, Flags::ACK, (1, 1), 0);
    s.put(1490, CLIENT, Flags::ACK, (1, 1), 100);
    s.put(1980, SERVER, Flags::ACK, (1, 101), 0);
    s.data(1980, 0);
    s.ack(1980, 1);
    s.data(2480, 10);
    s.sack(2480, 1, 10, 11);
    for n in 1..10 {
        let ms = 2480 + 490 * u64::from(n);
        s.data(ms, n);
        s.sack(ms, n + 1, 10, 11);
    }
    let flow = s.end();
    let counts = &flow.directions[1].counts;
    assert_eq!((counts.timeouts, counts.fast_retransmits), (0, 1), "{:?}", repairs(&flow));
}

/// A sender's own queue of 5 ms drops one segment of ten, and the client is at hand: all that is under way is
/// acknowledged at once, and no silence is longer than the 10 ms between what the application writes.
#[test]
fn behind_a_senders_own_queue_no_timer_expires_within_milliseconds() {
    let mut s = Story::new();
    s.put(0, CLIENT, Flags::SYN, (0, 0), 0);
    s.stamps(0, 0).put(0, SERVER, Flags::SYN.and(Flags::ACK), (0, 1), 0);
    s.stamps(0, 0).put(0, CLIENT, Flags::ACK, (1, 1), 100);
    for n in 0..700_u32 {
        let (sent, heard) = (10 + 10 * n, 10 * n + u32::from(n > 0) * 5);
        let at = u64::from(sent) + 5;
        if n % 10 == 3 {
            continue;
        }
        s.stamps(sent, heard).data(at, n);
        if n % 10 != 4 {
            s.stamps(sent + 5, sent).ack(at, n + 1);
            continue;
        }
        s.stamps(sent + 5, sent - 20).sack(at, n - 1, n, n + 1);
        s.stamps(sent + 6, sent + 5).data(at + 3, n - 1);
        s.stamps(sent + 8, sent + 6).ack(at + 3, n + 1);
    }
    let flow = s.end();
    let counts = &flow.directions[1].counts;
    assert_eq!((counts.timeouts, counts.probes, counts.fast_retransmits), (0, 0, 70), "{counts:?}");
    assert!(flow.stalls.is_empty(), "{:?}", flow.stalls);
}
