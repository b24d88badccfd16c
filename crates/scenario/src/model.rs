//! Models by name, in the language of claims: what an equation says at the very point a run was made.
//!
//! - `taq_chain(memory, packets, loss)`: share of the epochs in which a flow sends so many packets, 0 to 6 (TAQ, figure
//!   5, "at least 1, 2, 3 back-offs"); a back-off is remembered through window `memory`, 1 to 3. For a loss below 1/2.
//! - `taq_chain_capped(memory, packets, loss)`: the same with the timer capped at 64 T0, as stacks cap it; ours.
//! - `spreading_b(segments, window, loss, rtt)`: mean seconds of a transfer in pairs, T(B_i^n) (Initial Spreading,
//!   equations 5 and 6); with a window of 1 slow start.
//! - `spreading_b_rfc6298(segments, window, loss, rtt)`: the same if every timeout doubles the timer (RFC 6298).
//! - `spreading_d(segments, window, loss, rtt)`: of one whose first window is a burst, T(D_i^n): equation 1.
//! - `spreading_s(segments, window, loss, rtt)`: of one whose first window is spread, T(S_i^n): equations 2 and 3.
//! - `spreading_b_printed`, `spreading_s_printed`: by the equations as printed, errors and all; the latter for as many
//!   `segments` as the `window` has.
//!
//! Transfers have a timer of 1 s, else doubled as the paper doubles it. What lies outside a model's domain is NaN,
//! which fulfils no bound.

use narrows_models::spreading::{Backoff, Delivery, Parameters, Spreading, paper_literal};
use narrows_models::taq_chain::{Back, BackoffUntil, Settings, stationary};

/// A model, the names of the model's arguments, and the model's value.
pub(crate) struct Model {
    pub name: &'static str,
    pub takes: &'static [&'static str],
    pub value: fn(&[f64]) -> f64,
}

const PAPER: Backoff = Backoff::SingleSegment;
const RFC_6298: Backoff = Backoff::EveryTimeout;

const CHAIN: &[&str] = &["memory", "packets", "loss"];
const TRANSFER: &[&str] = &["segments", "window", "loss", "rtt"];

/// Models that expressions may use.
pub(crate) const MODELS: [Model; 8] = [
    Model { name: "taq_chain", takes: CHAIN, value: |x| taq_chain(x, Back::Open(3)) },
    Model { name: "taq_chain_capped", takes: CHAIN, value: |x| taq_chain(x, Back::Capped(6)) },
    Model { name: "spreading_b", takes: TRANSFER, value: |x| transfer(x, PAPER, Spreading::b) },
    Model { name: "spreading_b_rfc6298", takes: TRANSFER, value: |x| transfer(x, RFC_6298, Spreading::b) },
    Model { name: "spreading_d", takes: TRANSFER, value: |x| transfer(x, PAPER, Spreading::d) },
    Model { name: "spreading_s", takes: TRANSFER, value: |x| transfer(x, PAPER, Spreading::s) },
    Model { name: "spreading_b_printed", takes: TRANSFER, value: |x| mean(x, PAPER, printed_b) },
    Model { name: "spreading_s_printed", takes: TRANSFER, value: |x| mean(x, PAPER, printed_s) },
];

/// The model called `name`.
pub(crate) fn of(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|m| m.name == name)
}

/// A whole number from 0 on.
fn whole(x: f64) -> Option<usize> {
    (x >= 0.0 && x <= f64::from(u32::MAX) && x.fract() == 0.0).then_some(x as usize)
}

fn taq_chain(x: &[f64], back: Back) -> f64 {
    let &[memory, packets, loss] = x else { return f64::NAN };
    let backoff_ends = match whole(memory) {
        Some(1) => BackoffUntil::NewAck,
        Some(2) => BackoffUntil::S2,
        Some(3) => BackoffUntil::S3,
        _ => return f64::NAN,
    };
    let chain = stationary(back, Settings { backoff_ends, ..Settings::default() }, loss);
    let share = |sent: &[f64]| whole(packets).and_then(|n| sent.get(n).copied());
    chain.ok().and_then(|c| share(c.sent())).unwrap_or(f64::NAN)
}

fn transfer(
    x: &[f64],
    backoff: Backoff,
    of: fn(&Spreading, usize, usize) -> narrows_models::Result<Delivery>,
) -> f64 {
    mean(x, backoff, |model, i, n| of(model, i, n).map(|d| d.mean_s))
}

fn mean(
    x: &[f64],
    backoff: Backoff,
    of: impl Fn(&Spreading, usize, usize) -> narrows_models::Result<f64>,
) -> f64 {
    let &[segments, window, loss, rtt_s] = x else { return f64::NAN };
    let (Some(i), Some(n)) = (whole(segments), whole(window)) else { return f64::NAN };
    let path = Parameters { loss, rtt_s, rto_s: 1.0, backoff };
    Spreading::new(path, i).and_then(|model| of(&model, i, n)).unwrap_or(f64::NAN)
}

/// `T(B_i^n)` as printed; slow start, a window of one, is a segment and then `B_{i-1}^2` (section IV.D.3).
fn printed_b(model: &Spreading, i: usize, n: usize) -> narrows_models::Result<f64> {
    if n > 1 || i < 2 {
        return paper_literal::b(model, i, n);
    }
    Ok(paper_literal::b(model, 1, 1)? + paper_literal::b(model, i - 1, 2)?)
}

/// `T(S_n^n)` as printed: equation 2 less equation 3, whose cases are printed without their probabilities, which are
/// put in here. Equation 3 is for `i = n` alone.
fn printed_s(model: &Spreading, i: usize, n: usize) -> narrows_models::Result<f64> {
    if i != n {
        return Ok(f64::NAN);
    }
    Ok(paper_literal::s_no_fr(model, n, n)? - paper_literal::fr_saving(model, n, true)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, x: &[f64]) -> f64 {
        (of(name).unwrap().value)(x)
    }

    /// Printed values: the chains' at p = 0.1 and T0 = 2 with memory through S3, the recursion's at p = 0.065 and R =
    /// 0.1 s.
    #[test]
    fn values_of_the_papers_tables() {
        for (name, sent) in [
            ("taq_chain", [0.3845, 0.1, 0.135, 0.1354, 0.0987, 0.0648, 0.0816]),
            ("taq_chain_capped", [0.4856, 0.0836, 0.1129, 0.1132, 0.0825, 0.0541, 0.0682]),
        ] {
            for (n, share) in (0..).map(f64::from).zip(sent) {
                assert!((value(name, &[3.0, n, 0.1]) - share).abs() < 6e-5, "{name}: {n}");
            }
        }
        for (name, window, seconds) in [
            ("spreading_b", 1.0, 1.0965),
            ("spreading_b_rfc6298", 1.0, 1.1355),
            ("spreading_d", 10.0, 0.9438),
            ("spreading_s", 10.0, 0.4671),
        ] {
            assert!((value(name, &[10.0, window, 0.065, 0.1]) - seconds).abs() < 6e-5, "{name}");
        }
    }

    #[test]
    fn outside_the_domain_there_is_no_value() {
        for x in [[4.0, 0.0, 0.1], [1.0, 7.0, 0.1], [1.0, 0.5, 0.1], [1.0, 0.0, 1.0], [1.0, 0.0, f64::NAN]] {
            assert!(value("taq_chain", &x).is_nan(), "{x:?}");
            assert!(value("taq_chain_capped", &x).is_nan(), "{x:?}");
        }
        for x in [[0.0, 1.0, 0.1, 0.1], [10.0, 3.0, 0.1, 0.1], [3.0, 10.0, 0.5, 0.1], [3.0, 10.0, 0.1, 2.0]] {
            assert!(value("spreading_s", &x).is_nan(), "{x:?}");
        }
    }
}
