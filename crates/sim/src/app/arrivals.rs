//! Arrivals of users by a Poisson process, independent of those before them: the instants, and the address of each
//! user.

use fastrand::Rng;
use narrows_scenario::Addresses;
use narrows_units::{Duration, Instant};

use super::lines::own;
use super::{Common, exponential};
use crate::ids::AppId;
use crate::world::World;

/// The generator of arrivals, which no connection has.
const ARRIVALS: u32 = u32::MAX;
/// Timer token of the next arrival. Tokens of users who have arrived begin above it.
pub(super) const NEXT: u32 = 0;

/// Generator of arriving users: draws the instants and gives each user an address.
#[derive(Debug)]
pub(super) struct Arrivals {
    addresses: Addresses,
    /// Mean time between two arrivals.
    mean: Duration,
    rng: Rng,
    /// Time at which the next user comes, and the number of users that came.
    next: Instant,
    came: u32,
    /// Records of users who have left, free for reuse.
    free: Vec<u32>,
}

/// A user who has just arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub(super) address: u32,
    /// Number of users who came before.
    pub(super) number: u32,
    /// Record of a user who has left, for reuse; `None` if there is none.
    pub(super) record: Option<u32>,
}

impl Arrivals {
    /// Creates a generator of `rate` arrivals per second, for `users` addresses.
    pub(super) fn new(common: &Common, rate: f64, users: u32) -> Self {
        Self {
            addresses: Addresses::new(users),
            mean: Duration::from_nanos((1e9 / rate).round() as u64),
            rng: common.rng(ARRIVALS),
            next: common.start,
            came: 0,
            free: Vec::new(),
        }
    }

    /// Sets application `me`'s timer [`NEXT`], if there is a next one before `stop`.
    pub(super) fn await_next(&mut self, world: &mut World, me: AppId, stop: Instant) {
        self.next += exponential(&mut self.rng, self.mean);
        if self.next < stop {
            world.set_timer(me, own(NEXT), self.next);
        }
    }

    /// Lets a user arrive.
    pub(super) fn come(&mut self) -> Came {
        let number = self.came;
        self.came += 1;
        Came { address: self.addresses.take(), number, record: self.free.pop() }
    }

    /// Takes back the address and the record of a user who leaves.
    pub(super) fn go(&mut self, address: u32, record: u32) {
        self.addresses.give_back(address);
        self.free.push(record);
    }
}
