//! How big things are: a law of sizes written as text.

use std::sync::Arc;

/// A law of sizes in bytes (or of counts, where a count is asked for).
#[derive(Clone, Debug, PartialEq)]
pub enum Size {
    /// Always this.
    Fixed(u64),
    /// Exponential.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Pareto: P(X > x) = (scale / x)^shape.
    Pareto {
        /// Least value.
        scale: f64,
        /// Exponent.
        shape: f64,
    },
    /// Pareto cut off at both ends and scaled up to a probability of one.
    BoundedPareto {
        /// Least value.
        low: f64,
        /// Greatest value.
        high: f64,
        /// Exponent.
        shape: f64,
    },
    /// One of these, each as likely; a value may occur more than once.
    List(Arc<[u64]>),
    /// The objects of the lab: 50 quantiles of a bounded Pareto law on 2 to 31 kB with a mean of 7.3 kB.
    Web,
}
