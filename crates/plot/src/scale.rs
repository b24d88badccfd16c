//! Axes: from values to places, and the ticks between.

/// A logarithmic axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogScale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl LogScale {
    /// `low` stands at `from`, `high` at `to`; both above zero, `low` below `high`.
    pub(super) fn new((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        Self { low, high, from, to }
    }

    /// Place of a value on the axis; a value beyond an end stands at that end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        self.from + (value / self.low).ln() / (self.high / self.low).ln() * (self.to - self.from)
    }

    /// 1, 2, 5 times powers of ten within the axis; powers alone where it spans more than `fine` decades.
    pub(super) fn ticks(&self, fine: f64) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let steps: &[f64] = if decades > fine { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let slack = 1.0 + 1e-9;
        (-9..=9)
            .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
            .filter(|t| *t * slack >= self.low && *t <= self.high * slack)
            .collect()
    }
}

/// The next of 1, 2, 5 times a power of ten at or below `value`; `value` above zero.
pub(super) fn nice_below(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let part = value / power * (1.0 + 1e-9);
    power * [5.0, 2.0, 1.0].into_iter().find(|step| *step <= part).unwrap_or(1.0)
}

/// The next of 1, 2, 5 times a power of ten at or above `value`; `value` above zero.
pub(super) fn nice_above(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let part = value / power * (1.0 - 1e-9);
    power * [1.0, 2.0, 5.0].into_iter().find(|step| *step >= part).unwrap_or(10.0)
}

/// A step of 1, 2 or 5 times a power of ten that cuts `span` into at most `parts`.
pub(super) fn step(span: f64, parts: f64) -> f64 {
    if span > 0.0 && parts > 0.0 { nice_above(span / parts) } else { 1.0 }
}

/// Number in as few digits as can be read: `0.05`, `3`, `1200`.
pub(super) fn number(value: f64) -> String {
    let text = match value.abs() {
        v if v >= 10.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A share as per cent: `22 %`, `0.3 %`, `0`.
pub(super) fn per_cent(share: f64) -> String {
    if share == 0.0 { "0".into() } else { format!("{} %", number(share * 100.0)) }
}

/// A quantile by linear interpolation between the closest ranks; `None` of nothing.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (at - at.floor()))
}

/// Map from values to places of the page: linear or logarithmic.
pub(super) enum Scale {
    Even { low: f64, high: f64, from: f64, to: f64 },
    Log(LogScale),
}

impl Scale {
    pub(super) fn place(&self, value: f64) -> f64 {
        match self {
            Self::Even { low, high, from, to } => from + (value - low) / (high - low) * (to - from),
            Self::Log(scale) => scale.place(value),
        }
    }

    /// Chooses round values on the axis: about `parts` of them, or, by their logarithm, as [`LogScale::ticks`] does.
    pub(super) fn ticks(&self, parts: f64, fine: f64) -> Vec<f64> {
        match self {
            Self::Even { low, high, .. } => {
                let step = step(high - low, parts);
                let first = (low / step).ceil() as i64;
                let last = (high / step + 1e-9).floor() as i64;
                // A range of numbers too large to tell apart has no ticks within.
                (first..=last.min(first.saturating_add(50))).map(|i| i as f64 * step).collect()
            }
            Self::Log(scale) => scale.ticks(fine),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_by_hand() {
        let scale = LogScale::new((0.1, 100.0), (0.0, 300.0));
        assert!((scale.place(1.0) - 100.0).abs() < 1e-9);
        assert!((scale.place(0.0) - 0.0).abs() < 1e-9 && (scale.place(1e9) - 300.0).abs() < 1e-9);
        assert_eq!(scale.ticks(2.0), [0.1, 1.0, 10.0, 100.0]);
        assert_eq!(LogScale::new((1.0, 20.0), (0.0, 1.0)).ticks(2.0), [1.0, 2.0, 5.0, 10.0, 20.0]);
    }

    #[test]
    fn nice_numbers_by_hand() {
        assert!((nice_below(7.3) - 5.0).abs() < 1e-9 && (nice_above(7.3) - 10.0).abs() < 1e-9);
        assert!((nice_below(0.02) - 0.02).abs() < 1e-9 && (nice_above(0.02) - 0.02).abs() < 1e-9);
        assert!((nice_above(105.0) - 200.0).abs() < 1e-9);
        assert!((step(120.0, 6.0) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn quantiles_by_hand() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), Some(3.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn numbers_are_short() {
        let texts: Vec<String> = [0.05, 0.25, 3.0, 3.33, 12.6, 1200.0, 0.0].into_iter().map(number).collect();
        assert_eq!(texts, ["0.05", "0.25", "3", "3.3", "13", "1200", "0"]);
        assert_eq!(
            (per_cent(0.222), per_cent(0.003), per_cent(0.0)),
            ("22 %".into(), "0.3 %".into(), "0".into())
        );
    }
}
