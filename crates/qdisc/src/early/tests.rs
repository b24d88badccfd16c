//! The numbers of Floyd and Jacobson's sections VI and VII.

use super::*;

const SLOT: Duration = Duration::from_millis(1);

fn real(avg: &Average) -> f64 {
    avg.value as f64 / f64::from(1 << AVG_BITS)
}

fn near(got: f64, due: f64, by: f64) {
    assert!((got - due).abs() <= by, "{got} is not {due}");
}

fn average(w_q: u32) -> Average {
    Average::new(Ppm(w_q), SLOT)
}

fn at(avg: f64) -> Average {
    let mut a = average(2_000);
    a.value = (avg * f64::from(1 << AVG_BITS)) as u64;
    a
}

#[test]
fn a_burst_of_100_moves_the_average_to_4_88() {
    // Section VI.A: the queue grows from 0 to 100 packets with 100 arrivals, w_q = 0.001: avg_L = L + 1 +
    // ((1 - w_q)^(L+1) - 1) / w_q = 4.88. And equation 3: w_q up to 0.0042 lets 50 pass below min_th = 5.
    for (w_q, burst, due) in [(1_000, 100, 4.88), (4_200, 50, 5.0)] {
        let mut a = average(w_q);
        (1..=burst).for_each(|q| a.arrival(Instant::ZERO, q, false));
        near(real(&a), due, 0.008); // the paper cuts 4.887 short
    }
}

#[test]
fn two_thirds_of_a_step_take_1_over_w_q_arrivals() {
    // Section VI.B: with w_q = 0.001, 0.002, 0.003 it takes 1000, 500, 333 arrivals to 0.63 of a queue of one.
    for (w_q, arrivals) in [(1_000, 1000), (2_000, 500), (3_000, 333)] {
        let mut a = average(w_q);
        (0..arrivals).for_each(|_| a.arrival(Instant::ZERO, 1, false));
        near(real(&a), 0.632, 0.001);
    }
}

#[test]
fn idle_time_counts_as_packets_that_found_nothing() {
    let mut a = at(10.0);
    a.sent_at(Instant::from_nanos(1_000_000));
    // 0.998^500 = 0.36751; the half slot does not count.
    a.arrival(Instant::from_nanos(501_500_000), 0, true);
    near(real(&a), 3.6751, 0.0001);
    // The link is still busy with the last packet: an ordinary arrival that finds nothing.
    let mut b = at(10.0);
    b.sent_at(Instant::from_nanos(1_000_000));
    b.arrival(Instant::from_nanos(900_000), 0, true);
    near(real(&b), 9.98, 0.0001);
    // A second arrival after the first was dropped: no idle time twice.
    a.arrival(Instant::from_nanos(501_500_000), 0, true);
    near(real(&a), 3.6751 * 0.998, 0.0001);
    // Years.
    let mut c = at(1e6);
    c.arrival(Instant::FAR_FUTURE, 0, true);
    assert_eq!(c.value, 0);
}

const PAPER: Thresholds = Thresholds { min: 5, max: 15, max_p: Ppm(20_000), gentle: false, wait: false };

fn p_b(at_: Thresholds, avg: f64) -> Option<f64> {
    Curve::new(at_).p_b(&at(avg)).map(|p| p as f64 / ONE as f64)
}

#[test]
fn the_slopes_by_hand() {
    // max_p (avg - min) / (max - min): 0.02 * 5 / 10.
    near(p_b(PAPER, 5.0).unwrap(), 0.0, 1e-9);
    near(p_b(PAPER, 10.0).unwrap(), 0.01, 1e-8);
    near(p_b(PAPER, 14.999).unwrap(), 0.019_998, 1e-8);
    assert_eq!(p_b(PAPER, 15.0), None);
    // Gentle: 0.02 at 15, 1 at 30; half-way 0.02 + 0.98 / 2.
    let gentle = Thresholds { gentle: true, ..PAPER };
    near(p_b(gentle, 15.0).unwrap(), 0.02, 1e-8);
    near(p_b(gentle, 22.5).unwrap(), 0.51, 1e-8);
    near(p_b(gentle, 29.999).unwrap(), 0.999_935, 1e-6);
    assert_eq!(p_b(gentle, 30.0), None);
}

fn calls(avg: f64, part: Option<(u64, u64)>, n: usize, seed: u64) -> Vec<usize> {
    calls_of(PAPER, avg, part, n, seed)
}

fn calls_of(of: Thresholds, avg: f64, part: Option<(u64, u64)>, n: usize, seed: u64) -> Vec<usize> {
    let (mut curve, mut dice) = (Curve::new(of), Dice::new(seed));
    (0..n).filter(|_| curve.decide(&at(avg), part, &mut dice) == Call::Early).collect()
}

#[test]
fn drops_are_spread_evenly() {
    // Section VII, method 2: X is uniform. p_b = 0.01, and the count is 1 at the first arrival after a drop: so 1 to
    // 99, mean 50, deviation 28.6. (Method 1, without the count, would be geometric: mean 100, some beyond 500.)
    let at = calls(10.0, None, 500_000, 1);
    let gaps: Vec<usize> = at.windows(2).map(|w| w[1] - w[0]).collect();
    let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
    near(mean, 50.0, 5.0 * 28.6 / (gaps.len() as f64).sqrt());
    assert_eq!((gaps.iter().min(), gaps.iter().max()), (Some(&1), Some(&99)));
    // Each third of the range has a third of them: n = 10 000, deviation 47.
    for third in 0..3 {
        let here = gaps.iter().filter(|&&g| (g - 1) / 33 == third).count() as f64;
        near(here / gaps.len() as f64, 1.0 / 3.0, 0.025);
    }
}

#[test]
fn after_a_drop_it_waits_if_told_to() {
    // p_b = 0.01: nothing for 100 arrivals, p_a = 0.01 / (2 - 1) at the 100th or 101st, and 1 at the 199th or 200th.
    let at = calls_of(Thresholds { wait: true, ..PAPER }, 10.0, None, 500_000, 1);
    let gaps: Vec<usize> = at.windows(2).map(|w| w[1] - w[0]).collect();
    let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
    near(mean, 150.0, 5.0 * 28.9 / (gaps.len() as f64).sqrt());
    assert!(gaps.iter().all(|gap| (100..=200).contains(gap)), "{gaps:?}");
}

#[test]
fn in_byte_mode_a_small_packet_is_dropped_less_often() {
    // p_b * 40 / 1000 = 0.0004: 1 to 2499, mean 1250; a full packet as without.
    let small = calls(10.0, Some((40, 1000)), 500_000, 2);
    near(500_000.0 / small.len() as f64, 1250.0, 150.0);
    assert_eq!(calls(10.0, Some((1000, 1000)), 50_000, 3), calls(10.0, None, 50_000, 3));
}

#[test]
fn below_min_the_count_starts_afresh_and_above_all_are_told() {
    let (mut curve, mut dice) = (Curve::new(PAPER), Dice::new(1));
    assert_eq!(curve.decide(&at(10.0), None, &mut dice), Call::Pass);
    assert_eq!(curve.count, 0);
    assert_eq!(curve.decide(&at(4.9), None, &mut dice), Call::Pass);
    assert_eq!(curve.count, -1);
    assert_eq!(curve.decide(&at(15.0), None, &mut dice), Call::Above);
    assert_eq!(curve.count, 0);
    // Thresholds one apart and a chance of 1: still no overflow.
    let mut steep = Curve::new(Thresholds { min: 1, max: 2, max_p: Ppm::ONE, gentle: true, wait: false });
    assert_eq!(steep.decide(&at(1.999_999), None, &mut dice), Call::Early);
}
