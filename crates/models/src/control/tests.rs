//! Sections 3.1 to 3.4 of the notes: the tables; eigenvalues of the whole Jacobian by a QR iteration written here;
//! random starts of the difference equations written here.

use super::*;

fn equal(flows: usize, alpha: f64, beta: f64) -> Control {
    Control::equal(flows, Gains { alpha, beta }, 40.0, 50.0).unwrap()
}

fn near(got: f64, printed: f64, half_unit: f64) {
    assert!((got - printed).abs() <= half_unit, "{got} is not {printed}");
}

/// A random loop: some sums inside the border, some beyond, of both forms; now and then a gain is zero.
fn random_control(rng: &mut fastrand::Rng) -> Control {
    let flows = rng.usize(1..=8);
    let scale = [0.2, 2.0, 4.0][rng.usize(0..3)] / flows as f64;
    let gain = |rng: &mut fastrand::Rng| if rng.u8(0..40) == 0 { 0.0 } else { rng.f64() * scale };
    let gains = (0..flows).map(|_| Gains { alpha: gain(rng), beta: gain(rng) }).collect();
    Control::new(gains, 1.0 + 60.0 * rng.f64(), 1.0 + 60.0 * rng.f64()).unwrap()
}

mod tables {
    use super::*;
    use Stability::{Marginal, Stable, Unstable};

    /// Section 3.3, every row: N, alpha, beta, N(alpha + 2 beta), rho, verdict.
    #[test]
    #[expect(clippy::approx_constant, reason = "the digits as they are printed")]
    fn spectral_radii() {
        for (n, alpha, beta, sum, rho, verdict) in [
            (1, 0.5, 0.5, 1.5, 0.7071, Stable),
            (1, 1.0, 1.0, 3.0, 0.0, Stable),
            (1, 2.0, 0.9, 3.8, 0.7702, Stable),
            (1, 0.1, 1.9, 3.9, 0.9487, Stable),
            (1, 2.0, 1.0, 4.0, 1.0, Marginal),
            (1, 0.1, 2.0, 4.1, 1.0512, Unstable),
            (2, 1.0, 0.6, 4.4, 1.3483, Unstable),
            (10, 0.1, 0.14, 3.8, 0.8633, Stable),
            (10, 0.1, 0.15, 4.0, 1.0, Marginal),
            (20, 0.1, 0.1, 6.0, 2.4142, Unstable),
            (30, 0.05, 0.04, 3.9, 0.9179, Stable),
        ] {
            let control = equal(n, alpha, beta);
            near(n as f64 * (alpha + 2.0 * beta), sum, 0.05);
            near(control.spectral_radius(Feedback::Prompt), rho, 5e-5);
            assert_eq!(control.stability(Feedback::Prompt), verdict, "{n} {alpha} {beta}");
            assert_eq!(control.sufficient_stable(), verdict == Stable, "with equal gains (2) is exact");
            // A list of gains gives the same loop: the sum of ten times 0.1 is not quite 1.
            let listed = Control::new(vec![Gains { alpha, beta }; n], 40.0, 50.0).unwrap();
            assert_eq!(listed.stability(Feedback::Prompt), verdict);
            near(listed.spectral_radius(Feedback::Prompt), rho, 5e-5);
        }
    }

    /// The line below the table: more flows destabilise.
    #[test]
    fn the_number_of_flows() {
        for (n, rho) in [(5, 0.707), (10, 0.0), (13, 0.924), (14, 1.148), (20, 2.414)] {
            let control = equal(n, 0.1, 0.1);
            near(control.spectral_radius(Feedback::Prompt), rho, 5e-4);
            assert_eq!(control.stability(Feedback::Prompt) == Stable, rho < 1.0);
        }
    }

    /// Section 3.1: one flow with .5/.5 and nine with .02/.02; (2) says 15, the sums 2.04.
    #[test]
    fn the_papers_form_is_sufficient_only() {
        let mut gains = vec![Gains { alpha: 0.02, beta: 0.02 }; 10];
        gains[0] = Gains { alpha: 0.5, beta: 0.5 };
        near(10.0 * (0.5 + 2.0 * 0.5), 15.0, 1e-12);
        near(gains.iter().map(|g| g.alpha + 2.0 * g.beta).sum(), 2.04, 1e-12);
        let control = Control::new(gains, 40.0, 50.0).unwrap();
        assert!(!control.sufficient_stable());
        assert_eq!(control.stability(Feedback::Prompt), Stable);
    }

    /// The equilibria below the table, by the closed form and by running the loop.
    #[test]
    fn equilibria() {
        let unequal = [(0.1, 0.2), (0.05, 0.1), (0.02, 0.05), (0.01, 0.05)];
        let unequal = unequal.map(|(alpha, beta)| Gains { alpha, beta }).to_vec();
        for (control, queue, start, rest, digit) in [
            (equal(4, 0.05, 0.1), 0.0, [25.0, 5.0, 5.0, 5.0], [25.0, 5.0, 5.0, 5.0], 1e-9),
            (equal(4, 0.05, 0.1), 0.0, [30.0, 5.0, 1.0, 0.0], [31.0, 6.0, 2.0, 1.0], 1e-9),
            (
                Control::new(unequal, 40.0, 50.0).unwrap(),
                10.0,
                [30.0, 5.0, 1.0, 0.0],
                [33.111, 6.556, 1.222, -0.889],
                5e-4,
            ),
        ] {
            let start = State { queue, rates: start.to_vec() };
            let closed = control.equilibrium(&start, Feedback::Prompt).unwrap().unwrap();
            let last = control.simulate(start, Feedback::Prompt).unwrap().nth(2000).unwrap();
            assert_eq!(closed.queue, 50.0);
            near(closed.total(), 40.0, 1e-9);
            near(last.queue, 50.0, 1e-9);
            for ((closed, run), printed) in closed.rates.iter().zip(&last.rates).zip(rest) {
                near(*closed, printed, digit);
                near(*run, *closed, 1e-9);
            }
        }
    }

    /// The last line: individual control ends at (B_i, C_i) from anywhere.
    #[test]
    fn a_flow_of_its_own() {
        let flows = isolated(&[Gains { alpha: 0.3, beta: 0.5 }], &[10.0], &[12.0]).unwrap();
        for start in [State { queue: 0.0, rates: vec![25.0] }, State { queue: 90.0, rates: vec![-3.0] }] {
            let rest = flows[0].equilibrium(&start, Feedback::Prompt).unwrap().unwrap();
            let last = flows[0].simulate(start, Feedback::Prompt).unwrap().nth(500).unwrap();
            for state in [rest, last] {
                near(state.queue, 12.0, 1e-9);
                near(state.rates[0], 10.0, 1e-9);
            }
        }
    }

    /// Section 3.4: 2.5 Mbit/s of 576-byte packets, 100 ms and 50 packets, scaled by k.
    #[test]
    fn pipes_and_shares() {
        let pps = 2.5e6 / (8.0 * 576.0);
        near(pps, 542.5, 0.05);
        near(pps * 0.1, 54.25, 0.005);
        let pipe = |k: f64| pipe_packets(k * pps, 0.1, k * 50.0).unwrap();
        near(pipe(1.0), 104.25, 0.005);
        near(pipe(2.0), 208.5, 0.05);
        near(share_packets(pipe(2.0), 20).unwrap(), 10.4, 0.05);
        near(share_packets(pipe(1.0), 30).unwrap(), 3.5, 0.05);
        // The paper prints 1.75: 3.5 halved, after rounding.
        near(share_packets(pipe(1.0), 60).unwrap(), 1.74, 0.005);
        assert_eq!(slow_start_rtts(10), 4);
        near(10.0 / f64::from(slow_start_rtts(10)), 2.5, 1e-12);
        for (packets, rtts) in
            [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (15, 4), (16, 5), (u64::MAX, 64)]
        {
            assert_eq!(slow_start_rtts(packets), rtts);
        }
    }
}

mod eigenvalues {
    use super::*;

    type Complex = (f64, f64);

    fn mul(a: Complex, b: Complex) -> Complex {
        (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
    }
    fn sub(a: Complex, b: Complex) -> Complex {
        (a.0 - b.0, a.1 - b.1)
    }
    fn size(a: Complex) -> f64 {
        a.0.hypot(a.1)
    }
    fn root(a: Complex) -> Complex {
        let r = size(a);
        (((r + a.0) / 2.0).max(0.0).sqrt(), ((r - a.0) / 2.0).max(0.0).sqrt().copysign(a.1))
    }

    /// All eigenvalues of a real matrix: Hessenberg form by elimination, then QR with a complex Wilkinson shift and
    /// deflation.
    fn eigenvalues(real: &[Vec<f64>]) -> Vec<Complex> {
        let mut h = real.to_vec();
        let n = h.len();
        for column in 0..n.saturating_sub(2) {
            let pivot =
                (column + 1..n).max_by(|a, b| h[*a][column].abs().total_cmp(&h[*b][column].abs())).unwrap();
            h.swap(column + 1, pivot);
            h.iter_mut().for_each(|row| row.swap(column + 1, pivot));
            for below in column + 2..n {
                if h[below][column] != 0.0 {
                    let factor = h[below][column] / h[column + 1][column];
                    let from = h[column + 1].clone();
                    h[below].iter_mut().zip(&from).for_each(|(to, from)| *to -= factor * from);
                    h.iter_mut().for_each(|row| row[column + 1] += factor * row[below]);
                }
            }
        }
        let mut h: Vec<Vec<Complex>> = h.iter().map(|row| row.iter().map(|x| (*x, 0.0)).collect()).collect();
        let mut found = Vec::new();
        let mut m = n;
        for sweep in 0..10_000 {
            if m == 0 {
                return found;
            }
            let corner = h[m - 1][m - 1];
            if m == 1 || size(h[m - 1][m - 2]) < 1e-15 * (size(corner) + size(h[m - 2][m - 2])) {
                found.push(corner);
                m -= 1;
                continue;
            }
            // The eigenvalue of the last 2x2 block nearer to its corner; now and then another shift, lest it go in
            // circles.
            let (a, b, c) = (h[m - 2][m - 2], h[m - 2][m - 1], h[m - 1][m - 2]);
            let half = ((a.0 - corner.0) / 2.0, (a.1 - corner.1) / 2.0);
            let (square, product) = (mul(half, half), mul(b, c));
            let r = root((square.0 + product.0, square.1 + product.1));
            let middle = ((a.0 + corner.0) / 2.0, (a.1 + corner.1) / 2.0);
            let (one, two) = ((middle.0 + r.0, middle.1 + r.1), sub(middle, r));
            let nearer = if size(sub(one, corner)) < size(sub(two, corner)) { one } else { two };
            let shift = if sweep % 17 == 16 { (nearer.0 + 0.37, nearer.1 + 0.11) } else { nearer };
            qr_step(&mut h, m, shift);
        }
        panic!("no convergence")
    }

    /// One step H - s = QR, H := RQ + s on the leading m x m block of a Hessenberg matrix, by Givens rotations.
    fn qr_step(h: &mut [Vec<Complex>], m: usize, shift: Complex) {
        (0..m).for_each(|i| h[i][i] = sub(h[i][i], shift));
        let mut turns = Vec::new();
        for k in 0..m - 1 {
            let (x, y) = (h[k][k], h[k + 1][k]);
            let r = size(x).hypot(size(y));
            let (c, s) =
                if r == 0.0 { ((1.0, 0.0), (0.0, 0.0)) } else { ((x.0 / r, -x.1 / r), (y.0 / r, -y.1 / r)) };
            let (upper, lower) = h.split_at_mut(k + 1);
            for (above, below) in upper[k][k..m].iter_mut().zip(&mut lower[0][k..m]) {
                let (cx, sy) = (mul(c, *above), mul(s, *below));
                *below = sub(mul((c.0, -c.1), *below), mul((s.0, -s.1), *above));
                *above = (cx.0 + sy.0, cx.1 + sy.1);
            }
            turns.push((c, s));
        }
        for (k, (c, s)) in turns.into_iter().enumerate() {
            for row in h.iter_mut().take((k + 2).min(m)) {
                let (x, y) = (row[k], row[k + 1]);
                let (cx, sy) = (mul((c.0, -c.1), x), mul((s.0, -s.1), y));
                row[k] = (cx.0 + sy.0, cx.1 + sy.1);
                row[k + 1] = sub(mul(c, y), mul(s, x));
            }
        }
        (0..m).for_each(|i| h[i][i] = (h[i][i].0 + shift.0, h[i][i].1 + shift.1));
    }

    /// The Jacobian of (1) in (q, x_1..x_N), and of the late form in (q, x_1..x_N, q before), row by row.
    fn jacobian(gains: &[Gains], feedback: Feedback) -> Vec<Vec<f64>> {
        let n = gains.len();
        let width = n + 1 + usize::from(feedback == Feedback::Late);
        let mut rows = vec![vec![0.0; width]; width];
        rows[0][..=n].fill(1.0);
        for (i, g) in gains.iter().enumerate() {
            let row = &mut rows[i + 1];
            match feedback {
                Feedback::Prompt => {
                    // q' = q + sum x, q' - q = sum x: both stall on every rate.
                    row[0] = -g.alpha;
                    row[1..=n].fill(-g.alpha - g.beta);
                }
                Feedback::Late => {
                    row[0] = -g.alpha - g.beta;
                    row[n + 1] = g.beta;
                }
            }
            row[i + 1] += 1.0;
        }
        if feedback == Feedback::Late {
            rows[n + 1][0] = 1.0;
        }
        rows
    }

    /// The largest modulus without the N - 1 eigenvalues at 1, which are the shares.
    fn radius(gains: &[Gains], feedback: Feedback) -> f64 {
        let mut all = eigenvalues(&jacobian(gains, feedback));
        all.sort_by(|a, b| size(sub(*a, (1.0, 0.0))).total_cmp(&size(sub(*b, (1.0, 0.0)))));
        for neutral in all.drain(..gains.len() - 1) {
            near(size(sub(neutral, (1.0, 0.0))), 0.0, 1e-6);
        }
        all.into_iter().map(size).fold(0.0, f64::max)
    }

    /// The QR iteration itself, on a matrix with known eigenvalues: 4, 2 + 3i, 2 - 3i.
    #[test]
    fn known_eigenvalues() {
        let mut got = eigenvalues(&[vec![2.0, -3.0, 7.0], vec![3.0, 2.0, 5.0], vec![0.0, 0.0, 4.0]]);
        got.sort_by(|a, b| a.1.total_cmp(&b.1));
        for (got, want) in got.into_iter().zip([(2.0, -3.0), (4.0, 0.0), (2.0, 3.0)]) {
            near(size(sub(got, want)), 0.0, 1e-12);
        }
    }

    #[test]
    fn closed_form_and_test_against_the_whole_jacobian() {
        let seed = 0x15_0147;
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut seen = [[0; 3]; 2];
        for point in 0..3000 {
            let control = random_control(&mut rng);
            for (form, feedback) in [Feedback::Prompt, Feedback::Late].into_iter().enumerate() {
                let rho = control.spectral_radius(feedback);
                let whole = radius(&control.gains, feedback);
                // Where two eigenvalues meet they move as the root of a rounding error.
                assert!(
                    (rho - whole).abs() < 2e-5 * whole.max(1.0),
                    "seed {seed} point {point}: {rho} {whole}"
                );
                let verdict = control.stability(feedback);
                let expected = match whole - 1.0 {
                    x if x < -1e-4 => Stability::Stable,
                    x if x > 1e-4 => Stability::Unstable,
                    _ => verdict,
                };
                assert_eq!(verdict, expected, "seed {seed} point {point}: {control:?}");
                seen[form][verdict as usize] += 1;
            }
        }
        // The points lie on both sides, and some on the border (a gain of zero).
        assert!(seen.iter().all(|kinds| kinds[0] > 300 && kinds[1] >= 5 && kinds[2] > 300), "{seen:?}");
    }

    /// Repeats the check of the notes: 20000 random points, 0 mismatches between each criterion and the closed form's
    /// modulus.
    #[test]
    fn criteria_against_moduli() {
        let seed = 20_000;
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let control = equal(1, 4.5 * rng.f64() * rng.f64(), 2.5 * rng.f64());
            for feedback in [Feedback::Prompt, Feedback::Late] {
                let rho = control.spectral_radius(feedback);
                if (rho - 1.0).abs() > 1e-7 {
                    let stable = control.stability(feedback) == Stability::Stable;
                    assert_eq!(stable, rho < 1.0, "seed {seed}: {control:?}");
                }
            }
            // The late form asks for more.
            assert!(
                control.stability(Feedback::Late) != Stability::Stable
                    || control.stability(Feedback::Prompt) == Stability::Stable
            );
        }
    }
}

mod simulation {
    use super::*;

    /// The difference equations once more, from random starts: q and the sum of rates end at B and C where the test
    /// says stable, and where it says unstable they do not. Each start runs until it is at rest or far away.
    #[test]
    fn random_starts_converge_exactly_where_the_test_says() {
        let seed = 0xC0_4741;
        let mut rng = fastrand::Rng::with_seed(seed);
        for point in 0..1500 {
            let control = random_control(&mut rng);
            for feedback in [Feedback::Prompt, Feedback::Late] {
                if (control.spectral_radius(feedback) - 1.0).abs() < 0.003 {
                    continue;
                }
                let mut q = [100.0 * rng.f64(); 2];
                let mut x: Vec<f64> = control.gains.iter().map(|_| 60.0 * rng.f64()).collect();
                let start = State { queue: q[0], rates: x.clone() };
                let away = |q: f64, x: &[f64]| {
                    (q - control.target).abs().max((x.iter().sum::<f64>() - control.capacity).abs())
                };
                for _ in 0..20_000 {
                    let next = q[0] + x.iter().sum::<f64>() - control.capacity;
                    let (seen, before) =
                        if feedback == Feedback::Prompt { (next, q[0]) } else { (q[0], q[1]) };
                    for (x, g) in x.iter_mut().zip(&control.gains) {
                        *x += g.alpha * (control.target - seen) - g.beta * (seen - before);
                    }
                    q = [next, q[0]];
                    let far = away(q[0], &x);
                    if !(1e-7..=1e7).contains(&far) {
                        break;
                    }
                }
                let far = away(q[0], &x);
                assert!(!(1e-6..1e6).contains(&far), "seed {seed} point {point}: undecided at {far}");
                let stable = control.stability(feedback) == Stability::Stable;
                assert_eq!(far < 1e-6, stable, "seed {seed} point {point}: {control:?}");
                let rest = control.equilibrium(&start, feedback).unwrap();
                assert_eq!(rest.is_some(), stable);
                for (x, rest) in x.iter().zip(rest.iter().flat_map(|r| &r.rates)) {
                    assert!((x - rest).abs() < 1e-3, "seed {seed} point {point}: {x} {rest}");
                }
            }
        }
    }

    /// The other way of counting: q(k+1) with x(k+1), which answers to q(k) and q(k-1). The same queue, and rates one
    /// index later.
    #[test]
    fn the_other_index_is_the_same_system() {
        let control =
            Control::new(vec![Gains { alpha: 0.1, beta: 0.2 }, Gains { alpha: 0.03, beta: 0.3 }], 40.0, 50.0)
                .unwrap();
        let start = State { queue: 7.0, rates: vec![30.0, 2.0] };
        let states: Vec<State> = control.simulate(start, Feedback::Prompt).unwrap().take(60).collect();
        let (mut before, mut queue, mut x) = (states[0].queue, states[1].queue, states[0].rates.clone());
        for pair in states[1..].windows(2) {
            for (x, g) in x.iter_mut().zip(&control.gains) {
                *x += g.alpha * (50.0 - queue) - g.beta * (queue - before);
            }
            x.iter().zip(&pair[0].rates).for_each(|(x, other)| near(*x, *other, 1e-9));
            (before, queue) = (queue, queue + x.iter().sum::<f64>() - 40.0);
            near(queue, pair[1].queue, 1e-9);
        }
    }

    #[test]
    fn settling_is_the_last_time_outside() {
        let seed = 0x5E77;
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut settled = 0;
        for point in 0..300 {
            let control = random_control(&mut rng);
            let rates = (0..control.flows()).map(|_| 50.0 * rng.f64()).collect();
            let start = State { queue: 80.0 * rng.f64(), rates };
            for feedback in [Feedback::Prompt, Feedback::Late] {
                let got = control.settling(&start, feedback, 0.02).unwrap();
                assert_eq!(got.is_some(), control.stability(feedback) == Stability::Stable);
                let Some(got) = got.filter(|_| control.spectral_radius(feedback) < 0.99) else { continue };
                let outside = |s: &State| {
                    (s.queue - control.target).abs() > 0.02 * control.target
                        || (s.total() - control.capacity).abs() > 0.02 * control.capacity
                };
                let run: Vec<bool> = control
                    .simulate(start.clone(), feedback)
                    .unwrap()
                    .take(3000)
                    .map(|s| outside(&s))
                    .collect();
                let last = run.iter().rposition(|out| *out).map_or(0, |k| k + 1);
                assert_eq!(got as usize, last, "seed {seed} point {point}");
                settled += 1;
            }
        }
        assert!(settled > 50);
        // Dead-beat: at rest after two steps, whatever the start.
        let start = State { queue: 0.0, rates: vec![17.0] };
        assert_eq!(equal(1, 1.0, 1.0).settling(&start, Feedback::Prompt, 0.01).unwrap(), Some(2));
    }

    #[test]
    fn what_runs_away_ends() {
        let start = State { queue: 0.0, rates: vec![1.0; 20] };
        let control = equal(20, 0.1, 0.1);
        let states = control.simulate(start.clone(), Feedback::Prompt).unwrap().take(100_000);
        let mut steps = 0;
        for state in states {
            assert!(state.is_finite());
            steps += 1;
        }
        // 2.414 to the power of 805 is 1e308.
        assert!((700..900).contains(&steps), "{steps}");
        assert_eq!(control.settling(&start, Feedback::Prompt, 0.1).unwrap(), None);
    }
}

mod properties {
    use super::*;

    /// (2) never promises what the sums do not hold; with equal gains it is the same test.
    #[test]
    fn sufficient_is_sufficient() {
        let seed = 0x5F;
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut missed = 0;
        for control in core::iter::repeat_with(|| random_control(&mut rng)).take(5000) {
            let stable = control.stability(Feedback::Prompt) == Stability::Stable;
            assert!(!control.sufficient_stable() || stable, "seed {seed}: {control:?}");
            missed += usize::from(stable && !control.sufficient_stable());
            let one = control.gains[0];
            let even = equal(control.flows(), one.alpha, one.beta);
            assert_eq!(even.sufficient_stable(), even.stability(Feedback::Prompt) == Stability::Stable);
        }
        assert!(missed > 100, "{missed} stable loops that (2) refuses");
    }

    /// One flow with large gains spoils an aggregate; alone in its queue it spoils itself only.
    #[test]
    fn isolation_contains_the_damage() {
        let mut gains = vec![Gains { alpha: 0.1, beta: 0.1 }; 4];
        gains[2] = Gains { alpha: 1.0, beta: 1.8 };
        let shared = Control::new(gains.clone(), 40.0, 50.0).unwrap();
        assert_eq!(shared.stability(Feedback::Prompt), Stability::Unstable);
        let verdicts: Vec<Stability> = isolated(&gains, &[10.0; 4], &[12.5; 4])
            .unwrap()
            .iter()
            .map(|control| control.stability(Feedback::Prompt))
            .collect();
        use Stability::{Stable, Unstable};
        assert_eq!(verdicts, [Stable, Stable, Unstable, Stable]);
    }

    #[test]
    fn domains() {
        let gains = |alpha, beta| vec![Gains { alpha, beta }];
        let nan = f64::NAN;
        for (gains, capacity, target) in [
            (vec![], 1.0, 1.0),
            (gains(-0.1, 0.1), 1.0, 1.0),
            (gains(0.1, nan), 1.0, 1.0),
            (gains(f64::INFINITY, 0.1), 1.0, 1.0),
            (gains(0.1, 0.1), 0.0, 1.0),
            (gains(0.1, 0.1), 1.0, nan),
        ] {
            assert!(Control::new(gains, capacity, target).is_err());
        }
        let error = Control::equal(0, Gains { alpha: 0.1, beta: 0.1 }, 1.0, 1.0).unwrap_err();
        assert_eq!(error.to_string(), "flows = 0: expected 1 <= flows <= 1e6");
        assert!(Control::equal(usize::MAX, Gains { alpha: 0.1, beta: 0.1 }, 1.0, 1.0).is_err());
        let control = equal(2, 0.1, 0.1);
        let start = |queue, rates: &[f64]| State { queue, rates: rates.to_vec() };
        for bad in [start(0.0, &[1.0]), start(nan, &[1.0, 1.0]), start(0.0, &[1.0, f64::INFINITY])] {
            assert!(control.simulate(bad.clone(), Feedback::Prompt).is_err());
            assert!(control.equilibrium(&bad, Feedback::Late).is_err());
            assert!(control.settling(&bad, Feedback::Late, 0.1).is_err());
        }
        assert!(control.settling(&start(0.0, &[1.0, 1.0]), Feedback::Prompt, 0.0).is_err());
        assert!(isolated(&gains(0.1, 0.1), &[1.0, 2.0], &[1.0]).is_err());
        assert!(pipe_packets(nan, 1.0, 1.0).is_err() && pipe_packets(1.0, 1.0, -1.0).is_err());
        assert!(pipe_packets(f64::MAX, f64::MAX, 1.0).is_err() && share_packets(1.0, 0).is_err());
        // No control at all, or half of one, does not come to rest; huge gains do not overflow.
        assert_eq!(equal(3, 0.0, 0.0).stability(Feedback::Prompt), Stability::Marginal);
        assert_eq!(equal(3, 0.0, 0.1).stability(Feedback::Late), Stability::Marginal);
        assert_eq!(equal(3, 0.5, 0.0).stability(Feedback::Late), Stability::Unstable);
        let huge = equal(MAX_FLOWS, 1e6, 1e6);
        assert!([Feedback::Prompt, Feedback::Late].iter().all(|f| huge.spectral_radius(*f).is_finite()));
    }
}
