//! Lines: what carries one object at a time over a connection of its own, and tries again until the connection stands.
//!
//! As the lab's users do it: a connection that fails before it is established is opened anew after a pause, and the
//! time of the object runs from the first attempt. One that breaks later is a loss the user lives with, unless the line
//! is there to stay. An object is done when its last byte is with the receiver; its connection then closes on its own
//! while the line takes the next object.

use narrows_units::Duration;

use super::{Common, Fetch, Happened};
use crate::ids::{AppId, FlowId};
use crate::world::World;

/// State of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// The connection at the place given carries the object.
    Carrying(FlowId),
    /// The connection failed; a timer will try again.
    Waiting,
}

#[derive(Clone, Copy, Debug)]
struct FetchLoop {
    fetch: Fetch,
    state: State,
}

/// The lines of an application. Even timer tokens are theirs; odd ones are the application's.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) common: Common,
    pub(super) me: AppId,
    lines: Vec<FetchLoop>,
    retry: Duration,
    /// Whether a broken connection, too, is opened anew.
    steadfast: bool,
}

/// The timer of line `number` that belongs to the application.
pub(super) const fn own(number: u32) -> u32 {
    number * 2 + 1
}

/// Owner of the timer that rang.
pub(super) enum Ring {
    /// A timer of a line, which the line has dealt with.
    Done,
    /// A timer of the application, with the number that the application gave.
    Own(u32),
}

impl Lines {
    pub(super) const fn new(common: Common, retry: Duration, steadfast: bool) -> Self {
        Self { common, me: AppId(0), lines: Vec::new(), retry, steadfast }
    }

    /// Adds a line and returns the line's number.
    pub(super) fn add(&mut self) -> u32 {
        let fetch = Fetch { user: 0, size: 0, since: self.common.start, retries: 0 };
        self.lines.push(FetchLoop { fetch, state: State::Free });
        u32::try_from(self.lines.len() - 1).expect("a scenario is checked to have fewer connections")
    }

    pub(super) fn is_free(&self, line: u32) -> bool {
        self.lines[line as usize].state == State::Free
    }

    /// The connection of a line; `None` if the line has no connection.
    pub(super) fn place(&self, line: u32) -> Option<FlowId> {
        match self.lines[line as usize].state {
            State::Carrying(place) => Some(place),
            _ => None,
        }
    }

    /// Gives a free line an object to carry.
    pub(super) fn begin(&mut self, world: &mut World, line: u32, user: u32, size: u64) {
        self.lines[line as usize].fetch = Fetch { user, size, since: world.now(), retries: 0 };
        self.open(world, line);
    }

    fn open(&mut self, world: &mut World, line: u32) {
        let fetch = self.lines[line as usize].fetch;
        let place = self.common.open(world, self.me, &fetch, line);
        self.lines[line as usize].state = State::Carrying(place);
    }

    /// A timer is due.
    pub(super) fn wake(&mut self, world: &mut World, token: u32) -> Ring {
        if token % 2 == 1 {
            return Ring::Own(token / 2);
        }
        if self.lines[(token / 2) as usize].state == State::Waiting {
            self.open(world, token / 2);
        }
        Ring::Done
    }

    /// Looks after a connection of `line`. Tells whether the line has become free.
    pub(super) fn happened(&mut self, world: &mut World, place: FlowId, line: u32, what: Happened) -> bool {
        let current = self.place(line) == Some(place);
        match what {
            Happened::Delivered => {
                if current {
                    self.lines[line as usize].state = State::Free;
                }
                return current;
            }
            Happened::Acked => {
                if !self.common.close {
                    world.retire(place);
                }
            }
            Happened::Closed => world.retire(place),
            Happened::Failed => {
                let broken = world.connections[place.index()].stats.established.come().is_some();
                world.retire(place);
                // A failure after delivery of the whole object costs the user nothing.
                return current && self.failed(world, line, broken);
            }
        }
        false
    }

    fn failed(&mut self, world: &mut World, line: u32, broken: bool) -> bool {
        let state = &mut self.lines[line as usize];
        if broken && !self.steadfast {
            state.state = State::Free;
            return true;
        }
        state.state = State::Waiting;
        state.fetch.retries += 1;
        world.set_timer(self.me, line * 2, world.now() + self.retry);
        false
    }

    /// Drops all connections: the users go away.
    pub(super) fn hang_up(&mut self, world: &mut World) {
        for line in &mut self.lines {
            if let State::Carrying(place) = line.state {
                world.retire(place);
            }
            line.state = State::Free;
        }
    }
}
