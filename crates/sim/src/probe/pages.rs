//! Pages: from turning to one until its last object is there, and how many came to an end.

use narrows_units::{Duration, Instant};

use super::report::{P50, P95, P99, Tables, integers, numbers};
use crate::statistics::{mean, sorted};

/// Most pages that are kept; further ones are in no figure.
const MOST: usize = 1 << 24;

/// Outcome of a page load.
#[derive(Clone, Copy, Debug)]
enum PageEnd {
    /// The page was still loading at the end of the run.
    Cut,
    /// The whole page came, at the instant given.
    Whole(Instant),
    /// A connection broke, at this instant, so that some of the page is missing.
    Broken(Instant),
}

/// All pages, with when each was begun.
#[derive(Debug, Default)]
pub(crate) struct PageLoads(Vec<(Instant, PageEnd)>);

impl PageLoads {
    /// A page is begun. Returns the number of the page.
    pub(crate) fn begun(&mut self, now: Instant) -> u32 {
        if self.0.len() < MOST {
            self.0.push((now, PageEnd::Cut));
            return self.0.len() as u32 - 1;
        }
        u32::MAX
    }

    /// Nothing more comes of a page.
    pub(crate) fn over(&mut self, now: Instant, number: u32, whole: bool) {
        if let Some((_, end)) = self.0.get_mut(number as usize) {
            *end = if whole { PageEnd::Whole(now) } else { PageEnd::Broken(now) };
        }
    }

    /// Adds the pages of another part.
    pub(super) fn absorb(&mut self, other: Self) {
        self.0.extend(other.0);
        self.0.truncate(MOST);
    }

    /// The figures are of pages that end after the warm-up.
    pub(super) fn report(&self, warmup: Instant, out: &mut Tables) {
        let (mut times, mut broken, mut cut): (Vec<Duration>, u32, u32) = (Vec::new(), 0, 0);
        for (begun, end) in &self.0 {
            match *end {
                PageEnd::Whole(at) if at > warmup => times.push(at.since(*begun)),
                PageEnd::Broken(at) if at > warmup => broken += 1,
                PageEnd::Cut => cut += 1,
                PageEnd::Whole(_) | PageEnd::Broken(_) => {}
            }
        }
        if self.0.is_empty() {
            return;
        }
        let times = sorted(times.iter().map(|t| t.as_secs_f64()));
        out.put("pages_done", times.len() as f64);
        out.put("pages_failed", f64::from(broken));
        out.put("pages_cut", f64::from(cut));
        out.put("page_mean_s", mean(&times));
        out.quantiles("page", &times, &[P50, P95, P99]);
        self.table(out);
    }

    /// All pages, the warm-up's too.
    fn table(&self, out: &mut Tables) {
        let done = |(begun, end): &(Instant, PageEnd)| match end {
            PageEnd::Whole(at) => at.since(*begun).as_secs_f64(),
            PageEnd::Broken(_) | PageEnd::Cut => f64::NAN,
        };
        let outcome = |end: &PageEnd| match end {
            PageEnd::Whole(_) => 0,
            PageEnd::Broken(_) => 1,
            PageEnd::Cut => 2,
        };
        let columns = vec![
            numbers("start_s", self.0.iter().map(|(begun, _)| begun.as_secs_f64())),
            numbers("done_s", self.0.iter().map(done)),
            integers("outcome", self.0.iter().map(|(_, end)| outcome(end))),
        ];
        out.table("pages", columns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_after_the_warm_up_counts() {
        let at = |s: f64| Instant::ZERO + Duration::from_nanos((s * 1e9) as u64);
        let mut pages = PageLoads::default();
        let numbers = [1.0, 8.0, 9.0, 12.0, 15.0].map(|begun| pages.begun(at(begun)));
        // In the warm-up, three seconds over it, broken, one second; the last one is under way.
        for (number, end, whole) in [(0, 9.0, true), (1, 11.0, true), (2, 14.0, false), (3, 13.0, true)] {
            pages.over(at(end), numbers[number], whole);
        }
        let mut out = Tables::default();
        pages.report(at(10.0), &mut out);
        let figures = ["pages_done", "pages_failed", "pages_cut", "page_mean_s", "page_p50_s"];
        assert_eq!(figures.map(|f| out.0.summary[f]), [2.0, 1.0, 1.0, 2.0, 2.0]);
        let outcome = &out.0.tables[0].columns[2].data;
        assert_eq!(
            *outcome,
            crate::results::Data::U64(vec![0, 0, 1, 0, 2]),
            "the table has the warm-up's too"
        );
    }
}
