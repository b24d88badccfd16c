//! Every transition of the table in TAQ's section 3.3 (Fig. 7), driven by packets.

use super::*;
use Phase::*;

/// Bursts of 2, 4 and 4 segments at 0, 100 and 200 ms; at 300 ms the flow is NORMAL and has sent up to 1000.
fn normal() -> Scene {
    let mut s = Scene::new();
    s.burst(0, 0, 2);
    assert_eq!(s.phase(), SlowStart);
    s.burst(100, 200, 4);
    assert_eq!(s.phase(), SlowStart, "2 new after none");
    s.burst(200, 600, 4);
    assert_eq!(s.phase(), SlowStart, "4 new after 2: 4 >= 1.5 * 2");
    assert_eq!(s.phase_at(300), Normal, "4 new after 4: 4 < 1.5 * 4");
    s
}

/// NORMAL, then of three packets at 300 ms the first (1000 to 1100) is dropped.
fn one_owed() -> Scene {
    let mut s = normal();
    assert_eq!(s.falls(300, 1000, 100), PacketKind::New);
    assert_eq!(s.phase(), LossRecovery);
    assert_eq!((s.flow().drops_cur(), s.flow().unrepaired()), (1, 1));
    s.burst(310, 1100, 2);
    s
}

/// NORMAL, then a loss at 300 ms, then nothing: silent from 400 to 500 ms.
fn timed_out() -> Scene {
    let mut s = one_owed();
    assert_eq!(s.phase_at(400), LossRecovery, "the epoch that ends at 400 had packets");
    assert_eq!(s.phase_at(499), LossRecovery);
    assert_eq!(s.phase_at(500), TimeoutSilence);
    s
}

/// NORMAL, then a loss and a silence; the retransmission comes at 1310 ms and waits here.
fn recovering() -> Scene {
    let mut s = timed_out();
    assert_eq!(s.arrives(1310, ACK, 1000, 100).kind, PacketKind::Retransmission);
    assert_eq!(s.phase(), TimeoutRecovery);
    s
}

#[test]
fn slow_start_and_normal_follow_the_growth_of_an_epoch() {
    let mut s = normal();
    s.burst(300, 1000, 6);
    assert_eq!(s.phase_at(400), SlowStart, "6 >= 1.5 * 4");
    assert_eq!(s.flow().previous_phase(), Some(Normal));
    s.burst(400, 1600, 8);
    assert_eq!(s.phase_at(500), Normal, "8 < 1.5 * 6");
    assert_eq!((s.flow().new_pkts(), s.flow().prev_new_pkts()), (0, 8));
}

#[test]
fn slow_start_goes_idle_when_there_is_nothing_to_send() {
    let mut s = Scene::new();
    s.burst(0, 0, 2);
    assert_eq!(s.phase_at(199), SlowStart);
    assert_eq!(s.phase_at(200), Idle);
    assert_eq!(s.flow().silent_epochs(), 1);
}

#[test]
fn normal_goes_idle_and_new_data_starts_slowly_again() {
    let mut s = normal();
    assert_eq!(s.phase_at(400), Idle);
    s.now = 1000;
    assert_eq!((s.phase(), s.flow().silent_epochs()), (Idle, 7));
    s.passes(1050, 1000, 100);
    assert_eq!(s.phase(), SlowStart);
    // An idle gap is no silence.
    assert_eq!(s.flow().last_silence(), Duration::ZERO);
    assert_eq!(s.flow().silent_epochs(), 0);
}

#[test]
fn the_first_packet_after_a_gap_opens_an_epoch() {
    let mut s = normal();
    // Epochs would end at 1100 and 1200; the one that 1050 opens ends at 1150.
    s.burst(1050, 1000, 2);
    s.now = 1149;
    assert_eq!(s.flow().new_pkts(), 2);
    s.now = 1150;
    assert_eq!((s.flow().new_pkts(), s.flow().prev_new_pkts()), (0, 2));
}

#[test]
fn a_retransmission_out_of_idleness_is_a_timeout_elsewhere() {
    let mut s = normal();
    assert_eq!(s.arrives(1200, ACK, 900, 100).kind, PacketKind::Retransmission);
    assert_eq!(s.phase(), TimeoutRecovery);
    // From the last data at 200 ms.
    assert_eq!(s.flow().last_silence(), millis(1000));
    s.leaves(1200, ACK, 900, 100);
    assert_eq!(s.phase(), SlowStart, "nothing was left to repair");
}

#[test]
fn a_drop_leads_to_loss_recovery_from_both() {
    assert_eq!(one_owed().phase(), LossRecovery);
    let mut s = Scene::new();
    s.falls(0, 0, 100);
    assert_eq!(s.phase(), LossRecovery);
    assert_eq!(s.flow().previous_phase(), Some(SlowStart));
}

#[test]
fn a_retransmission_that_nothing_is_owed_for_is_a_loss_elsewhere() {
    let mut s = normal();
    s.passes(300, 900, 100);
    assert_eq!((s.phase(), s.flow().unrepaired(), s.flow().retx_pkts()), (LossRecovery, 0, 1));
    assert_eq!(s.phase_at(400), Normal);
}

#[test]
fn loss_recovery_ends_with_an_epoch_without_drop_and_nothing_owed() {
    let mut s = one_owed();
    s.passes(390, 1000, 100);
    assert_eq!(s.flow().unrepaired(), 0);
    assert_eq!(s.phase_at(400), LossRecovery, "the epoch that ends had a drop");
    assert_eq!((s.flow().drops_cur(), s.flow().drops_prev()), (0, 1));
    s.burst(410, 1300, 2);
    assert_eq!(s.phase_at(500), Normal);
}

#[test]
fn loss_recovery_without_packets_is_a_timeout() {
    let mut s = timed_out();
    assert_eq!(s.flow().silent_epochs(), 1);
    s.now = 1300;
    assert_eq!((s.phase(), s.flow().silent_epochs()), (TimeoutSilence, 9));
    assert_eq!(s.flow().silence(ms(1300)), millis(990));
}

#[test]
fn a_second_retransmission_proves_a_timeout() {
    let mut s = one_owed();
    assert_eq!(s.falls(350, 1000, 100), PacketKind::Retransmission);
    assert_eq!((s.phase(), s.flow().unrepaired()), (LossRecovery, 1), "the same packet counts once");
    assert_eq!(s.flow().drops_cur(), 2);
    s.arrives(390, ACK, 1000, 100);
    assert_eq!(s.phase(), TimeoutRecovery);
}

#[test]
fn the_first_packet_after_the_silence_is_the_timeout_recovery() {
    let mut s = recovering();
    assert_eq!(s.flow().last_silence(), millis(1000), "from 310 to 1310");
    assert_eq!(s.flow().silent_epochs(), 0);
    s.leaves(1320, ACK, 1000, 100);
    assert_eq!((s.phase(), s.flow().unrepaired()), (SlowStart, 0));
}

#[test]
fn a_drop_in_timeout_recovery_is_an_extended_silence() {
    let mut s = recovering();
    s.dropped(1311, 1000, 100);
    assert_eq!((s.phase(), s.flow().unrepaired()), (ExtendedSilence, 1));
    assert_eq!(s.phase_at(3000), ExtendedSilence);
    s.passes(3310, 1000, 100);
    assert_eq!(s.flow().previous_phase(), Some(TimeoutRecovery));
    assert_eq!(s.phase(), SlowStart, "it came (TIMEOUT_RECOVERY) and went on (unrepaired = 0)");
    assert_eq!(s.flow().last_silence(), millis(2000));
}

#[test]
fn an_epoch_without_packets_in_timeout_recovery_is_an_extended_silence() {
    // The silence was told at the epoch end at 500; 1310 opens a new epoch.
    let mut s = recovering();
    assert_eq!(s.phase_at(1410), TimeoutRecovery);
    assert_eq!(s.phase_at(1510), ExtendedSilence);
    s.arrives(1600, ACK, 1000, 100);
    assert_eq!(s.phase(), TimeoutRecovery);
}

#[test]
fn timeout_recovery_lasts_while_anything_is_owed() {
    let mut s = normal();
    s.falls(300, 1000, 100);
    s.passes(300, 1100, 100);
    s.falls(300, 1200, 100);
    assert_eq!(s.flow().unrepaired(), 2);
    s.passes(1300, 1000, 100);
    assert_eq!((s.phase(), s.flow().unrepaired()), (TimeoutRecovery, 1));
    s.passes(1350, 1100, 100);
    assert_eq!((s.phase(), s.flow().unrepaired()), (TimeoutRecovery, 1), "a needless copy repairs nothing");
    s.passes(1360, 1200, 100);
    assert_eq!((s.phase(), s.flow().unrepaired()), (SlowStart, 0));
}

#[test]
fn one_large_retransmission_repays_two_packets() {
    let mut s = normal();
    s.falls(300, 1000, 100);
    s.falls(300, 1100, 100);
    assert_eq!(s.flow().unrepaired(), 2);
    assert!(s.flow().is_unrepaired(SeqNum(1050), 10) && !s.flow().is_unrepaired(SeqNum(1200), 10));
    s.passes(390, 1000, 200);
    assert_eq!(s.flow().unrepaired(), 0);
}

#[test]
fn two_small_retransmissions_repay_one_packet() {
    let mut s = normal();
    s.falls(300, 1000, 100);
    s.passes(390, 1000, 50);
    assert_eq!(s.flow().unrepaired(), 1);
    s.passes(391, 1050, 50);
    assert_eq!(s.flow().unrepaired(), 0);
}

#[test]
fn a_cumulative_ack_settles_what_is_owed() {
    let mut s = one_owed();
    s.acks(350, 1100);
    assert_eq!(s.flow().unrepaired(), 0);
    // Also during a silence, which is then no longer one of TCP's making.
    let mut s = timed_out();
    s.acks(550, 1300);
    assert_eq!((s.phase(), s.flow().unrepaired()), (TimeoutSilence, 0));
    // The ACK is the first: it makes the epoch that began at 500 one of 550 ms, its own time since the data at 0.
    assert_eq!(s.phase_at(1050), Idle);
}

#[test]
fn a_drop_from_the_queue_of_an_idle_flow_is_a_loss() {
    let mut s = normal();
    assert_eq!(s.phase_at(400), Idle);
    s.dropped(410, 900, 100);
    assert_eq!(s.phase(), LossRecovery);
    assert_eq!(s.phase_at(500), TimeoutSilence);
}

#[test]
fn what_is_no_data_moves_nothing() {
    let mut s = timed_out();
    assert_eq!(s.arrives(600, ACK, 1300, 0).kind, PacketKind::PureAck);
    assert_eq!(s.arrives(601, ACK, 1299, 0).kind, PacketKind::KeepAlive);
    assert_eq!((s.phase(), s.flow().silent_epochs()), (TimeoutSilence, 2));
    // A dropped pure ACK is no loss that TCP repairs.
    let mut s = normal();
    s.dropped(300, 1000, 0);
    assert_eq!((s.phase(), s.flow().unrepaired(), s.flow().drops_cur()), (Normal, 0, 1));
}

#[test]
fn a_reset_ends_every_debt() {
    let mut s = timed_out();
    assert_eq!(s.arrives(600, RST, 1300, 0).kind, PacketKind::Rst);
    assert_eq!((s.phase(), s.flow().unrepaired(), s.flow().closed()), (Idle, 0, true));
}

#[test]
fn only_tcp_with_data_has_a_phase() {
    let mut t = Tracker::new(TrackerConfig::default(), 1);
    let id = t.forward(ms(0), &udp(1, 500)).id.unwrap();
    assert_eq!((t.flow(id).phase(), t.flow(id).is_tcp()), (None, false));
    let mut s = Scene::new();
    s.arrives(0, SYN_ACK, 0, 0);
    assert_eq!((s.flow().phase(), s.flow().is_tcp()), (None, true));
}

#[test]
fn a_thousand_missed_epochs_are_as_one_by_one() {
    for seed in 1..50u64 {
        let (mut lazy, mut eager) = (one_owed(), one_owed());
        let end = 400 + seed * 977;
        for t in (400..end).step_by(10) {
            eager.now = t;
            eager.flow();
        }
        (lazy.now, eager.now) = (end, end);
        assert_eq!(format!("{:?}", lazy.flow()), format!("{:?}", eager.flow()));
    }
}
