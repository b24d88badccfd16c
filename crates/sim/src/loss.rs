//! Losses on a wire: at random, by number, or by time.

use narrows_units::Instant;

/// What a wire loses. All kinds may be set at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loss {
    /// Probability of losing a packet, independent of all others.
    pub(crate) probability: f64,
    /// Numbers of the packets to lose, the first being 1, in rising order.
    pub(crate) numbers: Vec<u64>,
    /// Instants: of each, the first packet whose sending ends at or after it is lost. In rising order.
    pub(crate) instants: Vec<Instant>,
    seen: u64,
    rng: Option<fastrand::Rng>,
    next_number: usize,
    next_instant: usize,
}

impl Loss {
    pub(crate) fn new(
        probability: f64,
        mut numbers: Vec<u64>,
        mut instants: Vec<Instant>,
        seed: u64,
    ) -> Option<Self> {
        if probability <= 0.0 && numbers.is_empty() && instants.is_empty() {
            return None;
        }
        numbers.sort_unstable();
        instants.sort_unstable();
        let rng = (probability > 0.0).then(|| fastrand::Rng::with_seed(seed));
        Some(Self { probability, numbers, instants, seen: 0, rng, next_number: 0, next_instant: 0 })
    }

    /// Whether the wire loses the packet whose sending ends at `sent`.
    pub(crate) fn takes(&mut self, sent: Instant) -> bool {
        self.seen += 1;
        let mut lost = false;
        while self.numbers.get(self.next_number).is_some_and(|n| *n <= self.seen) {
            lost |= self.numbers[self.next_number] == self.seen;
            self.next_number += 1;
        }
        if self.instants.get(self.next_instant).is_some_and(|at| *at <= sent) {
            self.next_instant += 1;
            lost = true;
        }
        if let Some(rng) = &mut self.rng {
            // Drawn for every packet, so that scripted losses do not shift the random ones.
            lost |= rng.f64() < self.probability;
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_number_and_by_time() {
        let at = |s| Instant::from_nanos(s * 1_000_000_000);
        let mut loss = Loss::new(0.0, vec![4, 2], vec![at(7)], 1).unwrap();
        let lost: Vec<u64> = (1..=9).filter(|n| loss.takes(at(n + 1))).collect();
        // The packet that ends at 7 s is number 6.
        assert_eq!(lost, [2, 4, 6]);
        assert!(Loss::new(0.0, vec![], vec![], 1).is_none());
    }

    #[test]
    fn at_random_the_share_is_met() {
        let mut loss = Loss::new(0.1, vec![], vec![], 7).unwrap();
        let n = (0..100_000).filter(|_| loss.takes(Instant::default())).count();
        // Standard error of 100 000 draws: 95.
        assert!((9_700..10_300).contains(&n), "{n}");
    }
}
