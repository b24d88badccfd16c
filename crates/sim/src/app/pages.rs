//! Pages: a page's own object comes first and alone, since it names the others; these follow over as many parallel
//! connections as the user has, each object on a new connection; then the user reads. In a closed loop without end; in
//! an open one users come by a Poisson process, load so many, and go.

use fastrand::Rng;
use narrows_scenario::{Size, Visits};
use narrows_units::Duration;

use super::arrivals::{Arrivals, NEXT};
use super::lines::{Lines, Ring, own};
use super::{App, Common, Happened, RETRY, exponential};
use crate::ids::{AppId, FlowId};
use crate::world::World;

/// A user and the page before it. Where users go, the record and the lines that belong to it are another's then.
struct Reader {
    rng: Rng,
    address: u32,
    /// Pages the user has not turned to yet; `None` for a user who never leaves.
    pages: Option<u32>,
    /// Number of the page in the probes.
    page: u32,
    /// Whether every object of the page that has ended came whole.
    whole: bool,
    /// Objects that have no connection yet.
    left: u64,
    /// Objects of the page on their way.
    busy: u32,
}

/// Open loop: arrivals, and pages that each arriving user loads.
struct Open {
    arrivals: Arrivals,
    pages: u32,
}

/// Users who read pages.
pub(super) struct Pages {
    lines: Lines,
    readers: Vec<Reader>,
    open: Option<Open>,
    connections: u32,
    objects: Size,
    size: Size,
    think: Duration,
}

impl Pages {
    pub(super) fn new(
        common: Common,
        visits: Option<Visits>,
        [users, connections]: [u32; 2],
        [objects, size]: [Size; 2],
        think: Duration,
    ) -> Self {
        let open =
            visits.map(|v| Open { arrivals: Arrivals::new(&common, v.arrivals, users), pages: v.fetches });
        let lines = Lines::new(common, RETRY, false);
        let mut pages = Self { lines, readers: Vec::new(), open, connections, objects, size, think };
        if pages.open.is_none() {
            for user in 0..users {
                let rng = pages.lines.common.rng(user);
                pages.seat(None, Reader::new(rng, user, None));
            }
        }
        pages
    }

    /// Seats a user, in the record of one who has left if there is one. Returns the place.
    fn seat(&mut self, record: Option<u32>, reader: Reader) -> u32 {
        if let Some(at) = record {
            self.readers[at as usize] = reader;
            return at;
        }
        for _ in 0..self.connections {
            self.lines.add();
        }
        self.readers.push(reader);
        u32::try_from(self.readers.len() - 1).expect("a scenario is checked to have fewer users")
    }

    fn await_next(&mut self, world: &mut World) {
        if let Some(open) = &mut self.open {
            open.arrivals.await_next(world, self.lines.me, self.lines.common.stop);
        }
    }

    /// Lets a user arrive, who turns to a page at once.
    fn come(&mut self, world: &mut World) {
        let Some(open) = &mut self.open else { return };
        let (came, pages) = (open.arrivals.come(), open.pages);
        let rng = self.lines.common.rng(came.number);
        let at = self.seat(came.record, Reader::new(rng, came.address, Some(pages)));
        self.turn(world, at);
        self.await_next(world);
    }

    /// The user turns to a page.
    fn turn(&mut self, world: &mut World, user: u32) {
        if world.now() >= self.lines.common.stop {
            return;
        }
        let page = world.probes.pages.begun(world.net.now);
        let u = &mut self.readers[user as usize];
        u.pages = u.pages.map(|n| n - 1);
        (u.page, u.whole) = (page, true);
        u.left = self.objects.sample(&mut || u.rng.f64()).max(1);
        self.fetch(world, user, user * self.connections);
    }

    /// Fetches the next object of the user's page.
    fn fetch(&mut self, world: &mut World, user: u32, line: u32) {
        let u = &mut self.readers[user as usize];
        u.left -= 1;
        u.busy += 1;
        let size = self.size.sample(&mut || u.rng.f64());
        self.lines.begin(world, line, u.address, size);
    }

    /// An object is there, or lost: the next ones follow, or the page is over.
    fn go_on(&mut self, world: &mut World, user: u32, came: bool) {
        let u = &mut self.readers[user as usize];
        u.busy -= 1;
        u.whole &= came;
        for line in user * self.connections..(user + 1) * self.connections {
            if self.readers[user as usize].left > 0 && self.lines.is_free(line) {
                self.fetch(world, user, line);
            }
        }
        let u = &mut self.readers[user as usize];
        if u.busy > 0 {
            return;
        }
        world.probes.pages.over(world.net.now, u.page, u.whole);
        if u.pages == Some(0) {
            let address = u.address;
            if let Some(open) = &mut self.open {
                open.arrivals.go(address, user);
            }
        } else if self.think == Duration::default() {
            self.turn(world, user);
        } else {
            let pause = exponential(&mut u.rng, self.think);
            world.set_timer(self.lines.me, own(user + 1), world.now() + pause);
        }
    }
}

impl Reader {
    const fn new(rng: Rng, address: u32, pages: Option<u32>) -> Self {
        Self { rng, address, pages, page: 0, whole: true, left: 0, busy: 0 }
    }
}

impl App for Pages {
    fn start(&mut self, world: &mut World, me: AppId) {
        self.lines.me = me;
        self.await_next(world);
        for (number, user) in (1..).zip(&mut self.readers) {
            world.set_timer(me, own(number), self.lines.common.begins(&mut user.rng));
        }
    }

    fn wake(&mut self, world: &mut World, token: u32) {
        match self.lines.wake(world, token) {
            Ring::Done => {}
            Ring::Own(NEXT) => self.come(world),
            Ring::Own(user) => self.turn(world, user - 1),
        }
    }

    fn happened(&mut self, world: &mut World, place: FlowId, tag: u32, what: Happened) {
        if self.lines.happened(world, place, tag, what) {
            self.go_on(world, tag / self.connections, what == Happened::Delivered);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::ops::ControlFlow;

    use narrows_scenario::{TrafficKind, Web};

    use super::*;
    use crate::app::tests::{run, scenario, traffic};

    /// A user a second for 200 s, two pages each of 4 objects of 1000 bytes over 3 connections, a pause of 2 s between.
    #[test]
    fn users_come_load_pages_and_go() {
        let kind = TrafficKind::Pages {
            users: 40,
            connections: 3,
            objects: Size::Fixed(4),
            size: Size::Fixed(1000),
            think: Duration::from_secs(2),
        };
        let open = narrows_scenario::Traffic {
            web: Web { visits: Some(Visits { arrivals: 1.0, fetches: 2 }), ..Web::default() },
            start: Duration::ZERO,
            stop: Duration::from_secs(200),
            ..traffic(kind)
        };
        let open = scenario(300, vec![open]);
        let (world, history) = run(&open, 1);
        // 200 users, whose number has a standard deviation of 14, and nearly all that they came for.
        let done: Vec<_> = history.delivered().collect();
        assert!((158 * 8..=242 * 8).contains(&done.len()), "{}", done.len());
        assert_eq!(done.len() % 4, 0, "a page that is under way at the stop comes to its end");
        assert_eq!(history.most, 3, "three of a page at a time, and nobody shares an address");
        // Pages of a user: the document alone, the next page not before the whole one.
        let mut of_user: Vec<_> = done.iter().filter(|s| s.user == 7).collect();
        of_user.sort_by_key(|s| s.opened);
        for page in of_user.chunks_exact(4) {
            assert!(page[1..].iter().all(|s| s.opened >= page[0].at));
        }
        assert!(of_user.len() >= 8 && of_user[4].opened > of_user[..4].iter().map(|s| s.at).max().unwrap());
        assert_eq!(world.connections.iter().filter(|c| c.live).count(), 0, "all have gone");
        // Each page takes two objects one after another and two more: some round trips of 20 ms each, no second.
        let figures = crate::run(&open, 1, &mut |_| ControlFlow::Continue(())).unwrap().summary;
        assert_eq!((figures["pages_done"], figures["pages_cut"]), (done.len() as f64 / 4.0, 0.0));
        assert!((0.08..1.0).contains(&figures["page_p99_s"]), "{}", figures["page_p99_s"]);
    }
}
