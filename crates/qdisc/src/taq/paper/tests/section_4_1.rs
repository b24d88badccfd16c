//! 4.1: what a drop would do, and who is spared for it.

use super::*;

#[test]
fn s9_s10_a_single_loss_in_a_window_of_four_is_repaired() {
    for (window, next) in [(3, NextState::Timeout), (4, NextState::LossRecovery)] {
        let mut b = Bench::new(&[("buffer", "100")]);
        b.past(200, 1, window);
        assert_eq!(b.next_state(200, 1), next, "{window}");
        // Nothing for an epoch and more: no window is left.
        assert_eq!(b.next_state(620, 1), NextState::Timeout);
    }
}

#[test]
fn s6_s10_s12_a_second_loss_in_this_epoch_or_the_next_is_a_timeout() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.past(200, 1, 10);
    b.data(200, 1, 1000);
    b.lose(200, 1);
    assert_eq!(b.next_state(200, 1), NextState::SecondLoss);
    b.again(260, 1, 1000);
    b.drain(260);
    for ms in [410, 450] {
        assert_eq!(b.next_state(ms, 1), NextState::SecondLoss, "the drop was in the last epoch");
        b.past(ms + 200, 1, 4);
    }
    // s6: an epoch without a drop, and all repaired.
    assert_eq!(b.next_state(610, 1), NextState::LossRecovery);
    assert_eq!(b.flow(610, 1).phase(), Some(Phase::Normal));
}

#[test]
fn s3_a_loss_elsewhere_changes_the_state_too() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.past(200, 1, 8);
    b.again(200, 1, 1000);
    assert_eq!(b.flow(200, 1).phase(), Some(Phase::LossRecovery));
    assert_eq!(b.next_state(200, 1), NextState::SecondLoss);
}

#[test]
fn what_has_no_timer_has_no_timeout() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.syn(0, 1);
    assert_eq!(b.next_state(0, 1), NextState::Timeout);
    assert_eq!(after_loss(b.flow(0, 1), PacketKind::PureAck), NextState::LossRecovery);
    let mut udp = b.packet(2, 0, 500, Flags::ACK);
    (udp.header.key.proto, udp.header.tcp) = (Proto::UDP, None);
    b.offer(0, udp);
    let id = b.q.tracker.lookup(&udp.header.key).unwrap();
    assert_eq!(after_loss(b.q.tracker.flow(id), PacketKind::NotTcp), NextState::LossRecovery);
}

#[test]
fn s12_after_one_loss_nothing_stands_in_level_3() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.past(200, 1, 25);
    b.data(201, 1, 1000);
    assert_eq!(b.waiting(Class::Above), 1);
    b.lose(201, 1);
    b.data(202, 1, 1000);
    assert_eq!((b.waiting(Class::Above), b.waiting(Class::Below)), (0, 1));
    b.drain(202);
    // In the next epoch it is so, in the one after no more: 25, 22 and 19 kB an epoch are above 600 kbit/s.
    b.data(401, 1, 1000);
    assert_eq!((b.waiting(Class::Above), b.waiting(Class::Below)), (0, 1));
    b.drain(401);
    b.data(601, 1, 1000);
    assert_eq!((b.waiting(Class::Above), b.waiting(Class::Below)), (1, 0));
}

#[test]
fn s5_without_losses_a_flow_stays_in_slow_start_or_normal() {
    let mut b = Bench::new(&[("buffer", "100")]);
    let mut phases = Vec::new();
    for (ms, n) in [(200, 2), (401, 3), (602, 5), (803, 5), (1_004, 6)] {
        b.past(ms, 1, n);
        phases.push(b.flow(ms, 1).phase().unwrap());
    }
    use Phase::{Normal, SlowStart};
    assert_eq!(phases, [SlowStart, SlowStart, SlowStart, Normal, Normal]);
}

#[test]
fn s13_a_lost_retransmission_is_a_timeout() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.past(200, 1, 8);
    b.data(200, 1, 1000);
    b.lose(200, 1);
    b.again(260, 1, 1000);
    b.lose_recovery(260);
    assert_eq!(b.flow(300, 1).phase(), Some(Phase::LossRecovery), "no epoch has passed without data");
    assert_eq!(b.flow(620, 1).phase(), Some(Phase::TimeoutSilence));
    b.again(700, 1, 1000);
    assert_eq!(b.flow(700, 1).phase(), Some(Phase::TimeoutRecovery));
}

#[test]
fn s14_retransmissions_are_lost_last() {
    let mut b = Bench::new(&[("buffer", "4")]);
    b.past(200, 1, 8);
    b.data(200, 1, 1000);
    b.drain(200);
    b.again(200, 1, 1000);
    // In loss recovery: a second loss, and yet these go first.
    let new = [0; 3].map(|_| b.data(201, 1, 1000));
    b.again(201, 1, 1000);
    assert_eq!(b.dropped(), [new[2]]);
    assert_eq!(b.waiting(Class::Recovery), 2);
}

#[test]
fn s15_what_a_lost_retransmission_was_is_kept() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.past(200, 1, 4);
    b.data(200, 1, 1000);
    b.lose(200, 1);
    b.again(1500, 1, 1000);
    b.lose_recovery(1500);
    let flow = b.flow(3000, 1);
    assert_eq!(flow.phase(), Some(Phase::ExtendedSilence));
    assert_eq!(flow.previous_phase(), Some(Phase::TimeoutRecovery));
    assert_eq!(flow.last_silence(), Duration::from_millis(1300));
    assert_eq!(flow.unrepaired(), 1);
}

#[test]
fn s16_s17_extended_silence_then_silence_then_first_then_time() {
    let mut b = Bench::new(&[("buffer", "100")]);
    let begin = |b: &mut Bench, ms, flow| {
        b.past(ms + 200, flow, 4);
        b.data(ms, flow, 1000);
        b.lose(ms, flow);
    };
    begin(&mut b, 1000, 1);
    begin(&mut b, 1000, 2);
    begin(&mut b, 2000, 3);
    // The timer of 1 fires and the repair is lost: an extended silence of 1.4 s, shorter than those of 2 and 3.
    b.again(2500, 1, 1000);
    b.lose_recovery(2500);
    // 4 sent new data at 3.8 s and 5 at 3.85 s; what they repeat they lost at 3.9 s.
    for (flow, ms) in [(4, 3800), (5, 3850)] {
        b.past(ms + 200, flow, 4);
    }
    for flow in [4, 5] {
        b.data(3900, flow, 1000);
        b.lose(3900, flow);
    }
    let [fifth, fourth, third, second, first] = [5, 4, 3, 2, 1].map(|flow| b.again(3910, flow, 1000));
    assert_eq!(b.drain(3910), [first, second, third, fourth, fifth]);
}

#[test]
fn a_silence_long_past_gives_no_priority() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.past(200, 1, 4);
    b.data(200, 1, 1000);
    let key = b.packet(1, 0, 0, Flags::ACK).header.key;
    let node = b.q.store.tail_of(slot(b.q.tracker.lookup(&key).unwrap())).unwrap();
    b.q.drop_node(at(200), node, Reason::PushedOut, &mut b.verdicts);
    b.again(2_000, 1, 1000);
    b.drain(2_000);
    // Repaired, and some new data later a loss elsewhere is repaired by fast retransmit.
    b.data(2_010, 1, 1000);
    b.data(2_010, 2, 1000);
    b.drain(2_010);
    let first = b.again(2_050, 2, 1000);
    let second = b.again(2_050, 1, 1000);
    assert_eq!(b.drain(2_050), [first, second]);
    assert_eq!(b.q.counters.goodput_bytes, Bytes(6 * 960), "a retransmission is no goodput");
}
