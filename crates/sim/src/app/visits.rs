//! An open loop: users come by a Poisson process, fetch so many objects over each of their connections, a new one each
//! time, with a pause in between, and go, whatever became of those before them.

use fastrand::Rng;
use narrows_scenario::{Size, Visits as Rates};
use narrows_units::Duration;

use super::arrivals::{Arrivals, NEXT};
use super::lines::{Lines, Ring, own};
use super::{App, Common, Happened, RETRY, exponential};
use crate::ids::{AppId, FlowId};
use crate::world::World;

/// A user who has arrived. After departure the record and its lines serve another user.
#[derive(Debug)]
struct Visitor {
    address: u32,
    /// Lines that have not fetched all.
    busy: u32,
}

/// Work that a line has still to do.
#[derive(Debug)]
struct Errand {
    rng: Rng,
    /// Objects that the line has not begun.
    left: u32,
}

/// Users who come and go.
pub(super) struct Visits {
    lines: Lines,
    /// Work of each line; visitor v has the lines from v times `connections` on.
    errands: Vec<Errand>,
    visitors: Vec<Visitor>,
    arrivals: Arrivals,
    connections: u32,
    fetches: u32,
    think: Duration,
    size: Size,
}

impl Visits {
    pub(super) fn new(
        common: Common,
        rates: Rates,
        [users, connections]: [u32; 2],
        think: Duration,
        size: Size,
    ) -> Self {
        Self {
            arrivals: Arrivals::new(&common, rates.arrivals, users),
            lines: Lines::new(common, RETRY, false),
            errands: Vec::new(),
            visitors: Vec::new(),
            connections,
            fetches: rates.fetches,
            think,
            size,
        }
    }

    fn await_next(&mut self, world: &mut World) {
        self.arrivals.await_next(world, self.lines.me, self.lines.common.stop);
    }

    /// Lets a user arrive, who begins at once on all connections.
    fn come(&mut self, world: &mut World) {
        let came = self.arrivals.come();
        let visitor = Visitor { address: came.address, busy: self.connections };
        let at = if let Some(at) = came.record {
            self.visitors[at as usize] = visitor;
            at
        } else {
            self.visitors.push(visitor);
            u32::try_from(self.visitors.len() - 1).expect("a scenario is checked to have fewer visits")
        };
        for i in 0..self.connections {
            let line = at * self.connections + i;
            let rng = self.lines.common.rng(came.number.wrapping_mul(self.connections).wrapping_add(i));
            let errand = Errand { rng, left: self.fetches };
            if line as usize == self.errands.len() {
                self.lines.add();
                self.errands.push(errand);
            } else {
                self.errands[line as usize] = errand;
            }
            self.fetch(world, line);
        }
    }

    fn fetch(&mut self, world: &mut World, line: u32) {
        if world.now() >= self.lines.common.stop {
            return;
        }
        let errand = &mut self.errands[line as usize];
        errand.left -= 1;
        let size = self.size.sample(&mut || errand.rng.f64());
        let address = self.visitors[(line / self.connections) as usize].address;
        self.lines.begin(world, line, address, size);
    }

    /// Notes that a line has fetched all its objects. A user without a busy line goes.
    fn finish(&mut self, line: u32) {
        let at = line / self.connections;
        let visitor = &mut self.visitors[at as usize];
        visitor.busy -= 1;
        if visitor.busy == 0 {
            self.arrivals.go(visitor.address, at);
        }
    }
}

impl App for Visits {
    fn start(&mut self, world: &mut World, me: AppId) {
        self.lines.me = me;
        self.await_next(world);
    }

    fn wake(&mut self, world: &mut World, token: u32) {
        match self.lines.wake(world, token) {
            Ring::Done => {}
            Ring::Own(NEXT) => {
                self.come(world);
                self.await_next(world);
            }
            Ring::Own(line) => self.fetch(world, line - 1),
        }
    }

    fn happened(&mut self, world: &mut World, place: FlowId, tag: u32, what: Happened) {
        if !self.lines.happened(world, place, tag, what) {
            return;
        }
        let errand = &mut self.errands[tag as usize];
        if errand.left == 0 {
            self.finish(tag);
        } else if self.think == Duration::default() {
            self.fetch(world, tag);
        } else {
            let pause = exponential(&mut errand.rng, self.think);
            world.set_timer(self.lines.me, own(tag + 1), world.now() + pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_scenario::{TrafficKind, Visits as Rates, Web};

    use super::*;
    use crate::app::tests::{run, scenario, traffic};

    /// 2 users a second for 200 s, 3 objects of 1000 bytes each over each of 2 connections, a pause of 2 s between.
    #[test]
    fn users_come_fetch_read_and_go() {
        let (size, think) = (Size::Fixed(1000), Duration::from_secs(2));
        let objects = traffic(TrafficKind::Objects { users: 40, connections: 2, think, size });
        let visits = Some(Rates { arrivals: 2.0, fetches: 3 });
        let open = narrows_scenario::Traffic {
            web: Web { visits, ..Web::default() },
            start: Duration::ZERO,
            stop: Duration::from_secs(200),
            ..objects
        };
        let (world, history) = run(&scenario(300, vec![open]), 1);
        // 400 users, whose number has a standard deviation of 20, and nearly all that they came for: nothing is begun
        // after the end.
        let done: Vec<_> = history.delivered().collect();
        assert!((320 * 6..=480 * 6).contains(&done.len()), "{}", done.len());
        // Each is there for two pauses and three objects: 4 s, so that 8 are there at a time. Of 40 addresses nobody
        // shares one, and each is had in turn.
        assert!(history.most <= 2, "{}", history.most);
        let mut users: Vec<_> = done.iter().map(|s| s.user).collect();
        users.sort_unstable();
        users.dedup();
        assert_eq!(users, (0..40).collect::<Vec<_>>());
        let first: Vec<_> = done.iter().filter(|s| s.user == 0).take(6).collect();
        assert!(first.iter().all(|s| s.hosts == first[0].hosts) && first[5].at > first[0].at);
        assert_eq!(world.connections.iter().filter(|c| c.live).count(), 0, "all have gone");
    }
}
