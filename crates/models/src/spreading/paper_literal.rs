//! The equations as they are printed, to show what their errors come to; not to be computed with.
//!
//! Each function is the printed right-hand side, with the corrected `T(B_i^n)` of smaller transfers put in, so that it
//! shows its own errors only. The numbers of corrections are those of the notes on the paper, repeated in
//! `docs/explanation/models/spreading.md`.

use super::{Spreading, segments};
use crate::Result;
use crate::domain::within;

/// Most segments of these equations: up to here the binomial coefficients are exact enough and the sums end soon.
const MOST: usize = 64;
const DOMAIN: &str = "1 <= i <= n <= 64: printed for one window, with binomial coefficients";

/// `T(S_i^n)` without fast retransmit: equation (2) as section IV.D.4 has it for `i < n`.
///
/// Printed wrongly: the all-lost term has no `T0` (correction 1), a transfer without loss ends with slot `n` (2), and
/// `C(n,j)` counts losses among slots that are not used (3).
///
/// # Errors
/// If `1 <= i <= n <= 64` does not hold, or `i` is more than the model was made for.
pub fn s_no_fr(model: &Spreading, i: usize, n: usize) -> Result<f64> {
    within("n", n as f64, i as f64..=MOST as f64, DOMAIN)?;
    model.check(i, n)?;
    let (p, q, r, t0) = (model.p, model.q, model.rtt_s, model.rto_s);
    let mut sum = raised(q, i) * (r + (n - 1) as f64 * r / n as f64) + raised(p, i) * model.mean_b(i, 1);
    for j in 1..i {
        let later: f64 =
            (2..=i + 1 - j).map(|k| choose(i - k, j - 1) * (r + (k - 2) as f64 * r / n as f64)).sum();
        sum += raised(q, i - j) * raised(p, j) * (choose(n, j) * (t0 + model.mean_b(j, 1)) + later);
    }
    Ok(sum)
}

/// Time that fast retransmit saves: equation (3), summed over the number of losses `j`, which it leaves open.
///
/// Printed without the probabilities of its cases (correction 5): with `weighted` they are put in. The printed equation
/// also takes the timer to fire at `R + T0` whatever is lost first (6).
///
/// # Errors
/// If `n` is not in 1 to 64.
pub fn fr_saving(model: &Spreading, n: usize, weighted: bool) -> Result<f64> {
    segments("n", n, MOST)?;
    let mut saved = 0.0;
    for j in 1..n {
        let weight = if weighted { raised(model.q, n - j) * raised(model.p, j) } else { 1.0 };
        for x in j..=n.saturating_sub(3) {
            saved += weight * choose(x - 1, j - 1) * (model.rto_s - (x + 2) as f64 * model.rtt_s / n as f64);
        }
    }
    Ok(saved)
}

/// `T(B_i^n)`: equation (5) for `i <= n`, else (6) and what follows it.
///
/// Printed wrongly: in (5) the cases of a first pair with no loss and with two are exchanged (7); with (6) the
/// probability that all is lost (10), that of the losses given the first `u` segments (11), and its last term, which is
/// counted for each `u` (12). Of `X`, `Y`, `Z` the joint probabilities are taken (8), and the window after one without
/// loss is `B_{i-n}^{2n}` (9).
///
/// # Errors
/// If `i` or `n` is not in 1 to 64, or `i` is more than the model was made for.
pub fn b(model: &Spreading, i: usize, n: usize) -> Result<f64> {
    segments("n", n, MOST)?;
    segments("i", i, MOST)?;
    model.check(i, n)?;
    let n = n.min(i);
    if n <= 2 && n == i || n == 1 {
        return Ok(model.mean_b(i, n));
    }
    let pairs = Pairs { p: model.p, q: model.q };
    Ok(if n == i { one_window(model, pairs, n) } else { two_windows(model, pairs, i, n) })
}

fn one_window(model: &Spreading, pairs: Pairs, n: usize) -> f64 {
    let (r, t0) = (model.rtt_s, model.rto_s);
    let mut sum = raised(model.q, n) * r;
    for j in 1..=n {
        let left = model.mean_b(j, 1);
        sum += (pairs.x(j, n) + pairs.y(j, n)) * (r + t0 + left) + pairs.z(j, n) * (t0 + left);
    }
    sum
}

fn two_windows(model: &Spreading, pairs: Pairs, i: usize, n: usize) -> f64 {
    let (r, t0) = (model.rtt_s, model.rto_s);
    let mut sum = raised(model.q, n) * (r + model.mean_b(i - n, 2 * n))
        + raised(model.p, n / 2 + 1) * (t0 + model.mean_b(i, 1));
    for j in 1..n {
        for u in 1..=n - j {
            let m = (i - n).min(2 * u);
            let lost = if u % 2 == 0 { pairs.x(j - 1, n - u - 1) } else { pairs.y(j, n - u) };
            let left: f64 =
                (0..=m).map(|t| pairs.p(t, m) * (r + t0 + model.mean_b(i - (n - j) - (m - t), 1))).sum();
            sum += lost * left + pairs.y(j, n) * (t0 + model.mean_b(i - (n - j), 1));
        }
    }
    sum
}

impl Spreading {
    /// Mean of `T(B_i^n)` for sizes that are known to be good.
    fn mean_b(&self, i: usize, n: usize) -> f64 {
        self.later(i, n).first
    }
}

/// Probabilities of losses among segments sent in pairs, each of which loses none, its second or both with q^2, qp, p.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs {
    pub p: f64,
    pub q: f64,
}

impl Pairs {
    /// `P_{j,n}`: `j` losses among `n`.
    pub fn p(self, j: usize, n: usize) -> f64 {
        let (p, q) = (self.p, self.q);
        if n % 2 == 1 {
            let one = if j > 0 { p * self.p(j - 1, n - 1) } else { 0.0 };
            return one + q * self.p(j, n - 1);
        }
        let u = n / 2;
        (j.saturating_sub(u)..=j / 2)
            .filter(|t| u + t >= j)
            .map(|t| {
                choose(u, t)
                    * choose(u - t, j - 2 * t)
                    * raised(p, t)
                    * raised(q * p, j - 2 * t)
                    * raised(q, 2 * (u + t - j))
            })
            .sum()
    }

    /// `Z_{j,n}`: and the first pair loses none.
    pub fn z(self, j: usize, n: usize) -> f64 {
        match n {
            0 => 0.0,
            1 => {
                if j == 0 {
                    self.q
                } else {
                    0.0
                }
            }
            _ => self.q * self.q * self.p(j, n - 2),
        }
    }

    /// `X_{j,n}`: and it loses its second.
    pub fn x(self, j: usize, n: usize) -> f64 {
        if n < 2 || j < 1 { 0.0 } else { self.q * self.p * self.p(j - 1, n - 2) }
    }

    /// `Y_{j,n}`: and it loses both, or is a single segment that is lost.
    pub fn y(self, j: usize, n: usize) -> f64 {
        match (n, j) {
            (0, _) | (_, 0) => 0.0,
            (1, 1) => self.p,
            (1, _) | (_, 1) => 0.0,
            _ => self.p * self.p(j - 2, n - 2),
        }
    }
}

/// Binomial coefficient.
pub(super) fn choose(n: usize, k: usize) -> f64 {
    if k > n {
        return 0.0;
    }
    (0..k).map(|a| (n - a) as f64 / (a + 1) as f64).product()
}

/// `base` to a number of segments.
pub(super) fn raised(base: f64, exponent: usize) -> f64 {
    base.powf(exponent as f64)
}
