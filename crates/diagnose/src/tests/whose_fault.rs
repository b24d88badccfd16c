//! Losses: what repaired them, and where they were.

use super::*;

/// The client is 10 ms away; the server has sent ten segments, and all are acknowledged at 209 ms.
fn under_way() -> Story {
    let mut s = Story::opened(10);
    s.request(70);
    for n in 0..10 {
        s.data(190 + u64::from(n), n);
    }
    for n in 0..10 {
        s.ack(200 + u64::from(n), n + 1);
    }
    s
}

#[test]
fn three_duplicate_acks_are_a_fast_retransmit() {
    let mut s = under_way();
    for n in 10..15 {
        s.data(280 + u64::from(n), n);
    }
    // Segment 10 is lost behind: four duplicates, and 50 ms after the third the repair.
    for n in 0..4 {
        s.ack(300 + n, 10);
    }
    let fast = s.data(352, 10);
    s.ack(362, 15);
    let flow = s.end();
    assert_eq!(repairs(&flow), [(Repair::FastRetransmit, fast)]);
    assert_eq!((flow.events[0].lost, flow.events[0].certainty), (Place::Behind, Certainty::Certain));
    assert_eq!((flow.stalls.len(), flow.directions[1].counts.dupacks), (0, 4));
}

#[test]
fn a_loss_before_the_capture_fills_a_hole() {
    let mut s = under_way();
    for n in 11..15 {
        s.data(280 + u64::from(n), n);
    }
    for n in 11..15 {
        s.sack(290 + u64::from(n), 10, 11, n + 1);
    }
    let fast = s.data(354, 10);
    s.ack(364, 15);
    let flow = s.end();
    assert_eq!(repairs(&flow), [(Repair::FastRetransmit, fast)]);
    let counts = &flow.directions[1].counts;
    assert_eq!((flow.events[0].lost, counts.lost_before, counts.reordered), (Place::Before, 1, 0));
}

#[test]
fn what_is_overtaken_is_not_sent_again() {
    let mut s = under_way();
    s.data(280, 11);
    s.data(282, 10);
    s.ack(292, 12);
    let flow = s.end();
    assert_eq!((flow.events.len(), flow.directions[1].counts.reordered), (0, 1));
}

#[test]
fn timeouts_and_their_back_off() {
    let mut s = under_way();
    s.data(300, 10);
    // SRTT is some 60 ms, so the timer has its floor: Linux's would be 260 ms, then twice and four times that.
    let frames = [s.data(560, 10), s.data(1080, 10), s.data(2120, 10)];
    s.ack(2130, 11);
    s.data(2180, 11);
    s.ack(2190, 12);
    let flow = s.end();
    assert_eq!(repairs(&flow), frames.map(|frame| (Repair::Timeout, frame)));
    assert_eq!(stalls(&flow), [(Cause::DoubleRetransmission, 1830, Some(Repair::Timeout), 3)]);
    let stall = &flow.stalls[0];
    assert_eq!((stall.backoff, stall.lost, stall.outstanding), (8, Place::Behind, 1));
}

#[test]
fn a_small_window_and_a_whole_window() {
    for (sent, cause) in [(2, Cause::SmallCongestionWindow), (6, Cause::ContinuousLoss)] {
        let mut s = under_way();
        for n in 10..10 + sent {
            s.data(290 + u64::from(n), n);
        }
        s.data(700, 10);
        s.ack(710, 11);
        let flow = s.end();
        assert_eq!(stalls(&flow)[0].0, cause);
        assert_eq!(flow.stalls[0].timeouts, 1);
    }
}

#[test]
fn a_small_receive_window_is_told_from_a_small_congestion_window() {
    let mut s = under_way();
    s.window(2500).ack(260, 10);
    s.data(300, 10);
    s.data(301, 11);
    s.data(700, 10);
    s.ack(710, 11);
    s.data(740, 11);
    s.ack(750, 12);
    s.data(790, 12);
    assert_eq!(stalls(&s.end())[0].0, Cause::SmallReceiveWindow);
}

/// RFC 5682: the second had arrived, and no duplicate told of it, so the first had not been lost.
#[test]
fn an_ack_beyond_the_repair_shows_that_there_was_nothing_to_repair() {
    let mut s = under_way();
    s.data(300, 10);
    s.data(301, 11);
    s.data(700, 10);
    s.ack(710, 12);
    let flow = s.end();
    assert_eq!(stalls(&flow)[0].0, Cause::AckDelayedOrLost);
    assert_eq!(flow.directions[1].counts.spurious, 1);
}

/// The next data shows whether the sender had more to say.
#[test]
fn the_end_of_the_data_shows_afterwards() {
    for (next, cause) in [(800, Cause::SmallCongestionWindow), (1100, Cause::TailLoss)] {
        let mut s = under_way();
        s.data(300, 10);
        s.data(301, 11);
        s.data(700, 10);
        s.ack(710, 11);
        s.data(740, 11);
        s.ack(750, 12);
        s.data(next, 12);
        assert_eq!(stalls(&s.end())[0].0, cause);
    }
}

/// The ACK is lost behind the capture: here all is acknowledged, and yet the data comes again.
#[test]
fn an_ack_that_is_lost_later_shows_by_what_comes_again() {
    let mut s = under_way();
    s.data(300, 10);
    s.ack(310, 11);
    s.data(1000, 10);
    s.ack(1010, 11);
    s.data(1050, 11);
    let flow = s.end();
    assert_eq!(stalls(&flow)[0].0, Cause::AckDelayedOrLost);
    assert_eq!(flow.stalls.len(), 1, "{:?}", flow.stalls);
}

#[test]
fn a_probe_sends_the_last_segment_and_the_timer_the_first() {
    let mut s = under_way();
    // Selective acknowledgments are in use: the receiver has said so before.
    s.data(270, 11);
    s.sack(280, 10, 11, 12);
    s.data(330, 10);
    s.ack(340, 12);
    for n in 12..15 {
        s.data(400 + u64::from(n), n);
    }
    let probe = s.data(600, 14);
    s.sack(610, 12, 14, 15);
    let recovered = s.data(660, 12);
    s.data(661, 13);
    s.ack(671, 15);
    let flow = s.end();
    let found = repairs(&flow);
    assert!(found.contains(&(Repair::Probe, probe)), "{found:?}");
    assert!(found.contains(&(Repair::FastRetransmit, recovered)), "{found:?}");
    assert_eq!(flow.directions[1].counts.timeouts, 0);
}

#[test]
fn a_spurious_timeout_is_named_by_dsack_and_by_timestamps() {
    // DSACK (RFC 2883): the receiver says that it has segment 10 twice.
    let mut s = under_way();
    s.data(300, 10);
    s.data(900, 10);
    s.ack(905, 11);
    s.sack(912, 11, 10, 11);
    let flow = s.end();
    assert_eq!((flow.directions[1].counts.spurious, flow.events[0].spurious), (1, true));
    assert_eq!(stalls(&flow)[0].0, Cause::AckDelayedOrLost);
    // Eifel (RFC 3522): the ACK echoes the time of the original.
    let mut s = under_way();
    s.stamps(1000, 1).data(300, 10);
    s.stamps(1600, 1).data(900, 10);
    s.stamps(50, 1000).ack(912, 11);
    let flow = s.end();
    assert_eq!((flow.events[0].spurious, stalls(&flow)[0].0), (true, Cause::AckDelayedOrLost));
}

/// Losses before the capture, so that they are known to occur: holes that are filled after a round trip. All is
/// acknowledged in the end, until then, up to that segment.
fn losses_before() -> (Story, u64, u32) {
    let mut s = under_way();
    let (mut n, mut ms) = (10, 300);
    for _ in 0..5 {
        s.data(ms, n + 1);
        for dup in 0..3 {
            s.ack(ms + 10 + dup, n);
        }
        s.data(ms + 70, n);
        s.ack(ms + 80, n + 2);
        n += 2;
        ms += 140;
    }
    (s, ms, n)
}

#[test]
fn a_closed_window_stops_the_timer_behind_the_bottleneck_too() {
    let (mut s, ms, n) = losses_before();
    s.window(0).ack(ms, n);
    s.ack(ms + 2_000, n);
    s.data(ms + 2_060, n);
    s.ack(ms + 2_070, n + 1);
    let flow = s.end();
    assert_eq!(stalls(&flow), [(Cause::ZeroWindow, 2_060, None, 0)]);
    assert_eq!(flow.directions[1].counts.timeouts, 0);
}

#[test]
fn what_the_silence_tells_behind_the_bottleneck() {
    let (mut s, ms, n) = losses_before();
    assert_eq!(s.analyzer.open(), 1);
    // All is acknowledged, and the sender has more. Silence for 2 s: 260, 520 and 1040 ms make 1.82 s.
    let after = s.data(ms + 2_000, n);
    s.ack(ms + 2_010, n + 1);
    let flow = s.end();
    let inferred: Vec<_> = flow.events.iter().filter(|e| e.repair == Repair::Timeout).collect();
    assert_eq!(inferred.len(), 3, "{inferred:?}");
    assert!(inferred.iter().all(|e| e.inferred && e.frame == after && e.lost == Place::Before));
    assert!(inferred.iter().all(|e| e.certainty < Certainty::Certain));
    assert_eq!(flow.directions[1].counts.timeouts_inferred, 3);
}
