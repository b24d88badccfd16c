//! How sure a mean over seeds is: Student's 95 % interval (Student 1908).

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Value that 97.5 % of Student's distribution with `degrees` of freedom lie below: 12.7 with one, 1.96 with many.
/// `None` with none.
#[must_use]
pub fn students_95(degrees: usize) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, degrees as f64).ok()?.inverse_cdf(0.975);
    t.is_finite().then_some(t)
}

/// Half the 95 % interval of the mean of `values`; `None` with fewer than two.
pub(crate) fn half_95(values: &[f64]) -> Option<f64> {
    let n = values.len();
    let t = students_95(n.checked_sub(1)?)?;
    let mean = values.iter().sum::<f64>() / n as f64;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    Some(t * (variance / n as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Any table: 12.706, 4.303, 2.262, 1.980 with 1, 2, 9 and 120 degrees of freedom.
        for (degrees, t) in [(1, 12.706), (2, 4.303), (9, 2.262), (120, 1.980)] {
            assert!((students_95(degrees).unwrap() - t).abs() < 5e-4, "{degrees}");
        }
        // Mean 2, standard deviation 1: 4.303 / sqrt(3).
        assert!((half_95(&[1.0, 2.0, 3.0]).unwrap() - 2.4843).abs() < 1e-3);
        assert_eq!(half_95(&[5.0, 5.0]), Some(0.0));
        assert_eq!((half_95(&[5.0]), half_95(&[]), students_95(0)), (None, None, None));
    }
}
