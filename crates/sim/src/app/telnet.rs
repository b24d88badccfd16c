//! Keystrokes: small writes at exponential gaps over connections that last.
//!
//! The gaps are exponential rather than tcplib's (Danzig and Jamin, 1991): where this traffic is used it only keeps other
//! flows from falling into step.

use fastrand::Rng;
use narrows_units::Duration;

use super::lines::{Lines, Ring, own};
use super::long::{is_stop, stop_before_the_end};
use super::{App, Common, Happened, RETRY, exponential};
use crate::world::World;

/// Who types.
pub(super) struct Telnet {
    lines: Lines,
    /// One for each flow; a flow that has started has a connection or will try for one.
    flows: Vec<(Rng, bool)>,
    interval: Duration,
    bytes: u64,
}

impl Telnet {
    pub(super) fn new(mut common: Common, flows: u32, interval: Duration, bytes: u64) -> Self {
        // There is always more to come.
        common.close = false;
        let flows = (0..flows).map(|f| (common.rng(f), false)).collect();
        Self { lines: Lines::new(common, RETRY, true), flows, interval, bytes }
    }

    fn type_on(&mut self, world: &mut World, flow: u32) {
        let (rng, started) = &mut self.flows[flow as usize];
        let pause = exponential(rng, self.interval);
        if !core::mem::replace(started, true) {
            self.lines.begin(world, flow, flow, 0);
        } else if let Some(place) = self.lines.place(flow) {
            world.write(place, self.bytes);
        }
        world.set_timer(self.lines.me, own(flow), world.now() + pause);
    }
}

impl App for Telnet {
    fn start(&mut self, world: &mut World, me: u32) {
        self.lines.me = me;
        for (number, (rng, _)) in (0..).zip(&mut self.flows) {
            self.lines.add();
            world.set_timer(me, own(number), self.lines.common.begins(rng));
        }
        stop_before_the_end(world, me, &self.lines);
    }

    fn wake(&mut self, world: &mut World, token: u32) {
        match self.lines.wake(world, token) {
            Ring::Own(number) if is_stop(number) => self.lines.hang_up(world),
            Ring::Own(flow) if world.now() < self.lines.common.stop => self.type_on(world, flow),
            _ => {}
        }
    }

    fn happened(&mut self, world: &mut World, place: u32, tag: u32, what: Happened) {
        // What was typed has arrived; the connection stays.
        if what == Happened::Failed {
            self.lines.happened(world, place, tag, what);
        }
    }
}
