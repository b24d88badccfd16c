//! Figures and tables under construction.

use crate::results::{Column, Data, Results, Table};
use crate::statistics::{Histogram, quantile};

/// A quantile: the quantile's name, and the share from 0 to 1.
pub(super) type Which = (&'static str, f64);
pub(super) const P10: Which = ("p10", 0.1);
pub(super) const P50: Which = ("p50", 0.5);
pub(super) const P90: Which = ("p90", 0.9);
pub(super) const P95: Which = ("p95", 0.95);
pub(super) const P99: Which = ("p99", 0.99);
pub(super) const MIN: Which = ("min", 0.0);
pub(super) const MAX: Which = ("max", 1.0);

/// Results under construction.
#[derive(Debug, Default)]
pub(super) struct Tables(pub(super) Results);

impl Tables {
    /// A figure; one that is missing or not finite is left out.
    pub(super) fn put(&mut self, name: impl Into<String>, value: impl Into<Option<f64>>) {
        if let Some(v) = value.into().filter(|v| v.is_finite()) {
            self.0.summary.insert(name.into(), v);
        }
    }

    /// `STEM_p50_s` and the like of a sorted list of seconds.
    pub(super) fn quantiles(&mut self, stem: &str, sorted: &[f64], which: &[Which]) {
        for (suffix, q) in which {
            self.put(format!("{stem}_{suffix}_s"), quantile(sorted, *q));
        }
    }

    /// Adds `STEM_p50_s` and the like, of a histogram of nanoseconds.
    pub(super) fn histogram(&mut self, stem: &str, h: &Histogram, which: &[Which]) {
        for (suffix, q) in which {
            self.put(format!("{stem}_{suffix}_s"), h.quantile(*q).map(|ns| ns as f64 / 1e9));
        }
    }

    pub(super) fn table(&mut self, name: &str, columns: Vec<Column>) {
        self.0.tables.push(Table { name: name.to_owned(), columns });
    }
}

pub(super) fn integers(name: impl Into<String>, values: impl Iterator<Item = u64>) -> Column {
    Column { name: name.into(), data: Data::U64(values.collect()) }
}

pub(super) fn numbers(name: impl Into<String>, values: impl Iterator<Item = f64>) -> Column {
    Column { name: name.into(), data: Data::F64(values.collect()) }
}

pub(super) fn words(name: impl Into<String>, values: impl Iterator<Item = String>) -> Column {
    Column { name: name.into(), data: Data::Text(values.collect()) }
}

/// `a / b`; `None` where there is nothing to divide by.
pub(super) fn share(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}
