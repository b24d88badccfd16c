//! How long nothing comes to a user with several connections.
//!
//! A flow has been silent for longer than `x` at a moment with a probability `V(x)`, the chain's
//! ([`OperatingPoint::silent_longer_than`]); so all `k` flows of a user, taken as independent, have with `V(x)^k`: the
//! probability that a window of length `x` set down at a moment not chosen by them holds no delivery. In a stationary
//! process that probability falls by the rate at which gaps longer than `x` begin (Palm and Khinchine), so stalls
//! longer than `x` come `-d/dx V(x)^k = k V(x)^(k-1) (-V'(x))` times a second, and a user meets one in a time `T` with
//! probability `1 - exp(-T rate)`.
//!
//! What a user notices, the longest time none of a pool's connections receives data, is the paper's measure (TAQ,
//! section 2.3).

use crate::operating::OperatingPoint;

/// Step over which the distribution of silences is taken as even, s.
const STEP_S: f64 = 1e-3;

/// Stalls of users with several connections each.
#[derive(Clone, Debug, PartialEq)]
pub struct Stalls {
    point: OperatingPoint,
    connections: i32,
}

impl Stalls {
    /// Stalls of users with `connections` flows each, whose silences are those of `point`.
    #[must_use]
    pub fn new(point: OperatingPoint, connections: u32) -> Self {
        Self { point, connections: i32::try_from(connections).unwrap_or(i32::MAX) }
    }

    /// Stalls longer than `x_s` that begin per second, for a user.
    #[must_use]
    pub fn per_s(&self, x_s: f64) -> f64 {
        let silent = self.point.silent_longer_than(x_s);
        let falls = (silent - self.point.silent_longer_than(x_s + STEP_S)) / STEP_S;
        f64::from(self.connections) * silent.powi(self.connections - 1) * falls.max(0.0)
    }

    /// Share of the users who meet at least one stall longer than `x_s` while they are busy for `during_s`.
    #[must_use]
    pub fn share_over(&self, x_s: f64, during_s: f64) -> f64 {
        if x_s >= during_s { 0.0 } else { 1.0 - (-during_s * self.per_s(x_s)).exp() }
    }

    /// The stall that a share `of` of the users meet or exceed in `during_s`: 0.5 for the median user's longest; 0 if
    /// there are none.
    #[must_use]
    pub fn longest_s(&self, of: f64, during_s: f64) -> f64 {
        let (mut low, mut high) = (0.0, during_s);
        if self.share_over(low, during_s) < of {
            return 0.0;
        }
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if self.share_over(middle, during_s) >= of {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}
