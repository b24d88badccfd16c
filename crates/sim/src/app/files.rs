//! Sized files: one connection each, at random starts or as a Poisson process (open loop: nobody waits for anybody).

use fastrand::Rng;
use narrows_scenario::Size;
use narrows_units::{Duration, Instant};

use super::lines::{Lines, Ring, own};
use super::spread::Spread;
use super::{App, Common, Happened, RETRY, exponential};
use crate::ids::{AppId, FlowId};
use crate::world::World;

/// When the files start that have not yet.
enum Starts {
    /// Uniformly at random within the jitter.
    Spread(Spread),
    /// Poisson starts with exponential gaps of this mean: start and number of the next file, and the number of files.
    Poisson { mean: Duration, next: (Instant, u32), flows: u32 },
}

/// Files, each with its own start and size, whatever the network makes of the others.
pub(super) struct Files {
    lines: Lines,
    /// Lines without a file.
    free: Vec<u32>,
    starts: Starts,
    users: u32,
    size: Size,
    /// Starts, then sizes in the order of starts.
    rng: Rng,
}

impl Files {
    pub(super) fn new(
        common: Common,
        flows: Option<u32>,
        arrivals: Option<f64>,
        users: u32,
        size: Size,
    ) -> Self {
        let mut rng = common.rng(0);
        let starts = if let Some(rate) = arrivals {
            let mean = Duration::from_nanos((1e9 / rate).round() as u64);
            Starts::Poisson { mean, next: (common.start, 0), flows: flows.unwrap_or(u32::MAX) }
        } else {
            Starts::Spread(Spread::new((0..flows.unwrap_or(0)).map(|_| common.begins(&mut rng))))
        };
        let lines = Lines::new(common, RETRY, false);
        Self { lines, free: Vec::new(), starts, users: users.max(1), size, rng }
    }

    /// Sets the timer for the next file.
    fn await_next(&mut self, world: &mut World) {
        let at = match &mut self.starts {
            Starts::Spread(starts) => starts.next(),
            Starts::Poisson { next, flows, .. } if next.1 >= *flows => None,
            Starts::Poisson { mean, next, .. } => {
                next.0 += exponential(&mut self.rng, *mean);
                Some(next.0)
            }
        };
        if let Some(at) = at.filter(|at| *at < self.lines.common.stop) {
            world.set_timer(self.lines.me, own(0), at);
        }
    }

    /// The number of the file that starts now.
    fn next(&mut self, now: Instant) -> Option<u32> {
        match &mut self.starts {
            Starts::Spread(starts) => starts.pop(now),
            Starts::Poisson { next, .. } => {
                next.1 += 1;
                Some(next.1 - 1)
            }
        }
    }
}

impl App for Files {
    fn start(&mut self, world: &mut World, me: AppId) {
        self.lines.me = me;
        self.await_next(world);
    }

    fn wake(&mut self, world: &mut World, token: u32) {
        let Ring::Own(_) = self.lines.wake(world, token) else { return };
        let Some(file) = self.next(world.now()) else { return };
        let size = self.size.sample(&mut || self.rng.f64());
        let line = self.free.pop().unwrap_or_else(|| self.lines.add());
        self.lines.begin(world, line, file % self.users, size);
        self.await_next(world);
    }

    fn happened(&mut self, world: &mut World, place: FlowId, tag: u32, what: Happened) {
        if self.lines.happened(world, place, tag, what) {
            self.free.push(tag);
        }
    }
}
