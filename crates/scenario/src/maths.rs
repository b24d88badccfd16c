//! Logarithm, exponential and power out of + - * / alone, so that a draw gives the same bytes on every machine: the
//! standard library's come from the platform and may differ in the last bit. Within 1e-12 of the true value.

/// ln 2 in two parts: the first has 32 trailing zero bits, so that its product with an exponent is exact.
const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// The natural logarithm; minus infinity at zero, NaN below.
#[must_use]
pub fn ln(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x.is_infinite() {
        return x;
    }
    // x = m 2^e with m in [sqrt(1/2), sqrt 2); subnormal numbers are scaled up first.
    let (x, lift) = if x < f64::MIN_POSITIVE { (x * (1u64 << 54) as f64, -54) } else { (x, 0) };
    let bits = x.to_bits();
    let mut e = ((bits >> 52) & 0x7ff) as i32 - 1023 + lift;
    let mut m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    if m > core::f64::consts::SQRT_2 {
        m /= 2.0;
        e += 1;
    }
    // ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172: 13 terms leave 1e-20.
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for n in (0..13).rev() {
        sum = sum * square + 1.0 / f64::from(2 * n + 1);
    }
    f64::from(e) * LN2_HIGH + (2.0 * s * sum + f64::from(e) * LN2_LOW)
}

/// e to the power of x.
#[must_use]
pub fn exp(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x > 709.8 {
        return f64::INFINITY;
    }
    if x < -745.2 {
        return 0.0;
    }
    // x = k ln 2 + r with |r| < 0.35: 17 terms of Taylor's series leave 1e-22.
    let k = (x / core::f64::consts::LN_2).round();
    let r = (x - k * LN2_HIGH) - k * LN2_LOW;
    let mut sum = 1.0;
    for n in (1..18).rev() {
        sum = 1.0 + r * sum / f64::from(n);
    }
    // In two steps, since 2^k alone may lie outside the numbers.
    let half = (k / 2.0).floor();
    sum * two_to(half) * two_to(k - half)
}

/// x to the power of y, x at least zero.
#[must_use]
pub fn pow(x: f64, y: f64) -> f64 {
    if y == 0.0 { 1.0 } else { exp(y * ln(x)) }
}

/// 2^k for whole k within the exponents of normal numbers.
fn two_to(k: f64) -> f64 {
    f64::from_bits(((k as i64 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        a == b || ((a - b) / b).abs() < 1e-12
    }

    #[test]
    fn as_the_standard_library_to_1e_12() {
        for i in 1..20_000u32 {
            let x = f64::from(i) * 0.037;
            assert!(close(ln(x), x.ln()), "ln {x}: {} {}", ln(x), x.ln());
            let y = x - 370.0;
            assert!(close(exp(y), y.exp()), "exp {y}: {} {}", exp(y), y.exp());
            for p in [-3.7, -0.8, 0.25, 1.0, 1.2, 2.5] {
                assert!(close(pow(x, p), x.powf(p)), "{x}^{p}");
            }
        }
        for x in [1e-300, 5e-320, 1e300, 1.0 + 1e-9, 1.0 - 1e-9] {
            assert!(close(ln(x), x.ln()), "ln {x}");
        }
        // Known values: ln 2, e.
        assert!((ln(2.0) - core::f64::consts::LN_2).abs() < 1e-16);
        assert!((exp(1.0) - core::f64::consts::E).abs() < 1e-15);
    }

    #[test]
    fn the_edges() {
        assert_eq!((ln(1.0), exp(0.0), pow(0.0, 2.0)), (0.0, 1.0, 0.0));
        assert!(ln(0.0).is_infinite() && ln(-1.0).is_nan() && exp(f64::NAN).is_nan());
        assert_eq!((exp(1e9), exp(-1e9), ln(f64::INFINITY)), (f64::INFINITY, 0.0, f64::INFINITY));
    }

    #[test]
    fn the_same_bits_everywhere() {
        assert_eq!(ln(3.0).to_bits(), 0x3ff1_93ea_7aad_030b);
        assert_eq!(exp(1.5).to_bits(), 0x4011_ed3f_e64f_c541);
    }
}
