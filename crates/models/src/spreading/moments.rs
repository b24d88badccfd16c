//! A random time by its moments, restricted to an event: enough to carry mean and variance through a recursion that
//! only waits, branches and joins.

use core::ops::Add;

/// Probability of an event `A`, and the first two moments of a time `T` on it: `P(A)`, `E[T; A]`, `E[T^2; A]`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moments {
    /// `P(A)`.
    pub weight: f64,
    /// `E[T; A]` in seconds.
    pub first: f64,
    /// `E[T^2; A]` in seconds squared; may be infinite.
    pub second: f64,
}

impl Moments {
    /// Certainly at once.
    pub const NOW: Self = Self { weight: 1.0, first: 0.0, second: 0.0 };

    /// A segment that needs `K` timeouts, `P(K = k) = p^k q`, of `timer_s`, twice that, and so on, then `rtt_s`:
    /// `R + T0 (2^K - 1)`, since `E[2^K] = q/(1-2p)` and `E[4^K] = q/(1-4p)`.
    pub fn doubling(loss: f64, rtt_s: f64, timer_s: f64) -> Self {
        let twice = (1.0 - loss) / (1.0 - 2.0 * loss);
        let square = if loss < 0.25 { (1.0 - loss) / (1.0 - 4.0 * loss) } else { f64::INFINITY };
        let rest_s = rtt_s - timer_s;
        Self {
            weight: 1.0,
            first: rtt_s + timer_s * loss / (1.0 - 2.0 * loss),
            second: rest_s * rest_s + 2.0 * rest_s * timer_s * twice + timer_s * timer_s * square,
        }
    }

    /// The time `wait_s` later.
    pub fn after(self, wait_s: f64) -> Self {
        Self {
            weight: self.weight,
            first: self.first + wait_s * self.weight,
            second: self.second + 2.0 * wait_s * self.first + wait_s * wait_s * self.weight,
        }
    }

    /// The time as a branch taken with `probability`, independently.
    pub fn with_probability(self, probability: f64) -> Self {
        let branch = |moment: f64| if probability > 0.0 { probability * moment } else { 0.0 };
        Self { weight: branch(self.weight), first: branch(self.first), second: branch(self.second) }
    }

    /// The sum of this time and an independent time `next` after it.
    pub fn then(self, next: Self) -> Self {
        Self {
            weight: self.weight * next.weight,
            first: self.first * next.weight + self.weight * next.first,
            second: self.second * next.weight + 2.0 * self.first * next.first + self.weight * next.second,
        }
    }
}

impl Add for Moments {
    type Output = Self;
    /// Joins two events that exclude each other.
    fn add(self, other: Self) -> Self {
        Self {
            weight: self.weight + other.weight,
            first: self.first + other.first,
            second: self.second + other.second,
        }
    }
}
