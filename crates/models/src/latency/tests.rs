use super::*;

const SEED: u64 = 2000;

fn near(got: f64, expected: f64, tolerance: f64) {
    assert!((got - expected).abs() <= tolerance, "{got} is not {expected} to {tolerance} (seed {SEED})");
}

fn transfer(packets: u64, loss: f64) -> Transfer {
    Transfer {
        packets,
        flow: LongFlow { loss, rtt_s: 0.1, rto_s: 1.0, b: 1.0, wmax_packets: None },
        reverse_loss: 0.0,
        syn_rto_s: 1.0,
        initial_window: 10.0,
        delayed_ack_s: 0.0,
    }
}

/// p_f = p_r = .1: each adds T_s .1/.8 = .125 T_s. With the paper's T_s = 3 s and RTT .07: .07 + .75.
#[test]
fn handshake_by_hand() {
    near(handshake_s(0.1, 0.1, 0.07, 3.0).unwrap(), 0.82, 1e-12);
    near(handshake_s(0.0, 0.0, 0.07, 3.0).unwrap(), 0.07, 1e-15);
    // .02/.96 = .0208333.
    near(handshake_s(0.02, 0.0, 0.1, 1.0).unwrap(), 0.1208333, 1e-7);
}

/// 20 kB are 14 packets. p = .02: q^14 = .753642, l = .246358, E[d_ss] = .246358 * 49 = 12.07154. gamma = 2: W =
/// 12.07154/2 + 5 = 11.03577; log2(2.207154) = 1.142187 rounds. Q(11.03577) with q^W = .800151, q^(W-3) = .850146:
/// .058808 (1 + .941192 * .149854) / .199849 = .335768. T_loss = .246358 (.335768 * 1.041666 + .664232 * .1) = .102530.
/// T_ca = (14 - 12.07154) / 53.214 = .036240 (the throughput of the long flow is worked by hand beside it).
#[test]
fn a_page_at_two_percent_by_hand() {
    let got = cardwell(&transfer(14, 0.02)).unwrap();
    near(got.loss_probability, 0.246358, 1e-6);
    near(got.slow_start_packets, 12.07154, 5e-5);
    near(got.window_packets, 11.03577, 5e-5);
    near(got.slow_start_s, 0.1142187, 1e-6);
    near(got.timeout_probability, 0.335768, 3e-6);
    near(got.loss_s, 0.102530, 2e-6);
    near(got.avoidance_s, 0.036240, 2e-6);
    near(got.handshake_s, 0.1208333, 1e-7);
    near(got.total_s(), 0.1208333 + 0.1142187 + 0.102530 + 0.036240, 1e-5);
}

/// d packets in whole rounds of slow start, without loss: w1 (gamma^i - 1)/(gamma - 1) packets take i rounds.
#[test]
fn without_loss_it_is_slow_start() {
    for (w1, b, packets, rounds) in [
        (10.0, 1.0, 10, 1.0),
        (10.0, 1.0, 70, 3.0),
        (1.0, 1.0, 1023, 10.0),
        // gamma = 1.5: 4 + 6 + 9.
        (4.0, 2.0, 19, 3.0),
    ] {
        let mut lossless = Transfer { initial_window: w1, ..transfer(packets, 0.0) };
        lossless.flow.b = b;
        let got = cardwell(&lossless).unwrap();
        near(got.slow_start_s, rounds * 0.1, 1e-12);
        near(got.transfer_s(), rounds * 0.1, 1e-12);
        assert_eq!((got.slow_start_packets, got.loss_s, got.avoidance_s), (packets as f64, 0.0, 0.0));
        // A loss near zero gives the same in the limit.
        lossless.flow.loss = 1e-12;
        near(cardwell(&lossless).unwrap().total_s(), 0.1 + rounds * 0.1, 1e-6);
    }
    // 10, 20, 40, then a limit of 40: 70 packets in three rounds, 400 more in ten.
    let mut limited = transfer(470, 0.0);
    limited.flow.wmax_packets = Some(40.0);
    near(cardwell(&limited).unwrap().slow_start_s, 1.3, 1e-12);
    // An initial window above the receiver's is the receiver's.
    limited.flow.wmax_packets = Some(5.0);
    near(cardwell(&limited).unwrap().slow_start_s, 9.4, 1e-12);
}

#[test]
fn a_lone_first_segment_waits_for_its_ack() {
    let lone = Transfer { initial_window: 1.0, delayed_ack_s: 0.1, ..transfer(7, 0.0) };
    near(cardwell(&lone).unwrap().transfer_s(), 0.4, 1e-12);
    near(cardwell(&Transfer { initial_window: 2.0, ..lone }).unwrap().delayed_ack_s, 0.0, 0.0);
}

/// Eq. 5 as printed ends in + 1. The sum it stands for does not.
#[test]
fn the_sum_of_equation_5() {
    for (d, p) in [(1_u64, 0.3_f64), (5, 0.1), (40, 0.02)] {
        let q = 1.0 - p;
        let sum: f64 =
            (0..d).map(|k| q.powi(k as i32) * p * k as f64).sum::<f64>() + q.powi(d as i32) * d as f64;
        let got = cardwell(&transfer(d, p)).unwrap().slow_start_packets;
        near(got, sum, 1e-12);
        let printed = (1.0 - q.powi(d as i32)) * q / p + 1.0;
        near(got, printed - 1.0, 1e-12);
    }
}

#[test]
fn a_long_transfer_goes_at_the_rate_of_a_long_flow() {
    for loss in [1e-3, 0.02, 0.1, 0.3] {
        let long = transfer(1_000_000_000, loss);
        let rate = 1e9 / cardwell(&long).unwrap().total_s();
        near(rate / padhye_throughput(&long.flow).unwrap(), 1.0, 1e-5);
    }
}

/// A transfer ends later with more to send, a longer path, a longer timer or a smaller first window. More loss makes it
/// later too as long as a timeout is dearer than a round: the first loss ends a slow start whose rounds the model
/// counts.
#[test]
fn what_makes_it_longer() {
    let total = |t: Transfer| cardwell(&t).unwrap().total_s();
    for loss in [0.0, 1e-4, 0.01, 0.1, 0.4] {
        for packets in [1, 5, 14, 100, 3000] {
            let base = transfer(packets, loss);
            let now = total(base);
            assert!(total(transfer(packets + 1, loss)) > now, "{base:?}");
            let with = |flow: LongFlow| total(Transfer { flow, ..base });
            assert!(with(LongFlow { rtt_s: 0.11, ..base.flow }) > now, "{base:?}");
            assert!(loss == 0.0 || with(LongFlow { rto_s: 1.1, ..base.flow }) > now, "{base:?}");
            assert!(with(LongFlow { loss: loss + 0.05, ..base.flow }) > now, "{base:?}");
            assert!(total(Transfer { initial_window: 5.0, ..base }) > now, "{base:?}");
            assert!(total(Transfer { reverse_loss: 0.1, ..base }) > now, "{base:?}");
        }
    }
}

#[test]
fn domains_are_stated() {
    let good = transfer(14, 0.02);
    let half = cardwell(&transfer(14, 0.5)).unwrap_err().to_string();
    assert_eq!(half, "loss = 0.5: expected 0 <= loss < 0.5: above, the SYN's doubling timer has no mean");
    assert!(cardwell(&transfer(0, 0.02)).is_err() && cardwell(&transfer(u64::MAX, 0.02)).is_err());
    for value in [f64::NAN, f64::INFINITY, -1.0] {
        for wrong in [
            Transfer { reverse_loss: value, ..good },
            Transfer { syn_rto_s: value, ..good },
            Transfer { initial_window: value, ..good },
            Transfer { delayed_ack_s: value, ..good },
            Transfer { flow: LongFlow { rtt_s: value, ..good.flow }, ..good },
            Transfer { flow: LongFlow { loss: value, ..good.flow }, ..good },
        ] {
            assert!(cardwell(&wrong).is_err(), "{wrong:?}");
        }
    }
    for packets in [1, 1_000_000_000_000] {
        for loss in [0.0, 1e-12, 0.499_999] {
            for wmax_packets in [None, Some(1.0)] {
                for b in [1.0, 1000.0] {
                    let corner = Transfer {
                        flow: LongFlow { loss, rtt_s: 1e9, rto_s: 1e9, b, wmax_packets },
                        initial_window: 1e9,
                        ..transfer(packets, 0.0)
                    };
                    let total = cardwell(&corner).unwrap().total_s();
                    assert!(total.is_finite() && total > 0.0, "{corner:?}: {total}");
                }
            }
        }
    }
}

/// Mean and its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n / n).sqrt())
}

/// A packet sent again with a doubling timer, at most `cap` times the first, until it arrives: how long that took.
fn until_it_arrives(p: f64, first_timer_s: f64, cap: f64, rng: &mut fastrand::Rng) -> f64 {
    let (mut waited, mut timer) = (0.0, first_timer_s);
    while rng.f64() < p {
        waited += timer;
        timer = (2.0 * timer).min(cap * first_timer_s);
    }
    waited
}

/// Checks the exact parts of the model against the process: the handshake, E[d_ss], l_ss.
#[test]
fn the_exact_parts_match_the_process() {
    let mut rng = fastrand::Rng::with_seed(SEED);
    for (p_f, p_r) in [(0.02, 0.0), (0.1, 0.05), (0.2, 0.1)] {
        let times: Vec<f64> = (0..40_000)
            .map(|_| {
                0.1 + [p_f, p_r]
                    .map(|p| until_it_arrives(p, 1.0, f64::INFINITY, &mut rng))
                    .iter()
                    .sum::<f64>()
            })
            .collect();
        let (got, error) = mean(&times);
        near(got, handshake_s(p_f, p_r, 0.1, 1.0).unwrap(), 3.0 * error);
    }
    for (d, p) in [(5, 0.1), (14, 0.02), (100, 0.02)] {
        let sent: Vec<f64> =
            (0..20_000).map(|_| (0..d).take_while(|_| rng.f64() >= p).count() as f64).collect();
        let model = cardwell(&transfer(d, p)).unwrap();
        let (got, error) = mean(&sent);
        near(got, model.slow_start_packets, 3.0 * error);
        let (lost, error) =
            mean(&sent.iter().map(|k| f64::from(u8::from(*k < d as f64))).collect::<Vec<_>>());
        near(lost, model.loss_probability, 3.0 * error);
    }
}

/// A sender of whole packets in rounds: slow start, then Padhye's rounds. A loss takes the rest of its round; what came
/// before it clocks out one more round while there is something left to send; fewer than three duplicates mean a
/// timeout. Slow start is not taken up again, as in the model. Returns the time of the data, seconds.
fn send(t: &Transfer, rng: &mut fastrand::Rng) -> f64 {
    let (mut left, mut time, mut w) = (t.packets, 0.0, t.initial_window);
    let mut slow_start = true;
    while left > 0 {
        let size = (w.floor() as u64).clamp(1, left);
        let arrived = (0..size).take_while(|_| rng.f64() >= t.flow.loss).count() as u64;
        left -= arrived;
        time += t.flow.rtt_s;
        if arrived == size {
            w += if slow_start { w / t.flow.b } else { 1.0 / t.flow.b };
            continue;
        }
        // Lost packets are repaired first; the packets of the last round are new ones.
        let clocked = arrived.min(left - (size - arrived));
        let duplicates = (0..clocked).take_while(|_| rng.f64() >= t.flow.loss).count() as u64;
        left -= duplicates;
        time += if duplicates < 3 {
            let again = t.flow.rto_s + until_it_arrives(t.flow.loss, 2.0 * t.flow.rto_s, 32.0, rng);
            left -= 1;
            again
        } else {
            t.flow.rtt_s
        };
        (w, slow_start) = ((w / 2.0).max(1.0), false);
    }
    time
}

/// The model over the process, and how far it is from one: to 0.03 (three standard errors are below that everywhere,
/// but for 1000 packets at one loss in a thousand, where they are 0.07 of a process that is run a thousand times; the
/// seed is fixed). Up to some hundred packets the model is short by the part of a round it does not count to the end
/// (14 packets at a window of 10 are two rounds; it says 1.26) and by timeouts of the last packets; beyond, by what
/// Padhye's closed form is too fast. A long slow start leaves a window larger than that of a long flow: there it is
/// late.
#[test]
fn the_closed_form_against_the_process() {
    let mut rng = fastrand::Rng::with_seed(SEED);
    for (packets, loss, w1, expected) in [
        (14, 0.0, 10.0, 0.63),
        (14, 0.001, 10.0, 0.63),
        (14, 0.02, 10.0, 0.65),
        (14, 0.1, 10.0, 0.91),
        (14, 0.02, 3.0, 0.69),
        (100, 0.001, 10.0, 0.79),
        (100, 0.02, 10.0, 0.88),
        (100, 0.1, 10.0, 0.85),
        (1000, 0.001, 10.0, 1.09),
        (1000, 0.02, 10.0, 0.92),
        (1000, 0.1, 10.0, 0.79),
    ] {
        let t = Transfer { initial_window: w1, ..transfer(packets, loss) };
        let runs = if packets > 100 { 1_000 } else { 8_000 };
        let times: Vec<f64> = (0..runs).map(|_| send(&t, &mut rng)).collect();
        let (got, error) = mean(&times);
        let ratio = cardwell(&t).unwrap().transfer_s() / got;
        let said = format!(
            "seed {SEED}, {packets} packets, loss {loss}, window {w1}: {ratio}, error {}",
            error / got
        );
        assert!((ratio - expected).abs() < 0.03, "{said}");
    }
}
