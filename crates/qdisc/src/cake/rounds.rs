//! The rounds to come, each with the list of the flows whose turn will be then.

use narrows_lists::{Links, List};

const BITS: u32 = u64::BITS;
const WORDS: u32 = 16;
/// Rounds in sight.
pub const ROUNDS: u32 = WORDS * BITS;

/// A list for each round, over and over.
#[derive(Debug)]
pub struct Rounds {
    lists: Box<[List]>,
    /// A bit for each list that is not empty.
    filled: [u64; WORDS as usize],
    now: u32,
}

impl Rounds {
    pub fn new() -> Self {
        Self { lists: vec![List::EMPTY; ROUNDS as usize].into(), filled: [0; WORDS as usize], now: 0 }
    }

    /// The present round.
    pub const fn now(&self) -> u32 {
        self.now
    }

    /// Puts a flow at the end of `round`, less than [`ROUNDS`] after the present one.
    pub fn push(&mut self, links: &mut [Links], round: u32, at: u32) {
        let slot = round % ROUNDS;
        self.lists[slot as usize].push_back(links, at);
        self.filled[(slot / BITS) as usize] |= 1 << (slot % BITS);
    }

    /// Takes a flow out of `round`.
    pub fn remove(&mut self, links: &mut [Links], round: u32, at: u32) {
        let slot = round % ROUNDS;
        let list = &mut self.lists[slot as usize];
        list.remove(links, at);
        if list.is_empty() {
            self.filled[(slot / BITS) as usize] &= !(1 << (slot % BITS));
        }
    }

    /// Goes on to the nearest round in which any queue has a turn; returns the first such queue.
    pub fn next(&mut self) -> Option<u32> {
        let here = self.now % ROUNDS;
        let (word, bit) = (here / BITS, here % BITS);
        let rest = self.filled[word as usize] >> bit;
        let ahead = if rest == 0 {
            let bits = |n: u32| self.filled[((word + n) % WORDS) as usize];
            let n = (1..=WORDS).find(|&n| bits(n) != 0)?;
            n * BITS + bits(n).trailing_zeros() - bit
        } else {
            rest.trailing_zeros()
        };
        self.now = self.now.wrapping_add(ahead);
        self.lists[(self.now % ROUNDS) as usize].first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_come_in_order_and_over_again() {
        let (mut rounds, mut links) = (Rounds::new(), [Links::NONE; 8]);
        assert_eq!(rounds.next(), None);
        // In the present round, in the same word, in the next, in the last but one, and again in the first, before the
        // present one's bit.
        for start in [0, 37, 63, 64, 1000, 1_000_000, u32::MAX - 100] {
            rounds.now = start;
            let due = [0, 1, 1, 40, 64, 130, 959, 1023].map(|n: u32| start.wrapping_add(n));
            (0..8).for_each(|at| rounds.push(&mut links, due[at as usize], at));
            for at in 0..8 {
                assert_eq!(rounds.next(), Some(at));
                assert_eq!(rounds.now(), due[at as usize]);
                rounds.remove(&mut links, rounds.now(), at);
            }
            assert_eq!((rounds.next(), rounds.filled), (None, [0; 16]));
        }
    }
}
