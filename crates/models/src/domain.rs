//! Domains of parameters: each function says first what it can take.

use core::fmt;
use core::ops::RangeBounds;

/// A parameter outside the domain of an equation.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// The parameter, as in the function's signature and the command's option.
    pub parameter: &'static str,
    /// Value that was given.
    pub value: f64,
    /// The domain, and the source of the domain.
    pub expected: &'static str,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: expected {}", self.parameter, self.value, self.expected)
    }
}
impl std::error::Error for Error {}

/// A value, or the parameter for which no value can be computed.
pub type Result<T> = core::result::Result<T, Error>;

/// `value` if it lies in `domain`; never NaN.
///
/// # Errors
/// Names the parameter and its domain, in the words of `expected`.
pub(crate) fn within(
    parameter: &'static str,
    value: f64,
    domain: impl RangeBounds<f64>,
    expected: &'static str,
) -> Result<f64> {
    if domain.contains(&value) { Ok(value) } else { Err(Error { parameter, value, expected }) }
}

/// Returns `value` if `value` is finite and above 0.
pub(crate) fn positive(parameter: &'static str, value: f64) -> Result<f64> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(Error { parameter, value, expected: "a finite number above 0" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_domain_holds_nan() {
        let error = within("loss", f64::NAN, 0.0..0.5, "0 <= loss < 0.5").unwrap_err();
        assert_eq!(error.to_string(), "loss = NaN: expected 0 <= loss < 0.5");
        assert!(within("loss", 0.5, 0.0..0.5, "").is_err() && within("loss", 0.0, 0.0..0.5, "").is_ok());
        assert!(
            positive("rtt", f64::INFINITY).is_err()
                && positive("rtt", 0.0).is_err()
                && positive("rtt", f64::NAN).is_err()
        );
    }
}
