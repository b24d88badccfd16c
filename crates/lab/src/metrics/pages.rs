//! Pages, as people wait for them.

use super::{P50, P95, P99, Table, sorted};
use crate::worker::record::PageRecord;

/// Largest size of a small page, in bytes.
const SMALL: u64 = 100_000;
/// Smallest size of a large page, in bytes.
const LARGE: u64 = 300_000;

/// Times from the first attempt to connect to the last byte of the last object; what was cut off has none.
pub(super) fn pages(t: &mut Table, pages: &[&PageRecord]) {
    let times = |keep: &dyn Fn(&PageRecord) -> bool| {
        sorted(pages.iter().filter(|p| keep(p)).filter_map(|p| Some(p.done? - p.start)))
    };
    let count = |keep: &dyn Fn(&PageRecord) -> bool| pages.iter().filter(|p| keep(p)).count() as f64;
    t.put("pages_done", Some(count(&|p| p.done.is_some())));
    t.put("pages_failed", Some(count(&|p| p.broken)));
    t.put("pages_cut", Some(count(&|p| p.done.is_none() && !p.broken)));
    let all = times(&|_| true);
    t.put("page_mean_s", Some(all.iter().sum::<f64>() / all.len() as f64));
    t.quantiles("page", &all, &[P50, P95, P99]);
    t.quantiles("page_small", &times(&|p| p.size() <= SMALL), &[P50, P95]);
    t.quantiles("page_large", &times(&|p| p.size() >= LARGE), &[P50, P95]);
    let first = sorted(pages.iter().filter_map(|p| Some(p.first_byte? - p.start)));
    t.quantiles("page_first_byte", &first, &[P50, P95]);
    let parts = pages.iter().flat_map(|p| &p.parts);
    t.quantiles("page_object", &sorted(parts.clone().filter_map(|o| Some(o.done? - o.start?))), &[P50, P95]);
    let stalls = sorted(parts.filter_map(|o| o.stall));
    t.quantiles("page_stall", &stalls, &[P99]);
    let long = stalls.iter().filter(|s| **s > 5.0).count();
    t.put("page_stall_over_5s", Some(long as f64 / stalls.len() as f64));
}
