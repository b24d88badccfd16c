//! Time that is covered by spans which may overlap, each counted once.

use std::collections::VecDeque;

use narrows_units::Instant;

/// Spans that are remembered. Of a span that reaches back beyond them, time counts as covered that may not have been.
const KEPT: usize = 8;

/// Span of time, with its begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: Instant,
    pub until: Instant,
}

/// Length of time covered by spans; spans are added in the order of their ends.
#[derive(Clone, Debug, Default)]
pub struct Covered {
    /// Apart from each other, oldest first.
    spans: VecDeque<Span>,
}

impl Covered {
    /// Covers one more span, and gives the parts of it that were not covered, latest first.
    pub fn add(&mut self, new: Span, mut fresh: impl FnMut(Span)) {
        let Span { mut from, mut until } = new;
        let end = self.spans.back().map_or(new.until, |last| last.until.max(new.until));
        while let Some(last) = self.spans.back().copied().filter(|last| last.until >= new.from) {
            self.spans.pop_back();
            if last.until < until {
                fresh(Span { from: last.until, until });
            }
            (from, until) = (from.min(last.from), until.min(last.from));
        }
        if new.from < until {
            fresh(Span { from: new.from, until });
        }
        if self.spans.len() == KEPT
            && let Some(oldest) = self.spans.pop_front()
            && let Some(next) = self.spans.front_mut()
        {
            next.from = oldest.from;
        }
        self.spans.push_back(Span { from, until: end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from_s: u64, until_s: u64) -> Span {
        let at = |s: u64| Instant::from_nanos(s * 1_000_000_000);
        Span { from: at(from_s), until: at(until_s) }
    }

    fn seconds(covered: &mut Covered, from_s: u64, until_s: u64) -> u64 {
        let mut sum = 0;
        covered.add(span(from_s, until_s), |s| sum += s.until.since(s.from).as_millis() / 1000);
        sum
    }

    #[test]
    fn what_is_covered_twice_counts_once() {
        let mut covered = Covered::default();
        let spans = [(5, 6), (8, 9), (0, 10), (0, 10), (9, 12), (20, 21), (11, 30), (30, 31)];
        let fresh: Vec<u64> = spans.map(|(from, until)| seconds(&mut covered, from, until)).into();
        assert_eq!(fresh, [1, 1, 8, 0, 2, 1, 17, 1]);
    }

    #[test]
    fn any_spans_cover_no_more_than_the_time_that_has_passed() {
        let mut random = fastrand::Rng::with_seed(3);
        let (mut covered, mut sum, mut seen) = (Covered::default(), 0, vec![false; 2000]);
        for until in 1..2000_u64 {
            let from = random.u64(until.saturating_sub(40)..until);
            if random.u8(0..3) == 0 {
                sum += seconds(&mut covered, from, until);
                (from..until).for_each(|s| seen[s as usize] = true);
            }
        }
        let union = seen.iter().filter(|s| **s).count() as u64;
        assert!(sum <= union && sum * 20 > union * 19, "{sum} of {union}");
    }
}
