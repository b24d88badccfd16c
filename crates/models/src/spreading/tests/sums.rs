//! The equations as sums over numbers of losses, as the paper writes them and the notes correct them, against the
//! convolutions.

use super::super::Spreading;
use super::super::paper_literal::{Pairs, choose, raised};
use super::model;

fn agree(got: f64, expected: f64, what: &str) {
    assert!((got - expected).abs() < 1e-12 * expected.max(1.0), "{what}: {got}, as a sum {expected}");
}

fn b1(m: &Spreading, j: usize) -> f64 {
    if j == 0 { 0.0 } else { m.b(j, 1).unwrap().mean_s }
}

/// (1).
fn d(m: &Spreading, n: usize) -> f64 {
    let (p, q, r, t0) = (m.p, m.q, m.rtt_s, m.rto_s);
    let some: f64 = (1..n).map(|l| raised(q, n - l) * p * (r + t0 + b1(m, l))).sum();
    raised(q, n) * r + some + p * (t0 + b1(m, n))
}

/// (2), corrections 1 to 4.
fn s_no_fr(m: &Spreading, i: usize, n: usize) -> f64 {
    let (p, q, r, t0) = (m.p, m.q, m.rtt_s, m.rto_s);
    let gap = r / n as f64;
    let mut sum = raised(q, i) * (r + (i - 1) as f64 * gap) + raised(p, i) * (t0 + b1(m, i));
    for j in 1..i {
        let later: f64 = (2..=i + 1 - j).map(|k| choose(i - k, j - 1) * (r + (k - 2) as f64 * gap)).sum();
        sum += raised(q, i - j) * raised(p, j) * (choose(i, j) * (t0 + b1(m, j)) + later);
    }
    sum
}

/// (3), corrections 5 and 6.
fn saved(m: &Spreading, i: usize, n: usize) -> f64 {
    let (p, q, r, t0) = (m.p, m.q, m.rtt_s, m.rto_s);
    let gap = r / n as f64;
    let mut sum = 0.0;
    for j in 1..i {
        for k in 1..=i {
            let timer = if k == 1 { t0 } else { t0 + r + (k - 2) as f64 * gap };
            for x in (k + j - 1)..=i.saturating_sub(3) {
                let ways = match j {
                    1 => f64::from(u8::from(x == k)),
                    _ if x == k => 0.0,
                    _ => choose(x - k - 1, j - 2),
                };
                sum += raised(q, i - j) * raised(p, j) * ways * (timer - r - (x + 2) as f64 * gap).max(0.0);
            }
        }
    }
    sum
}

/// (5), correction 7.
fn one_window(m: &Spreading, n: usize) -> f64 {
    let (r, t0) = (m.rtt_s, m.rto_s);
    let pairs = Pairs { p: m.p, q: m.q };
    let some = (1..=n)
        .map(|j| (pairs.z(j, n) + pairs.x(j, n)) * (r + t0 + b1(m, j)) + pairs.y(j, n) * (t0 + b1(m, j)));
    raised(m.q, n) * r + some.sum::<f64>()
}

/// (6), corrections 9 to 13; and the sum of its probabilities.
fn two_windows(m: &Spreading, i: usize, n: usize) -> (f64, f64) {
    let (p, q, r, t0) = (m.p, m.q, m.rtt_s, m.rto_s);
    let pairs = Pairs { p, q };
    let mut sum = raised(q, n) * (r + m.b(i - n, 2 * n).unwrap().mean_s);
    let mut all = raised(q, n);
    for j in 1..=n {
        sum += pairs.y(j, n) * (t0 + b1(m, i - n + j));
        all += pairs.y(j, n);
        for u in 1..=(n - j) {
            let next = (i - n).min(2 * u);
            let case = if u % 2 == 0 {
                raised(q, u) * pairs.y(j, n - u)
            } else {
                raised(q, u) * p * pairs.p(j - 1, n - u - 1)
            };
            let left = (0..=next).map(|t| pairs.p(t, next) * (r + t0 + b1(m, i - (n - j) - (next - t))));
            sum += case * left.sum::<f64>();
            all += case;
        }
    }
    (sum, all)
}

#[test]
fn convolutions_are_the_corrected_sums() {
    for loss in [0.0, 0.02, 0.1, 0.3] {
        let m = model(loss, 24);
        for n in 2..=24 {
            agree(m.d(n, n).unwrap().mean_s, d(&m, n), "(1)");
            agree(m.b(n, n).unwrap().mean_s, one_window(&m, n), "(5)");
            for i in 2..=n {
                agree(m.s_no_fr(i, n).unwrap().mean_s, s_no_fr(&m, i, n), "(2)");
                agree(m.s(i, n).unwrap().mean_s, s_no_fr(&m, i, n) - saved(&m, i, n), "(3)");
            }
            for i in (n + 1)..=24 {
                let (sum, all) = two_windows(&m, i, n);
                agree(m.b(i, n).unwrap().mean_s, sum, &format!("(6), loss {loss}, B_{i}^{n}"));
                agree(all, 1.0, "probabilities of (6)");
            }
        }
    }
}

/// A window whose fast retransmit would come after the timer: R near T0.
#[test]
fn fast_retransmit_never_comes_after_the_timer() {
    let m = super::made(0.1, 0.9, super::Backoff::SingleSegment, 16);
    for i in 2..=16 {
        agree(m.s(i, 16).unwrap().mean_s, s_no_fr(&m, i, 16) - saved(&m, i, 16), "(3)");
        assert!(m.s(i, 16).unwrap().mean_s <= m.s_no_fr(i, 16).unwrap().mean_s);
    }
}

/// Each state's branches sum to one, to the largest; and the largest are what they should be where all is certain.
#[test]
fn probabilities_sum_to_one() {
    for loss in [0.0, 1e-9, 0.1, 0.49] {
        let m = model(loss, 100);
        for (i, n) in [(1, 1), (2, 2), (7, 3), (64, 1), (64, 10), (64, 64), (100, 33), (99, 98)] {
            for all in
                [m.later(i, n), m.burst(i, n), m.spread(i, n.max(i), true), m.spread(i, n.max(i), false)]
            {
                assert!((all.weight - 1.0).abs() < 1e-12, "loss {loss}, {i} in {n}: {}", all.weight);
            }
        }
    }
}

#[test]
fn longer_with_more_loss_more_segments_and_longer_timers() {
    let means = |loss: f64, rto_s: f64| {
        let parameters = super::Parameters { loss, rtt_s: 0.1, rto_s, backoff: super::Backoff::default() };
        let m = Spreading::new(parameters, 20).unwrap();
        [m.d(20, 20), m.s(20, 20), m.s_no_fr(20, 20), m.b(20, 20), m.b(20, 1), m.b(19, 1), m.d(19, 10)]
            .map(|d| d.unwrap().mean_s)
    };
    let mut before = means(0.0, 1.0);
    for step in 1..49 {
        let now = means(f64::from(step) * 0.01, 1.0);
        assert!(now.iter().zip(before).all(|(now, before)| *now > before), "{now:?} after {before:?}");
        assert!(now[4] > now[5] && now[1] < now[2], "{now:?}");
        let slower = means(f64::from(step) * 0.01, 1.5);
        assert!(slower.iter().zip(now).all(|(slower, now)| *slower > now));
        before = now;
    }
}

#[test]
fn outside_the_domain() {
    let with = |loss, rtt_s, rto_s, most| {
        let parameters = super::Parameters { loss, rtt_s, rto_s, backoff: super::Backoff::default() };
        Spreading::new(parameters, most).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(
        with(0.5, 0.1, 1.0, 10).unwrap_err(),
        "loss = 0.5: expected 0 <= loss < 0.5: from there on doubled timers have no mean"
    );
    for (loss, rtt, rto) in [
        (f64::NAN, 0.1, 1.0),
        (-0.1, 0.1, 1.0),
        (0.1, 0.0, 1.0),
        (0.1, f64::NAN, 1.0),
        (0.1, 0.1, f64::INFINITY),
        (0.1, 0.1, f64::NAN),
        (0.1, 1.1, 1.0),
        (0.1, f64::INFINITY, f64::INFINITY),
    ] {
        assert!(with(loss, rtt, rto, 10).is_err(), "{loss} {rtt} {rto}");
    }
    assert!(with(0.1, 0.1, 1.0, 0).is_err() && with(0.1, 0.1, 1.0, 1025).is_err());
    let m = model(0.3, 10);
    assert!(m.d(0, 10).is_err() && m.d(11, 10).is_err() && m.d(1, 0).is_err() && m.d(1, 1025).is_err());
    assert!(m.s(10, 9).is_err() && m.s(10, 1).is_ok() && m.s_no_fr(10, 9).is_err());
    assert_eq!(m.d(10, 10).unwrap().std_dev_s, None);
    // The largest: near the tipping point and far from it, nothing is lost to rounding.
    for loss in [1e-300, 0.1, 0.499_999_999] {
        let m = model(loss, 1024);
        for time in [m.d(1024, 1024), m.s(1024, 1024), m.b(1024, 1), m.b(1024, 1024)] {
            assert!(time.unwrap().mean_s.is_finite());
        }
    }
}
