//! Users who come by a Poisson process, whatever became of those before them: when, and which address each has.

use fastrand::Rng;
use narrows_scenario::Addresses;
use narrows_units::{Duration, Instant};

use super::lines::own;
use super::{Common, exponential};
use crate::ids::AppId;
use crate::world::World;

/// The generator of arrivals, which no connection has.
const ARRIVALS: u32 = u32::MAX;
/// The number of the timer for the next one. Timers of those who came begin above it.
pub(super) const NEXT: u32 = 0;

/// Who comes.
#[derive(Debug)]
pub(super) struct Arrivals {
    addresses: Addresses,
    /// Of the times between two.
    mean: Duration,
    rng: Rng,
    /// When the next one comes, and how many came.
    next: Instant,
    came: u32,
    /// Records of those who have gone.
    free: Vec<u32>,
}

/// One who came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub(super) address: u32,
    /// How many came before.
    pub(super) number: u32,
    /// The record of one who has gone, for this one; `None` if there is none.
    pub(super) record: Option<u32>,
}

impl Arrivals {
    /// So many a second, for so many addresses.
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

    /// Somebody comes.
    pub(super) fn come(&mut self) -> Came {
        let number = self.came;
        self.came += 1;
        Came { address: self.addresses.take(), number, record: self.free.pop() }
    }

    /// Who had this address and record goes.
    pub(super) fn go(&mut self, address: u32, record: u32) {
        self.addresses.give_back(address);
        self.free.push(record);
    }
}
