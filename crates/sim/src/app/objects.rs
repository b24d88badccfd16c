//! Closed-loop users: each of a user's connections fetches one object after another, a new connection each time, with a
//! pause in between or back to back.

use fastrand::Rng;
use narrows_scenario::Size;
use narrows_units::Duration;

use super::lines::{Lines, Ring, own};
use super::{App, Common, Happened, RETRY, exponential};
use crate::ids::{AppId, FlowId};
use crate::world::World;

/// Users with parallel lines that know nothing of each other, as in the lab.
pub(super) struct Objects {
    lines: Lines,
    /// Random numbers, one generator per line.
    rngs: Vec<Rng>,
    users: u32,
    connections: u32,
    think: Duration,
    size: Size,
}

impl Objects {
    pub(super) const fn new(
        common: Common,
        users: u32,
        connections: u32,
        think: Duration,
        size: Size,
    ) -> Self {
        let lines = Lines::new(common, RETRY, false);
        Self { lines, rngs: Vec::new(), users, connections, think, size }
    }

    fn next(&mut self, world: &mut World, line: u32) {
        if world.now() < self.lines.common.stop {
            let rng = &mut self.rngs[line as usize];
            let size = self.size.sample(&mut || rng.f64());
            self.lines.begin(world, line, line / self.connections, size);
        }
    }
}

impl App for Objects {
    fn start(&mut self, world: &mut World, me: AppId) {
        self.lines.me = me;
        for _ in 0..self.users * self.connections {
            let line = self.lines.add();
            let mut rng = self.lines.common.rng(line);
            world.set_timer(me, own(line), self.lines.common.begins(&mut rng));
            self.rngs.push(rng);
        }
    }

    fn wake(&mut self, world: &mut World, token: u32) {
        if let Ring::Own(line) = self.lines.wake(world, token) {
            self.next(world, line);
        }
    }

    fn happened(&mut self, world: &mut World, place: FlowId, tag: u32, what: Happened) {
        if !self.lines.happened(world, place, tag, what) {
            return;
        }
        if self.think == Duration::default() {
            self.next(world, tag);
        } else {
            let pause = exponential(&mut self.rngs[tag as usize], self.think);
            world.set_timer(self.lines.me, own(tag), world.now() + pause);
        }
    }
}
