//! Outcomes of a window of `n` packets, and how often each window without memory of a back-off is sent.
//!
//! The chain climbs by one state at a time and falls by halving or to a timeout. So what climbs from `n` to `n + 1` is
//! what falls from above `n` to `n` or below, and from the greatest window downwards each state follows from those
//! above it: one pass, sums of positive terms alone.

use super::FastRetransmit;

/// Windows whose share of the epochs is below this are left out: the product of the probabilities of the climbs to
/// them.
const NEGLIGIBLE: f64 = 1e-100;

/// Probabilities of the outcomes of a window of `n` packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
    /// All packets arrive.
    pub whole: f64,
    /// Some packets are lost, and a fast retransmission repairs the loss.
    pub halved: f64,
    /// Some packets are lost, and only the timer repairs the loss.
    pub timeout: f64,
}

/// Outcomes of the windows from 0 to `wmax`; fewer where a greater window is as good as never reached.
pub(super) fn outcomes(p: f64, wmax: usize, repair: FastRetransmit) -> Vec<Outcome> {
    let q = 1.0 - p;
    let mut list = vec![Outcome { whole: 1.0, halved: 0.0, timeout: 0.0 }];
    let (mut whole, mut lost, mut twice, mut reached) = (1.0, 0.0, 0.0, 1.0);
    for n in 1..=wmax {
        // `twice`: the second loss is that of packet n; `lost`: the first is. Sums, because 1 - q^n - n p q^(n-1)
        // cancels.
        twice += if n > 1 { (n - 1) as f64 * p * p * whole / q } else { 0.0 };
        lost += p * whole;
        let before = whole;
        whole *= q;
        let once = n as f64 * p * before;
        let (halved, timeout) = match repair {
            FastRetransmit::One if n >= 4 => (once * q, once * p + twice),
            FastRetransmit::Sack if n >= 3 => {
                let halved = whole * sacked(p, n);
                (halved, (lost - halved).max(0.0))
            }
            _ => (0.0, lost),
        };
        list.push(Outcome { whole, halved, timeout });
        reached *= whole;
        if n >= 4 && reached < NEGLIGIBLE {
            break;
        }
    }
    list
}

/// Some of `n` packets are lost, two and more arrive (if two, one of the two packets they make the sender send, too),
/// and so do all retransmissions: `sum over j = 1 .. n-2 of C(n,j) p^j q^(n-j) q^j`, here without the factor `q^n`.
fn sacked(p: f64, n: usize) -> f64 {
    let (mut term, mut sum) = (1.0, 0.0);
    for j in 1..=n - 2 {
        term *= p * (n - j + 1) as f64 / j as f64;
        sum += if j == n - 2 { term * (1.0 - p * p) } else { term };
        if term < 1e-17 * sum {
            break;
        }
    }
    sum
}

/// How often each window is sent, the greatest once, and the sum of all timeouts is that of `S_1`.
pub(super) fn climb(outcomes: &[Outcome]) -> Vec<f64> {
    let top = outcomes.len() - 1;
    let mut visits = vec![0.0; top + 1];
    visits[top] = 1.0;
    let halved = |visits: &[f64], from: usize, to: usize| -> f64 {
        (from..=to.min(top)).map(|m| visits[m] * outcomes[m].halved).sum()
    };
    // Sums the falls from above n: all timeouts, and the halvings of n + 1 .. 2 n + 1, which end at n or below, but not
    // below 2.
    let (mut timeouts, mut halvings) = (0.0, 0.0);
    for n in (1..top).rev() {
        timeouts += visits[n + 1] * outcomes[n + 1].timeout;
        halvings += visits[n + 1] * outcomes[n + 1].halved;
        let gone = halved(&visits, 2 * n + 2, 2 * n + 3);
        halvings -= gone;
        if gone > halvings {
            // Most of the sum has gone, and with it its digits.
            halvings = halved(&visits, n + 1, 2 * n + 1);
        }
        if n == 1 {
            halvings = 0.0;
        }
        visits[n] = (timeouts + halvings) / outcomes[n].whole;
    }
    visits
}
