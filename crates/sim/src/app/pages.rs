//! Sessions of pages: a page's own object comes first and alone, since it names the others; these follow over as many
//! parallel connections as the user has, each object on a new connection; then the user reads.

use fastrand::Rng;
use narrows_scenario::Size;
use narrows_units::Duration;

use super::lines::{Lines, Ring, own};
use super::{App, Common, Happened, RETRY, exponential};
use crate::world::World;

/// A user and the page before it.
struct User {
    rng: Rng,
    /// Objects that have no connection yet.
    left: u64,
    /// Objects on their way.
    busy: u32,
}

/// Users who read pages.
pub(super) struct Pages {
    lines: Lines,
    users: Vec<User>,
    connections: u32,
    objects: Size,
    size: Size,
    think: Duration,
}

impl Pages {
    pub(super) fn new(
        common: Common,
        [users, connections]: [u32; 2],
        objects: Size,
        size: Size,
        think: Duration,
    ) -> Self {
        let users = (0..users).map(|u| User { rng: common.rng(u), left: 0, busy: 0 }).collect();
        Self { lines: Lines::new(common, RETRY, false), users, connections, objects, size, think }
    }

    /// The user turns to a page.
    fn turn(&mut self, world: &mut World, user: u32) {
        if world.now() >= self.lines.common.stop {
            return;
        }
        let u = &mut self.users[user as usize];
        u.left = self.objects.sample(&mut || u.rng.f64()).max(1);
        self.fetch(world, user, user * self.connections);
    }

    /// Fetches the next object of the user's page.
    fn fetch(&mut self, world: &mut World, user: u32, line: u32) {
        let u = &mut self.users[user as usize];
        u.left -= 1;
        u.busy += 1;
        let size = self.size.sample(&mut || u.rng.f64());
        self.lines.begin(world, line, user, size);
    }

    /// An object is there: the next ones follow, or the page is whole.
    fn go_on(&mut self, world: &mut World, user: u32) {
        self.users[user as usize].busy -= 1;
        if world.now() >= self.lines.common.stop {
            return;
        }
        for line in user * self.connections..(user + 1) * self.connections {
            if self.users[user as usize].left > 0 && self.lines.is_free(line) {
                self.fetch(world, user, line);
            }
        }
        let u = &mut self.users[user as usize];
        if u.busy > 0 {
            return;
        }
        if self.think == Duration::default() {
            self.turn(world, user);
        } else {
            let pause = exponential(&mut u.rng, self.think);
            world.set_timer(self.lines.me, own(user), world.now() + pause);
        }
    }
}

impl App for Pages {
    fn start(&mut self, world: &mut World, me: u32) {
        self.lines.me = me;
        for (number, user) in (0..).zip(&mut self.users) {
            for _ in 0..self.connections {
                self.lines.add();
            }
            world.set_timer(me, own(number), self.lines.common.begins(&mut user.rng));
        }
    }

    fn wake(&mut self, world: &mut World, token: u32) {
        if let Ring::Own(user) = self.lines.wake(world, token) {
            self.turn(world, user);
        }
    }

    fn happened(&mut self, world: &mut World, place: u32, tag: u32, what: Happened) {
        if self.lines.happened(world, place, tag, what) {
            self.go_on(world, tag / self.connections);
        }
    }
}
