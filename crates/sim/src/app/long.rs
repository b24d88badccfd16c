//! Long flows: connections that send from their start to their stop.

use super::lines::{Lines, Ring, own};
use super::spread::Spread;
use super::{App, Common, Happened, RETRY};
use crate::ids::{AppId, FlowId};
use crate::world::World;

/// Numbers of the timers of the starts and of the stop; other timers have lower ones.
pub(super) const START: u32 = STOP - 1;
pub(super) const STOP: u32 = u32::MAX / 2;

/// Traffic of `flows` endless flows, one line each.
pub(super) struct Long {
    lines: Lines,
    flows: u32,
    starts: Spread,
}

impl Long {
    pub(super) fn new(common: Common, flows: u32) -> Self {
        let starts = Spread::new((0..flows).map(|flow| common.begins(&mut common.rng(flow))));
        Self { lines: Lines::new(common, RETRY, true), flows, starts }
    }
}

impl App for Long {
    fn start(&mut self, world: &mut World, me: AppId) {
        world.expect(self.flows);
        prepare(world, me, &mut self.lines, self.flows, &self.starts);
    }

    fn wake(&mut self, world: &mut World, token: u32) {
        match self.lines.wake(world, token) {
            Ring::Own(STOP) => self.lines.hang_up(world),
            Ring::Own(_) => {
                while let Some(flow) = self.starts.pop(world.now()) {
                    self.lines.begin(world, flow, flow, u64::MAX);
                }
                await_next(world, &self.lines, &self.starts);
            }
            Ring::Done => {}
        }
    }

    fn happened(&mut self, world: &mut World, place: FlowId, tag: u32, what: Happened) {
        self.lines.happened(world, place, tag, what);
    }
}

/// Sets the timer for the next start, unless the stop comes first.
pub(super) fn await_next(world: &mut World, lines: &Lines, starts: &Spread) {
    if let Some(at) = starts.next().filter(|at| *at < lines.common.stop) {
        world.set_timer(lines.me, own(START), at);
    }
}

/// Makes a line for each of `flows` lasting connections, and sets the timers of the first start and of the end; without
/// the latter if the flows last as long as the run.
pub(super) fn prepare(world: &mut World, me: AppId, lines: &mut Lines, flows: u32, starts: &Spread) {
    lines.me = me;
    for _ in 0..flows {
        lines.add();
    }
    await_next(world, lines, starts);
    if lines.common.stop < world.end() {
        world.set_timer(me, own(STOP), lines.common.stop);
    }
}
