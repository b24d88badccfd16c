//! Losses on a wire: at random, in bursts, by number, or by time.

use narrows_scenario::Loss as Chance;
use narrows_units::Instant;

/// Loss process of a wire. Chance and script may be combined.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    chance: Chance,
    /// Numbers of the packets to lose, the first being 1, in rising order.
    numbers: Vec<u64>,
    /// Instants: of each, the first packet whose sending ends at or after it is lost. In rising order.
    instants: Vec<Instant>,
    /// Packets so far.
    seen: u64,
    next_number: usize,
    next_instant: usize,
    /// Whether the channel of Gilbert and Elliott is in the bad state.
    bad: bool,
    rng: fastrand::Rng,
}

impl Loss {
    /// Creates the loss process; `None` for a wire that loses nothing.
    pub(crate) fn new(chance: Chance, numbers: Vec<u64>, instants: Vec<Instant>, seed: u64) -> Option<Self> {
        if chance == Chance::None && numbers.is_empty() && instants.is_empty() {
            return None;
        }
        let rng = fastrand::Rng::with_seed(seed);
        Some(Self { chance, numbers, instants, seen: 0, next_number: 0, next_instant: 0, bad: false, rng })
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
        // Drawn for every packet, so that scripted losses do not shift the random ones.
        lost | self.by_chance()
    }

    fn by_chance(&mut self) -> bool {
        match self.chance {
            Chance::None => false,
            Chance::Random(p) => self.rng.f64() < p,
            Chance::GilbertElliott { to_bad, to_good, bad, good } => {
                let change = if self.bad { to_good } else { to_bad };
                if self.rng.f64() < change {
                    self.bad = !self.bad;
                }
                self.rng.f64() < if self.bad { bad } else { good }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_number_and_by_time() {
        let at = |s| Instant::from_nanos(s * 1_000_000_000);
        let mut loss = Loss::new(Chance::None, vec![2, 4], vec![at(7)], 1).unwrap();
        let lost: Vec<u64> = (1..=9).filter(|n| loss.takes(at(n + 1))).collect();
        // The packet that ends at 7 s is number 6.
        assert_eq!(lost, [2, 4, 6]);
        assert!(Loss::new(Chance::None, vec![], vec![], 1).is_none());
    }

    #[test]
    fn at_random_the_share_is_met() {
        let mut loss = Loss::new(Chance::Random(0.1), vec![], vec![], 7).unwrap();
        let n = (0..100_000).filter(|_| loss.takes(Instant::default())).count();
        // Standard error of 100 000 draws: 95.
        assert!((9_700..10_300).contains(&n), "{n}");
    }

    #[test]
    fn bursts_are_as_long_as_the_bad_state() {
        let chance = Chance::GilbertElliott { to_bad: 0.01, to_good: 0.25, bad: 1.0, good: 0.0 };
        let mut loss = Loss::new(chance, vec![], vec![], 7).unwrap();
        let lost: Vec<bool> = (0..200_000).map(|_| loss.takes(Instant::default())).collect();
        let (all, bursts) =
            (lost.iter().filter(|l| **l).count(), lost.windows(2).filter(|w| !w[0] && w[1]).count());
        // In the bad state for 0.01 / 0.26 of the time, for 4 packets on average; 3 standard errors are about 10 %.
        let (share, length) = (all as f64 / 200_000.0, all as f64 / bursts as f64);
        assert!((share - 0.0385).abs() < 0.004 && (length - 4.0).abs() < 0.4, "{share} {length}");
    }
}
