//! The dice of disciplines that drop or mark by chance: numbers that follow from the seed given, the same on every
//! machine.
//!
//! `SplitMix64` (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014): one addition, two
//! multiplications, every seed as good as any other. Not for secrets.

use crate::Ppm;

/// Random numbers from a seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

/// 2^64 divided by the golden ratio, odd: the published increment.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Dice {
    /// The sequence of random numbers that `seed` gives.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, 0 if `n` is 0. The product's upper half instead of a remainder (Lemire 2019): its bias is at
    /// most n / 2^64.
    pub const fn below(&mut self, n: u64) -> u64 {
        ((self.roll() as u128 * n as u128) >> 64) as u64
    }

    /// True with probability `p`.
    pub const fn chance(&mut self, p: Ppm) -> bool {
        self.below(Ppm::ONE.0 as u64) < p.0 as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        // The first numbers of seed 1234567, as listed with the reference implementation (Vigna, splitmix64.c) at
        // Rosetta Code.
        let mut dice = Dice::new(1_234_567);
        let first: Vec<u64> = (0..5).map(|_| dice.roll()).collect();
        let listed = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(first, listed);
    }

    #[test]
    fn chance_and_range() {
        let mut dice = Dice::new(1);
        let hits = (0..100_000).filter(|_| dice.chance(Ppm(20_000))).count();
        // Binomial: mean 2000, deviation 44.
        assert!((1800..2200).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| dice.below(7) < 7 && dice.below(0) == 0));
        assert!(!dice.chance(Ppm(0)) && dice.chance(Ppm::ONE));
    }
}
