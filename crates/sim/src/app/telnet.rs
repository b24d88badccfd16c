//! Keystrokes: small writes at exponential gaps over connections that last.
//!
//! The gaps are exponential rather than tcplib's (Danzig and Jamin, 1991): where this traffic is used it only keeps
//! other flows from falling into step.

use fastrand::Rng;
use narrows_units::Duration;

use super::lines::{Lines, Ring, own};
use super::long::{START, STOP, await_next, prepare};
use super::spread::Spread;
use super::{App, Common, Happened, RETRY, exponential};
use crate::ids::{AppId, FlowId};
use crate::world::World;

/// Traffic of users who type: one connection per flow, small writes at random gaps.
pub(super) struct Telnet {
    lines: Lines,
    /// Random numbers, one generator per flow.
    rngs: Vec<Rng>,
    starts: Spread,
    interval: Duration,
    bytes: u64,
}

impl Telnet {
    pub(super) fn new(mut common: Common, flows: u32, interval: Duration, bytes: u64) -> Self {
        // Connections stay open: more keystrokes always follow.
        common.close = false;
        let mut rngs: Vec<Rng> = (0..flows).map(|flow| common.rng(flow)).collect();
        let starts = Spread::new(rngs.iter_mut().map(|rng| common.begins(rng)));
        Self { lines: Lines::new(common, RETRY, true), rngs, starts, interval, bytes }
    }

    fn await_key(&mut self, world: &mut World, flow: u32) {
        let pause = exponential(&mut self.rngs[flow as usize], self.interval);
        world.set_timer(self.lines.me, own(flow), world.now() + pause);
    }
}

impl App for Telnet {
    fn start(&mut self, world: &mut World, me: AppId) {
        let flows = u32::try_from(self.rngs.len()).unwrap_or(u32::MAX);
        world.expect(flows);
        prepare(world, me, &mut self.lines, flows, &self.starts);
    }

    fn wake(&mut self, world: &mut World, token: u32) {
        match self.lines.wake(world, token) {
            Ring::Own(STOP) => self.lines.hang_up(world),
            Ring::Own(START) => {
                while let Some(flow) = self.starts.pop(world.now()) {
                    self.lines.begin(world, flow, flow, 0);
                    self.await_key(world, flow);
                }
                await_next(world, &self.lines, &self.starts);
            }
            Ring::Own(flow) if world.now() < self.lines.common.stop => {
                if let Some(place) = self.lines.place(flow) {
                    world.write(place, self.bytes);
                }
                self.await_key(world, flow);
            }
            _ => {}
        }
    }

    fn happened(&mut self, world: &mut World, place: FlowId, tag: u32, what: Happened) {
        // A delivered keystroke needs no action, since the connection stays; only failures are handled.
        if what == Happened::Failed {
            self.lines.happened(world, place, tag, what);
        }
    }
}
