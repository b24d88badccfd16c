//! Long flows: connections that send from their start to their stop.

use super::lines::{Lines, Ring, own};
use super::{App, Common, Happened, RETRY};
use crate::world::World;

/// Tells the stop from the flows' starts, of which there are fewer.
const STOP: u32 = u32::MAX / 2;

/// So many flows without end, one line each.
pub(super) struct Long {
    lines: Lines,
    flows: u32,
}

impl Long {
    pub(super) const fn new(common: Common, flows: u32) -> Self {
        Self { lines: Lines::new(common, RETRY, true), flows }
    }
}

impl App for Long {
    fn start(&mut self, world: &mut World, me: u32) {
        self.lines.me = me;
        for flow in 0..self.flows {
            let line = self.lines.add();
            let at = self.lines.common.begins(&mut self.lines.common.rng(flow));
            world.set_timer(me, own(line), at);
        }
        stop_before_the_end(world, me, &self.lines);
    }

    fn wake(&mut self, world: &mut World, token: u32) {
        match self.lines.wake(world, token) {
            Ring::Own(STOP) => self.lines.hang_up(world),
            Ring::Own(flow) if world.now() < self.lines.common.stop => {
                self.lines.begin(world, flow, flow, u64::MAX);
            }
            _ => {}
        }
    }

    fn happened(&mut self, world: &mut World, place: u32, tag: u32, what: Happened) {
        self.lines.happened(world, place, tag, what);
    }
}

/// Sets the timer that ends lasting connections, unless they last as long as the run.
pub(super) fn stop_before_the_end(world: &mut World, me: u32, lines: &Lines) {
    if lines.common.stop < world.end() {
        world.set_timer(me, own(STOP), lines.common.stop);
    }
}

/// Whether a number is that of the stop.
pub(super) const fn is_stop(number: u32) -> bool {
    number == STOP
}
