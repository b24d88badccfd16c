//! Bucket of a flow: a seeded hash of its key over a number of buckets, whose seed may change now and then.
//!
//! Idea: McKenney, Stochastic Fairness Queuing, INFOCOM 1990: with fewer queues than flows two flows may share one; a
//! hash that changes every few seconds ("perturbation") lets no pair suffer for long. A fresh seed from the driver also
//! keeps anybody from choosing ports that fall together.
//!
//! Where we differ: the paper lets packets of a flow that waited at the change be overtaken by later ones. Here
//! [`Buckets::changed`] tells the discipline, which then moves what waits, flow by flow in order, before it hashes
//! anything else.

use narrows_units::{Duration, Instant};
use narrows_wire::FlowKey;

use crate::Dice;

/// A seeded hash of flows into buckets.
#[derive(Clone, Debug)]
pub struct Buckets {
    count: u32,
    salt: u64,
    dice: Dice,
    every: Option<Duration>,
    /// Time of the next change of the salt; known after the first packet.
    change_at: Option<Instant>,
}

impl Buckets {
    /// `count` buckets (at least one) under a hash that never changes.
    #[must_use]
    pub fn new(count: u32, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        Self { count: count.max(1), salt: dice.roll(), dice, every: None, change_at: None }
    }

    /// Changes the hash each `every`; zero means never.
    #[must_use]
    pub fn perturbed(mut self, every: Duration) -> Self {
        self.every = (every > Duration::ZERO).then_some(every);
        self
    }

    /// Number of buckets.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// The bucket of a flow, below [`Buckets::count`].
    #[must_use]
    pub fn of(&self, key: &FlowKey) -> usize {
        // The upper half of a product spreads over any count, not only powers of two, without a division.
        (((key.hash(self.salt) >> 32) * u64::from(self.count)) >> 32) as usize
    }

    /// The bucket of a host: all that has this address where the discipline looks.
    #[must_use]
    pub fn of_host(&self, host: core::net::IpAddr) -> usize {
        self.of(&FlowKey::new(host, host, 0, 0, narrows_wire::Proto(0)))
    }

    /// Changes the hash if the hash's time is over: then `true`, and whatever waits belongs where [`Buckets::of`] says
    /// now. To be asked on arrivals only: a driver that also polls must not move the change.
    pub fn changed(&mut self, now: Instant) -> bool {
        let Some(every) = self.every else { return false };
        let due = *self.change_at.get_or_insert(now + every);
        if now < due {
            return false;
        }
        self.salt = self.dice.roll();
        self.change_at = Some(now + every);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_wire::Proto;

    fn key(n: u16) -> FlowKey {
        FlowKey::new([192, 0, 2, 1].into(), [10, 0, (n >> 8) as u8, n as u8].into(), 80, n, Proto::TCP)
    }

    #[test]
    fn flows_spread_evenly_over_any_number_of_buckets() {
        for count in [1, 3, 16, 127, 1024] {
            let buckets = Buckets::new(count, 7);
            let mut filled = vec![0u32; count as usize];
            for n in 0..10_000 {
                filled[buckets.of(&key(n))] += 1;
            }
            // Chi-squared with count - 1 degrees of freedom: mean count - 1, deviation sqrt(2 (count - 1)); five of
            // them.
            let due = 10_000.0 / f64::from(count);
            let chi: f64 = filled.iter().map(|&n| (f64::from(n) - due).powi(2) / due).sum();
            let free = f64::from(count) - 1.0;
            assert!(chi <= free + 5.0 * (2.0 * free).sqrt(), "{count}: {chi}");
        }
    }

    #[test]
    fn another_seed_and_another_period_part_flows_that_met() {
        let (a, b) = (Buckets::new(64, 1), Buckets::new(64, 2));
        let pairs = |x: &Buckets| (1..2000).filter(|&n| x.of(&key(n)) == x.of(&key(0))).collect::<Vec<_>>();
        let both = pairs(&a).iter().filter(|n| pairs(&b).contains(n)).count();
        // 2000 flows meet flow 0 with 1/64, in both with 1/4096.
        assert!(pairs(&a).len() > 10 && both < 5, "{both}");

        let mut p = Buckets::new(64, 1).perturbed(Duration::from_secs(10));
        let before = pairs(&p);
        assert!(!p.changed(Instant::from_nanos(5)), "the period begins with the first packet");
        assert!(!p.changed(Instant::from_nanos(10_000_000_004)));
        assert_eq!(pairs(&p), before);
        assert!(p.changed(Instant::from_nanos(10_000_000_005)));
        assert!(before.iter().filter(|n| pairs(&p).contains(n)).count() < 5);
        assert!(!p.changed(Instant::from_nanos(20_000_000_004)));
        assert!(!Buckets::new(64, 1).perturbed(Duration::ZERO).changed(Instant::FAR_FUTURE));
    }
}
