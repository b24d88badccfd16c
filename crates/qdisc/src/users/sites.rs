//! Sites: users of users, each with a rate that those who hang at it share.
//!
//! A site has paid for what was sent to its users as a user has ([`Pace`]). As long as it has, and all sites above it
//! have, its users take their turns among all users. A user whose turn comes before that waits at its site. When the
//! site has paid, it lets one of them go on, and books a turn for it in advance: so as many are on their way as the
//! site can carry, and however many wait, a packet costs a few steps. Of a site's users each has a turn in a round, as
//! everywhere; those who are new or sparse go every second time where others wait, too.
//!
//! A site whose own rate has paid and that waits for the one above it has as many turns there as it has users who wait,
//! so that users of a large site have no less than those of a small one (weighted round robin).

use std::collections::{BTreeSet, VecDeque};

use narrows_lists::{Arena, List, NIL};
use narrows_units::Instant;

use super::pace::Pace;
use super::rates::Site;
use crate::deficit::{Member, Place, Service};

/// Standing of a user at the user's site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// The user has nothing of the site: it is looked at when its turn comes.
    #[default]
    Free,
    /// The user waits at the site.
    Waits,
    /// The user has a turn, of which so many booked bytes are left.
    Admitted(i32),
}

/// Place of a site among the sites that are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stands {
    /// Stands nowhere: no user of the site waits, or all who do wait for sites below it.
    #[default]
    Idle,
    /// Among the sites looked at by time, with the time of this site.
    Held(Instant),
    /// In the order of the site above.
    Listed,
}

#[derive(Debug)]
struct Node {
    pace: Pace,
    above: u32,
    /// Users that wait at the site, before the round and in the round.
    ahead: List<Service>,
    round: List<Service>,
    /// Whether the last that went on was one of `ahead`.
    was_ahead: bool,
    /// Order of turns, the next first, of sites below and of this one itself for its own users.
    order: VecDeque<u32>,
    /// Whether `order` holds the site itself.
    in_order: bool,
    /// Turns that the first of `order` has left.
    turns: u32,
    /// Users that wait here and at sites below.
    waiting: u32,
    stands: Stands,
}

/// The sites of a queue.
#[derive(Debug, Default)]
pub struct Sites {
    nodes: Vec<Node>,
    /// Sites with users waiting, by the time at which a site is looked at.
    held: BTreeSet<(Instant, u32)>,
    /// Users that wait at any.
    waiting: usize,
}

impl Sites {
    /// Makes sites with the rates given, at which no user waits.
    pub fn new(sites: &[Site]) -> Self {
        let node = |site: &Site| {
            let mut pace = Pace::default();
            pace.set_rate(site.rate);
            Node {
                pace,
                above: site.above.unwrap_or(NIL),
                ahead: List::EMPTY,
                round: List::EMPTY,
                was_ahead: false,
                order: VecDeque::new(),
                in_order: false,
                turns: 0,
                waiting: 0,
                stands: Stands::Idle,
            }
        };
        Self { nodes: sites.iter().map(node).collect(), ..Self::default() }
    }

    /// Users that wait.
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Time at which a site is looked at next.
    pub fn next(&self) -> Option<Instant> {
        self.held.first().map(|first| first.0)
    }

    fn node(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }

    /// A site and all sites above the site.
    fn chain(&self, site: u32) -> impl Iterator<Item = u32> {
        core::iter::successors(Some(site), |at| {
            Some(self.nodes[*at as usize].above).filter(|above| *above != NIL)
        })
    }

    /// Whether a site and all sites above the site have paid for what was sent, and nobody waits there.
    pub fn is_free(&self, now: Instant, site: u32) -> bool {
        let free = |node: &Node| node.pace.paid_until() <= now && node.waiting == 0;
        self.chain(site).all(|at| free(&self.nodes[at as usize]))
    }

    /// Counts `cost` bytes as sent to a user of the site, for which `booked` were counted in advance.
    pub fn pay(&mut self, now: Instant, site: u32, cost: i32, booked: i32) {
        let mut at = site;
        while at != NIL {
            let node = self.node(at);
            if cost > booked {
                node.pace.pay(now, cost - booked);
            } else if cost < booked {
                node.pace.give_back(booked - cost);
            }
            let (due, above) = (node.pace.paid_until(), node.above);
            // A site that has paid earlier than was booked is looked at earlier.
            if let Stands::Held(until) = node.stands
                && due < until
            {
                self.held.remove(&(until, at));
                self.hold(at, due);
            }
            at = above;
        }
    }

    fn hold(&mut self, at: u32, until: Instant) {
        self.node(at).stands = Stands::Held(until);
        self.held.insert((until, at));
    }

    /// Books `quantum` bytes in advance with a site and all sites above the site.
    pub fn book(&mut self, now: Instant, site: u32, quantum: i32) {
        self.pay(now, site, quantum, 0);
    }

    /// Puts a user that stands in no list among the users who wait at the user's site.
    pub fn wait<M: Member>(
        &mut self,
        users: &mut (impl Arena<Item = M> + ?Sized),
        now: Instant,
        site: u32,
        user: u32,
    ) {
        let place = users.at(user).turn().place();
        let node = self.node(site);
        match place {
            Place::Old | Place::Idle => node.round.push_back(users, user),
            Place::Sparse | Place::New => node.ahead.push_back(users, user),
        }
        if !core::mem::replace(&mut node.in_order, true) {
            node.order.push_back(site);
        }
        let mut at = site;
        while at != NIL {
            let node = self.node(at);
            node.waiting += 1;
            at = node.above;
        }
        self.waiting += 1;
        self.stand(now, site);
    }

    /// Takes a user out that waits at `site`.
    pub fn leave<M: Member>(&mut self, users: &mut (impl Arena<Item = M> + ?Sized), site: u32, user: u32) {
        let old = matches!(users.at(user).turn().place(), Place::Old | Place::Idle);
        let node = self.node(site);
        let list = if old { &mut node.round } else { &mut node.ahead };
        list.remove(users, user);
        let mut at = site;
        while at != NIL {
            let node = self.node(at);
            node.waiting -= 1;
            at = node.above;
        }
        self.waiting -= 1;
    }

    /// Puts a site at which somebody waits where it is looked at next, and those above it.
    fn stand(&mut self, now: Instant, site: u32) {
        let mut at = site;
        while at != NIL && self.node(at).stands == Stands::Idle && self.node(at).waiting > 0 {
            let node = self.node(at);
            let (due, above) = (node.pace.paid_until(), node.above);
            if due > now || above == NIL {
                return self.hold(at, due.max(now));
            }
            node.stands = Stands::Listed;
            self.node(above).order.push_back(at);
            at = above;
        }
    }

    /// A user that may go on by now. A turn of `quantum` bytes is booked for it with its site and all above.
    pub fn admit<M: Member>(
        &mut self,
        users: &mut (impl Arena<Item = M> + ?Sized),
        now: Instant,
        quantum: i32,
    ) -> Option<u32> {
        while let Some((due, at)) = self.held.first().copied().filter(|first| first.0 <= now) {
            let node = self.node(at);
            let is_top = node.above == NIL;
            if node.waiting > 0 && is_top && node.pace.paid_until() <= now {
                // The site stays where it is as long as some user of it goes on.
                if let Some(user) = self.take(users, now, at, quantum) {
                    self.waiting -= 1;
                    return Some(user);
                }
                // Its users wait for sites below it, which come back by themselves.
                self.held.remove(&(due, at));
                self.node(at).stands = Stands::Idle;
                continue;
            }
            self.held.remove(&(due, at));
            self.node(at).stands = Stands::Idle;
            self.stand(now, at);
        }
        None
    }

    /// Takes a user out that waits at a site which has paid, or at one below.
    fn take<M: Member>(
        &mut self,
        users: &mut (impl Arena<Item = M> + ?Sized),
        now: Instant,
        at: u32,
        quantum: i32,
    ) -> Option<u32> {
        while let Some(first) = self.node(at).order.front().copied() {
            let unpaid = first != at && self.node(first).pace.paid_until() > now;
            let user = match first {
                _ if unpaid => None,
                own if own == at => self.take_own(users, at),
                below => self.take(users, now, below, quantum),
            };
            let Some(user) = user else {
                self.drop_first(now, at, first);
                continue;
            };
            let left = self.weight(at, first);
            let node = self.node(at);
            node.pace.pay(now, quantum);
            node.waiting -= 1;
            // A round begins with as many turns as there are users, the one that goes on included.
            node.turns = if node.turns == 0 { left } else { node.turns - 1 };
            if left == 0 {
                self.drop_first(now, at, first);
            } else if node.turns == 0 {
                node.order.rotate_left(1);
            }
            return Some(user);
        }
        None
    }

    /// Users of the first of an order that wait.
    fn weight(&mut self, at: u32, first: u32) -> u32 {
        let node = self.node(first);
        if first == at { node.ahead.len() + node.round.len() } else { node.waiting }
    }

    fn take_own<M: Member>(&mut self, users: &mut (impl Arena<Item = M> + ?Sized), at: u32) -> Option<u32> {
        let node = self.node(at);
        let ahead = !node.ahead.is_empty() && (!node.was_ahead || node.round.is_empty());
        node.was_ahead = ahead;
        if ahead { node.ahead.pop_front(users) } else { node.round.pop_front(users) }
    }

    /// Removes the first site of an order, of which nobody can go on.
    fn drop_first(&mut self, now: Instant, at: u32, first: u32) {
        let node = self.node(at);
        node.order.pop_front();
        node.turns = 0;
        if first == at {
            node.in_order = false;
            return;
        }
        let below = self.node(first);
        below.stands = Stands::Idle;
        let due = below.pace.paid_until();
        if below.waiting > 0 && due > now {
            self.hold(first, due);
        }
    }

    /// Any user that waits.
    pub fn anybody(&self) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        let of = |node: &Node| node.round.first().or_else(|| node.ahead.first());
        self.nodes.iter().filter(|node| node.waiting > 0).find_map(of)
    }
}
