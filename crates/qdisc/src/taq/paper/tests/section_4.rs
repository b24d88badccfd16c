//! 4: what is remembered with a state, and who loses a packet by it.

use super::*;

#[test]
fn s4_new_packets_of_an_epoch_measure_the_window() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.past(200, 1, 7);
    assert_eq!(b.flow(201, 1).window_pkts(), 7);
    b.past(401, 1, 3);
    assert_eq!(b.flow(402, 1).window_pkts(), 3);
}

#[test]
fn s5_recovery_remembers_how_many_drops_are_to_be_repaired() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.past(200, 1, 8);
    for _ in 0..2 {
        b.data(200, 1, 1000);
    }
    for left in 1..=2 {
        b.lose(200, 1);
        assert_eq!(b.flow(200, 1).unrepaired(), left);
    }
    for (back, left) in [(1920, 1), (960, 0)] {
        let seq = b.seqs[1] - back;
        let p = b.packet(1, seq, 960, Flags::ACK);
        b.offer(260, p);
        b.drain(260);
        assert_eq!(b.flow(260, 1).unrepaired(), left);
    }
}

#[test]
fn s6_silences_remember_the_state_before() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.past(200, 1, 8);
    b.data(200, 1, 1000);
    b.lose(200, 1);
    let states = |f: &Flow| (f.phase(), f.previous_phase());
    assert_eq!(states(b.flow(801, 1)), (Some(Phase::TimeoutSilence), Some(Phase::LossRecovery)));
    b.again(1500, 1, 1000);
    b.lose_recovery(1500);
    assert_eq!(states(b.flow(1500, 1)), (Some(Phase::ExtendedSilence), Some(Phase::TimeoutRecovery)));
}

#[test]
fn s2_in_timeout_recovery_a_loss_is_a_repetitive_timeout() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.past(200, 1, 8);
    b.data(200, 1, 1000);
    b.lose(200, 1);
    b.again(1500, 1, 1000);
    assert_eq!(b.next_state(1500, 1), NextState::Repeated);
    // s7: repaired, it is in slow start; what follows the retransmission is as dear (3.2), and then no more.
    b.drain(1500);
    assert_eq!(
        (b.flow(1500, 1).phase(), b.next_state(1500, 1)),
        (Some(Phase::SlowStart), NextState::Repeated)
    );
    for ms in [1500, 1700, 1900] {
        b.past(ms + 200, 1, 1);
    }
    assert_eq!((b.flow(1900, 1).phase(), b.next_state(1900, 1)), (Some(Phase::Normal), NextState::Timeout));
}

#[test]
fn s2_who_can_repair_a_loss_suffers_it() {
    let mut b = Bench::new(&[("buffer", "4"), ("newflow_cap", "0.5")]);
    b.past(200, 1, 4);
    b.past(200, 2, 3);
    let first = b.data(201, 1, 1000);
    b.data(201, 2, 1000);
    b.data(201, 2, 1000);
    assert_eq!(b.dropped(), [first], "three in the queue of two: a window of four against one of three");
}

#[test]
fn s2_the_consequence_decides_before_the_queue() {
    let mut b = Bench::new(&[("buffer", "3")]);
    // 1 is above its share of 300 kbit/s, 2 below it with five packets an epoch: 200 kbit/s.
    for ms in [200, 401, 602, 803, 1_004, 1_205] {
        b.past(ms, 1, 25);
        b.past(ms, 2, 5);
    }
    b.again(1_206, 1, 1000);
    let above = [b.data(1_206, 1, 1000), b.data(1_206, 1, 1000)];
    assert_eq!(b.waiting(Class::Above), 2);
    // 1 repairs a loss, so another is a timeout; 2 has none, and a window of five.
    let below = b.data(1_206, 2, 1000);
    assert_eq!(b.dropped(), [below]);
    b.data(1_206, 3, 1000);
    assert_eq!(b.dropped(), [above[1]], "new flows lose to their own limit, or after the others");
}

#[test]
fn of_equal_consequences_above_fair_share_loses_first_then_the_fastest() {
    let mut b = Bench::new(&[("buffer", "6")]);
    // Two flows above their share of 300 kbit/s: 1 Mbit/s and 1.2 Mbit/s.
    for (flow, n) in [(1, 25), (2, 30)] {
        for _ in 0..n {
            b.data(0, flow, 1000);
            b.drain(0);
        }
    }
    let ids = [1, 2, 1, 2, 1, 2].map(|flow| b.data(201, flow, 1000));
    assert_eq!(b.waiting(Class::Above), 6);
    // Neither flow has a drop yet: the faster, flow 2, loses its newest packet. Then its losses are second ones,
    // and 1 loses.
    let next = b.data(202, 1, 1000);
    assert_eq!(b.dropped(), [ids[5]]);
    b.data(202, 2, 1000);
    assert_eq!(b.dropped(), [next]);
}
