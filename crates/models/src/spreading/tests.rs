//! The tables of the notes, the paper's own sums, the errors of the printed equations, and the process itself.

mod literal;
mod process;
mod sums;
mod tables;

use super::{Backoff, Parameters, Spreading};

const LOSSES: [f64; 3] = [0.02, 0.065, 0.1];

/// R = 0.1 s, T0 = 1 s: the notes' reference path.
fn model(loss: f64, most: usize) -> Spreading {
    made(loss, 0.1, Backoff::SingleSegment, most)
}

fn made(loss: f64, rtt_s: f64, backoff: Backoff, most: usize) -> Spreading {
    Spreading::new(Parameters { loss, rtt_s, rto_s: 1.0, backoff }, most).unwrap()
}

/// Equal to half a unit of the last printed digit.
fn printed(got: f64, expected: f64, digits: i32, what: &str) {
    let half = 0.5 * 10f64.powi(-digits);
    assert!((got - expected).abs() <= half * 1.0001, "{what}: {got}, printed {expected}");
}
