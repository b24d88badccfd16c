//! What becomes of a window of `n` packets, and how often each window without memory of a back-off is sent.
//!
//! The chain climbs by one state at a time and falls by halving or to a timeout. So what climbs from `n` to `n + 1` is what falls
//! from above `n` to `n` or below, and from the greatest window downwards each state follows from those above it: one pass,
//! sums of positive terms alone.

use super::Repair;

/// Windows whose share of the epochs is below this are left out: the product of the probabilities of the climbs to them.
const NEGLIGIBLE: f64 = 1e-100;

/// What becomes of the `n` packets of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
    /// All arrive.
    pub whole: f64,
    /// Some are lost, and a fast retransmission repairs it.
    pub halved: f64,
    /// The timer has to.
    pub timeout: f64,
}

/// Outcomes of the windows from 0 to `wmax`; fewer where a greater window is as good as never reached.
pub(super) fn outcomes(p: f64, wmax: usize, repair: Repair) -> Vec<Outcome> {
    let q = 1.0 - p;
    let mut list = vec![Outcome { whole: 1.0, halved: 0.0, timeout: 0.0 }];
    let (mut whole, mut lost, mut twice, mut reached) = (1.0, 0.0, 0.0, 1.0);
    for n in 1..=wmax {
        // `twice`: the second loss is that of packet n; `lost`: the first is. Sums, because 1 - q^n - n p q^(n-1) cancels.
        twice += if n > 1 { (n - 1) as f64 * p * p * whole / q } else { 0.0 };
        lost += p * whole;
        let before = whole;
        whole *= q;
        let once = n as f64 * p * before;
        let halved = match repair {
            _ if n < 4 => 0.0,
            Repair::One => once * q,
            Repair::Sack => sacked(p, n, whole),
        };
        let timeout = match repair {
            _ if n < 4 => lost,
            Repair::One => once * p + twice,
            Repair::Sack => (lost - halved).max(0.0),
        };
        list.push(Outcome { whole, halved, timeout });
        reached *= whole;
        if n >= 4 && reached < NEGLIGIBLE {
            break;
        }
    }
    list
}

/// Some of `n` packets are lost, at least three arrive, and so do all retransmissions:
/// `sum over j = 1 .. n-3 of C(n,j) p^j q^(n-j) q^j = q^n ((1+p)^n - 1 - the last three terms)`.
fn sacked(p: f64, n: usize, whole: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 0.0;
    for j in 1..=n - 3 {
        term *= p * (n - j + 1) as f64 / j as f64;
        sum += term;
        if term < 1e-17 * sum {
            break;
        }
    }
    whole * sum
}

/// How often windows of `n >= 4` are sent, the greatest once.
pub(super) fn climb(outcomes: &[Outcome]) -> Vec<f64> {
    let top = outcomes.len() - 1;
    let mut visits = vec![0.0; top + 1];
    visits[top] = 1.0;
    // Of what falls from above n: all timeouts, and the halvings of n + 1 .. 2 n + 1, which end at n or below.
    let mut timeouts = 0.0;
    let mut halvings = 0.0;
    for n in (4..top).rev() {
        let above = outcomes[n + 1];
        timeouts += visits[n + 1] * above.timeout;
        halvings += visits[n + 1] * above.halved;
        let gone: f64 = [2 * n + 2, 2 * n + 3]
            .iter()
            .filter(|&&m| m <= top)
            .map(|&m| visits[m] * outcomes[m].halved)
            .sum();
        halvings -= gone;
        if gone > halvings {
            // Most of the sum has gone, and with it its digits.
            halvings = (n + 1..=top.min(2 * n + 1)).map(|m| visits[m] * outcomes[m].halved).sum();
        }
        visits[n] = (timeouts + halvings) / outcomes[n].whole;
    }
    visits
}
