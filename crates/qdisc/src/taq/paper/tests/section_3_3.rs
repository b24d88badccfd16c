//! 3.3: epochs and states, as the box sees them.

use super::*;

#[test]
fn s3_s4_an_epoch_is_the_round_trip_with_the_wait_here() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.data(0, 1, 1000);
    b.send(300);
    b.acks(400, 1);
    assert_eq!(b.flow(400, 1).epoch_len(), Duration::from_millis(400));
}

#[test]
fn s5_s6_one_way_it_is_from_syn_to_data_and_then_from_burst_to_burst() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.syn(0, 1);
    b.send(0);
    b.data(320, 1, 1000);
    assert_eq!(b.flow(320, 1).epoch_len(), Duration::from_millis(320));
    // 7/8 * 320 + 1/8 * 400 = 330 ms.
    b.data(720, 1, 1000);
    assert_eq!(b.flow(720, 1).epoch_len(), Duration::from_millis(330));
}

#[test]
fn s10_the_six_states() {
    let mut b = Bench::new(&[("buffer", "100")]);
    let is = |b: &mut Bench, ms, phase| assert_eq!(b.flow(ms, 1).phase(), Some(phase), "{ms}");
    b.past(200, 1, 4);
    is(&mut b, 200, Phase::SlowStart);
    b.past(401, 1, 4);
    is(&mut b, 401, Phase::Normal);
    b.data(401, 1, 1000);
    b.lose(401, 1);
    is(&mut b, 401, Phase::LossRecovery);
    // 401 to 600 ms had a packet, 600 to 800 none.
    is(&mut b, 801, Phase::TimeoutSilence);
    b.again(1500, 1, 1000);
    is(&mut b, 1500, Phase::TimeoutRecovery);
    b.lose_recovery(1500);
    is(&mut b, 1500, Phase::ExtendedSilence);
    b.again(4000, 1, 1000);
    is(&mut b, 4000, Phase::TimeoutRecovery);
    b.drain(4000);
    is(&mut b, 4000, Phase::SlowStart);
}
