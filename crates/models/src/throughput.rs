//! Throughput of a long flow as a function of its loss.
//!
//! Mathis, Semke, Mahdavi and Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm" (1997): the mean
//! window of a flow that halves at each loss and never times out.

use crate::Result;
use crate::domain::{positive, within};

/// Packets per RTT of Mathis et al.: `sqrt(3 / (2 b p))`, with `b` segments acknowledged by one ACK (1, or 2 for delayed ACKs).
///
/// # Errors
/// If `loss` is not in 0 < loss <= 1, or `b` is not above 0.
pub fn mathis(loss: f64, b: f64) -> Result<f64> {
    let p = within(
        "loss",
        loss,
        f64::MIN_POSITIVE..=1.0,
        "0 < loss <= 1: a flow that loses nothing has no mean window",
    )?;
    let b = positive("b", b)?;
    Ok((1.5 / (b * p)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constant of the paper: sqrt(3/2) = 1.2247 without delayed ACKs.
    #[test]
    fn mathis_at_one_percent() {
        assert!((mathis(0.01, 1.0).unwrap() - 12.247).abs() < 1e-3);
        assert!((mathis(0.01, 2.0).unwrap() - 8.660).abs() < 1e-3);
        assert!(mathis(0.0, 1.0).is_err() && mathis(f64::NAN, 1.0).is_err() && mathis(0.1, 0.0).is_err());
    }
}
