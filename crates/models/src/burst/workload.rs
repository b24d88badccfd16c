//! Sizes of files: the dissertation's workload.

use crate::Result;
use crate::domain::{positive, within};

/// A Pareto distribution: `P(X > x) = (scale / x)^shape` from `scale` on. The dissertation's files have scale 4 and
/// shape 1.2 (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pareto {
    scale: f64,
    shape: f64,
}

impl Pareto {
    /// Makes the law with the least value `scale` and the shape `shape`.
    ///
    /// # Errors
    /// If one is not a finite number above 0.
    pub fn new(scale: f64, shape: f64) -> Result<Self> {
        Ok(Self { scale: positive("scale", scale)?, shape: positive("shape", shape)? })
    }

    /// `scale shape / (shape - 1)`; none for a shape up to 1.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.shape > 1.0).then(|| self.scale * self.shape / (self.shape - 1.0))
    }

    /// `P(X > x)`.
    #[must_use]
    pub fn above(&self, x: f64) -> f64 {
        // In this order, so that NaN stays NaN.
        if x <= self.scale { 1.0 } else { (self.scale / x).powf(self.shape) }
    }

    /// The value that a share of `1 - above` lies below.
    ///
    /// # Errors
    /// If `above` is not in 0 < above <= 1.
    pub fn exceeded_by(&self, above: f64) -> Result<f64> {
        let above = within("above", above, f64::MIN_POSITIVE..=1.0, "0 < above <= 1")?;
        Ok(self.scale * above.powf(-1.0 / self.shape))
    }

    /// The median of the values up to `limit`.
    ///
    /// # Errors
    /// If `limit` is not above the scale.
    pub fn median_up_to(&self, limit: f64) -> Result<f64> {
        within("limit", limit, self.scale.next_up().., "a limit above the scale")?;
        self.exceeded_by(0.5 + 0.5 * self.above(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_has_no_share_above_it() {
        let files = Pareto::new(4.0, 1.2).unwrap();
        assert!(files.above(f64::NAN).is_nan());
        // (4 / 32)^1.2.
        assert!((files.above(32.0) - 0.082_469_2).abs() < 1e-6);
        assert_eq!([-1.0, 4.0, f64::INFINITY].map(|x| files.above(x)), [1.0, 1.0, 0.0]);
    }
}
