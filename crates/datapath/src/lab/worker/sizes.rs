//! The object sizes of the demonstration workload: the quantiles of a bounded Pareto law.
//!
//! F(x) = (1 - (L/x)^a) / (1 - (L/H)^a) on [L, H] = [2, 31] kB. The exponent is the one that gives the 50 sizes a
//! mean of 7.3 kB; it is found by bisection, since the mean of a handful of quantiles has no closed form.

/// Smallest size in bytes.
pub const MIN: f64 = 2_000.0;
/// Largest size in bytes.
pub const MAX: f64 = 31_000.0;
/// Mean of the sizes in bytes.
pub const MEAN: f64 = 7_300.0;
/// How many there are.
pub const COUNT: usize = 50;

fn quantiles(alpha: f64) -> [f64; COUNT] {
    let tail = 1.0 - (MIN / MAX).powf(alpha);
    std::array::from_fn(|i| {
        let u = (i as f64 + 0.5) / COUNT as f64;
        MIN / (1.0 - u * tail).powf(1.0 / alpha)
    })
}

/// The sizes in bytes, smallest first.
#[must_use]
pub fn sizes() -> [u32; COUNT] {
    // The mean falls as alpha grows.
    let (mut low, mut high) = (0.01, 8.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if quantiles(middle).iter().sum::<f64>() / COUNT as f64 > MEAN {
            low = middle;
        } else {
            high = middle;
        }
    }
    quantiles(low).map(|x| x.round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_mean_and_shape() {
        let s = sizes();
        let mean = f64::from(s.iter().sum::<u32>()) / COUNT as f64;
        assert!((mean - MEAN).abs() < 1.0, "{mean}");
        assert!(s[0] >= 2_000 && s[COUNT - 1] <= 31_000 && s.is_sorted(), "{s:?}");
        assert!(s[COUNT / 2] < 6_000, "a heavy tail has its median below its mean");
    }
}
