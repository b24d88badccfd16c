//! The upper of two levels: the link is shared between users first, then between a user's flows.
//!
//! Users are members of a [`DeficitScheduler`]. Within a user a discipline has its own lists, as it would have them for
//! all flows if there were no users: `S`. What a flow may send before others is thus its user's twice over: fifty new
//! flows of one user go before its old ones, and together have the credit of one.
//!
//! Disciplines serve flows by different rules, so what differs comes as an argument: what a user needs in hand to be
//! served (nothing, or its next packet), and what becomes of an overspent credit ([`Carry`]). Where each user has one
//! flow, the order of service is that of the flows without users.
//!
//! - **First flights.** A new user goes first once. Its later flows are new as well, and a user that opens a connection
//!   for each object has nothing else. Their first flights go ahead of its share, up to a bound, and it pays for them
//!   with what it leaves of its turns, with the time in which nothing of it waits, and with a part of each turn
//!   ([`Users::credit_new_flow`]). So nobody has more than its share, however many flows it opens.
//! - **Strangers.** Users of whom nothing has been heard share as one, where anything is heard at all
//!   ([`Users::is_stranger`]).
//! - **Rates.** A user with a rate of its own waits aside until it has paid for what it was sent ([`pace`]).
//! - **Sites.** Users that hang at a site share its rate, and sites that of the site above ([`sites`]).
//! - **Room.** Where room is short, the user with most packets waiting makes it ([`Users::beyond`]).
//!
//! The record of a user who has nothing waiting is kept until the table is full ([`idle`]), so that nobody comes back
//! as new.

mod idle;
mod lanes;
mod pace;
mod rates;
mod sites;
#[cfg(test)]
mod tests;

pub use lanes::LaneUsers;
pub use rates::{CircuitRates, LEVELS, Site};

use std::collections::BTreeSet;

use narrows_flow::Coarse;
use narrows_lists::{Arena as _, Chains, NIL, Slab, chained, prefetch};
use narrows_units::{Bytes, Duration, Instant, Rate};
use narrows_users::{User, UserRule};
use narrows_wire::FlowKey;

use self::idle::Idle;
use self::pace::Pace;
use self::sites::{Sites, Standing};
use crate::deficit::{Carry, DeficitScheduler, Place, Step, Terms, Turn, member};
use crate::new_flows::NewShare;
use crate::{Packet, Ppm};

/// The part of a quantum, as its inverse, by which each turn of a user that is ahead of its share is smaller: it sits
/// out one turn in so many. Paid by whole turns, a third of QUIC's objects stall above 5 s
/// (docs/decisions/first-flights.md).
const PAID_BACK: i32 = 6;

/// The time for which a user's share is kept that was not used for packets without data.
const CONTROL_SAVED: Duration = Duration::from_millis(200);

/// No instant at which anything was sent.
const NEVER: Instant = Instant::FAR_FUTURE;

/// State of a user: what a packet touches in a cache line, then the lists, then the rest.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct UserState<S> {
    user: User,
    /// Time at which data was last sent to the user.
    pub served_at: Instant,
    pub turn: Turn,
    /// Flows with packets waiting.
    pub flows: u32,
    /// Packets waiting.
    packets: u32,
    /// Time at which the user was last noted to have nothing waiting ([`Idle`]).
    rests: Coarse,
    /// Bytes by which the first flights of its flows went ahead of its share.
    ahead: i32,
    /// Whether the user waits for the user's rate, and stands in no list.
    aside: bool,
    /// Whether the user itself has sent something.
    heard: bool,
    /// Whether `pace` has a rate, or the user hangs at a site. Where neither is so, nothing is paid, and `pace`, `site`
    /// and `standing`, which lie in other cache lines, are as they were made.
    rated: bool,
    /// Whether `rests` holds.
    noted: bool,
    /// Flows of the user.
    pub lists: S,
    chain: u32,
    pace: Pace,
    /// Site that the user hangs at; [`NIL`] for none.
    site: u32,
    standing: Standing,
    /// Time up to which its share has paid for the packets without data that went before others.
    control_until: Instant,
}

member!(<S> UserState<S>: turn);
chained!(<S> UserState<S>: chain);

const _: () = assert!(core::mem::offset_of!(UserState<u64>, lists) == 64);

impl<S> UserState<S> {
    /// Rate of the user's circuit; `None` without one.
    pub fn rate(&self) -> Option<Rate> {
        self.rated.then(|| self.pace.rate()).flatten()
    }

    /// A packet of the user waits no longer.
    pub const fn unqueued(&mut self) {
        self.packets -= 1;
    }

    /// Counts what it was sent beyond its credit as ahead of its share, if any of that was.
    fn owe_what_exceeded_its_credit(&mut self) {
        if self.ahead > 0 && self.turn.credit < 0 {
            self.ahead = self.ahead.saturating_sub(self.turn.credit);
            self.turn.credit = 0;
        }
    }

    /// Whether first flights of the user's flows have gone ahead of the user's share and are not paid for.
    pub const fn is_ahead(&self) -> bool {
        self.ahead > 0
    }

    /// Pays for first flights with the rest of the user's last turn.
    pub fn pay_back_the_rest(&mut self) {
        let paid = self.ahead.min(self.turn.deficit).max(0);
        self.ahead -= paid;
        self.turn.deficit -= paid;
    }

    /// Pays for first flights with `bytes` of the user's share that the user did not take.
    pub fn pay_back(&mut self, bytes: i32) {
        self.ahead -= self.ahead.min(bytes).max(0);
    }

    /// Pays for first flights with a part of the `quantum` that its turn has brought.
    fn pay_back_in_turn(&mut self, quantum: i32) {
        let part = quantum / PAID_BACK;
        if self.ahead >= part {
            self.ahead -= part;
            self.turn.deficit -= part;
        }
    }

    fn pay(&mut self, now: Instant, cost: i32, sites: &mut Sites) {
        if self.rated {
            self.pace.pay(now, cost);
            let booked = self.booked();
            if booked > cost {
                self.standing = Standing::Admitted(booked - cost);
            } else if self.site != NIL {
                self.standing = Standing::Free;
                sites.pay(now, self.site, cost, booked);
            }
        }
    }

    /// Bytes that are booked for the user with the user's site.
    const fn booked(&self) -> i32 {
        match self.standing {
            Standing::Admitted(left) => left,
            Standing::Free | Standing::Waits => 0,
        }
    }

    /// Gives back what is left of a turn that was booked.
    fn end_turn(&mut self, now: Instant, sites: &mut Sites) {
        let booked = self.booked();
        if booked > 0 {
            self.standing = Standing::Free;
            sites.pay(now, self.site, 0, booked);
        }
    }
}

/// The user that was chosen to be served.
#[derive(Clone, Copy, Debug)]
struct Serving {
    user: u32,
    place: Place,
}

/// All users of a queue.
#[derive(Debug)]
pub struct Users<S> {
    carry: Carry,
    seed: u64,
    slab: Slab<UserState<S>>,
    chains: Chains,
    capacity: usize,
    idle: Idle,
    order: DeficitScheduler,
    new_share: NewShare,
    /// Users who wait for their rates, by the time at which the user may go on.
    aside: BTreeSet<(Instant, u32)>,
    rates: CircuitRates,
    sites: Sites,
    /// Whether any user has been heard: where nothing is, the other direction is not seen.
    heard: bool,
    serving: Serving,
    /// Nearly the user with most packets waiting: nobody had more when its packets last came.
    fullest: u32,
    /// Time at which somebody was last chosen.
    now: Instant,
}

/// Records of users: which user has one, and which user a record belongs to.
impl<S> Users<S> {
    /// Nobody. Records of `capacity` users are kept, and of more only while all of them have packets waiting. New users
    /// may have `new_share` of `link` while old ones wait.
    pub fn new(carry: Carry, capacity: usize, link: Rate, new_share: Ppm, seed: u64) -> Self {
        let capacity = capacity.clamp(1, 1 << 24);
        Self {
            carry,
            seed,
            slab: Slab::new(),
            chains: Chains::new(capacity.next_power_of_two()),
            capacity,
            idle: Idle::default(),
            order: DeficitScheduler::EMPTY,
            new_share: NewShare::new(link, new_share),
            aside: BTreeSet::new(),
            rates: CircuitRates::default(),
            sites: Sites::default(),
            heard: false,
            serving: Serving { user: NIL, place: Place::Idle },
            fullest: NIL,
            now: Instant::ZERO,
        }
    }

    /// Another link, or another share for new users.
    pub fn reconfigure(&mut self, link: Rate, share: Ppm) {
        self.new_share = NewShare::new(link, share);
    }

    /// The record of a user, made if there is none; `fresh` makes the lists and the first credit of a new one.
    pub fn find_or_make(&mut self, user: User, fresh: impl FnOnce() -> (S, i32)) -> u32 {
        if let Some(at) = self.find(user) {
            return at;
        }
        if self.slab.len() >= self.capacity
            && let Some(oldest) = self.idle.longest(&mut self.slab)
        {
            let gone = self.bucket(self.slab.at(oldest).user);
            self.chains.remove(&mut self.slab, gone, oldest);
            self.slab.remove(oldest);
        }
        let (lists, credit) = fresh();
        let at = self.slab.insert(UserState {
            user,
            served_at: NEVER,
            turn: Turn::with_credit(credit),
            flows: 0,
            packets: 0,
            rests: Coarse::default(),
            ahead: 0,
            aside: false,
            heard: false,
            rated: false,
            noted: false,
            lists,
            chain: NIL,
            pace: Pace::default(),
            site: NIL,
            standing: Standing::Free,
            control_until: Instant::ZERO,
        });
        let bucket = self.bucket(user);
        self.chains.push(&mut self.slab, bucket, at);
        self.idle.note(self.now, at, self.slab.at_mut(at));
        self.idle.tidy_up(&self.slab);
        self.set_rate(at);
        at
    }

    /// Whether the record at `at`, which may be gone, belongs to `user`.
    pub fn is_of(&self, at: u32, user: User) -> bool {
        self.slab.get(at).is_some_and(|state| state.user == user)
    }

    /// The record of a user, if there is one.
    pub fn find(&self, user: User) -> Option<u32> {
        self.chains.find(&self.slab, self.bucket(user), |u| u.user == user)
    }

    fn bucket(&self, user: User) -> usize {
        FlowKey::of_host(user.bits()).hash(self.seed) as usize & (self.chains.buckets() - 1)
    }

    /// A record.
    pub fn at(&self, user: u32) -> &UserState<S> {
        self.slab.at(user)
    }
    /// The user's record, to be changed.
    pub fn at_mut(&mut self, user: u32) -> &mut UserState<S> {
        self.slab.at_mut(user)
    }
    /// A record that may be gone.
    pub fn get(&self, user: u32) -> Option<&UserState<S>> {
        self.slab.get(user)
    }

    /// Has a record fetched from memory, should it be there. Nothing of it is read, or one would wait for it.
    pub fn prefetch(&self, at: u32) {
        self.slab.prefetch(at);
    }

    /// Notes that a user has sent something.
    pub fn hear(&mut self, at: u32) {
        self.heard = true;
        self.slab.at_mut(at).heard = true;
    }

    /// Whether nothing has been heard of `user`, while others are heard. `likely` may be the user's record.
    pub fn is_stranger(&self, user: User, likely: Option<u32>) -> bool {
        let known = || likely.filter(|at| self.is_of(*at, user)).or_else(|| self.find(user));
        self.heard && !known().is_some_and(|at| self.at(at).heard)
    }

    /// Whether the record at `at`, which may be gone, belongs to `user`, who is no stranger.
    pub fn is_known(&self, at: u32, user: User) -> bool {
        self.slab.get(at).is_some_and(|state| state.user == user && (state.heard || !self.heard))
    }
}

/// Service of users in turn.
impl<S> Users<S> {
    /// Users who are served as turns come: those who have packets waiting and do not wait for their rates.
    pub const fn waiting(&self) -> usize {
        self.order.len()
    }

    /// Users who have packets waiting, or linger.
    pub fn with_packets(&self) -> usize {
        self.waiting() + self.aside.len() + self.sites.waiting()
    }

    /// Puts a user with nothing waiting until now at the end of a list.
    pub fn join(&mut self, user: u32, place: Place) {
        self.order.join(&mut self.slab, user, place);
    }

    /// Puts a user with nothing waiting until now into a list; see [`DeficitScheduler::enter`].
    pub fn enter(&mut self, user: u32, place: Place, quantum: i32) {
        self.order.enter(&mut self.slab, user, place, quantum);
    }

    /// Takes a user without waiting packets out of the list that the user stands in.
    pub fn leave(&mut self, user: u32) {
        let state = self.slab.at_mut(user);
        if state.turn.place() == Place::Idle {
            return;
        }
        self.idle.note(self.now, user, state);
        if !state.rated {
            self.order.leave(&mut self.slab, user);
        } else if state.standing == Standing::Waits {
            let site = state.site;
            state.standing = Standing::Free;
            self.sites.leave(&mut self.slab, site, user);
            self.slab.at_mut(user).turn.dismiss();
        } else if core::mem::take(&mut state.aside) {
            let due = state.pace.paid_until();
            state.turn.dismiss();
            self.aside.remove(&(due, user));
        } else {
            state.end_turn(self.now, &mut self.sites);
            self.order.leave(&mut self.slab, user);
        }
        self.idle.tidy_up(&self.slab);
    }

    /// A user of whom nothing waits stays for a round as an old one; an old one leaves. See
    /// [`DeficitScheduler::linger`].
    pub fn linger(&mut self, user: u32) {
        if self.at(user).turn.place() == Place::Old {
            return self.leave(user);
        }
        self.order.linger(&mut self.slab, user);
    }

    /// Anybody in a list.
    pub fn anybody(&self) -> Option<u32> {
        let aside = || self.aside.first().map(|first| first.1);
        self.order.anybody().or_else(aside).or_else(|| self.sites.anybody())
    }

    /// The user that is served last.
    pub fn last(&self) -> Option<u32> {
        let aside = self.aside.last().map(|last| last.1);
        aside.or_else(|| self.sites.anybody()).or_else(|| self.order.last())
    }

    /// The user to be served. `need` says what an old one must have in hand for its next packet: 1 where a packet may
    /// be larger than what is left.
    pub fn next(&mut self, now: Instant, quantum: i32, mut need: impl FnMut(u32) -> i32) -> Option<u32> {
        self.now = now;
        self.come_back(now);
        let terms = Terms { quantum, carry: self.carry, share: self.new_share };
        loop {
            while let Some(user) = self.sites.admit(&mut self.slab, now, quantum) {
                self.slab.at_mut(user).standing = Standing::Admitted(quantum);
                self.order.resume(&mut self.slab, user);
            }
            let first = self.order.first(&self.slab, self.new_share)?;
            let state = self.slab.at_mut(first);
            if state.rated && state.pace.paid_until() > now {
                state.end_turn(now, &mut self.sites);
                self.put_aside(first);
                continue;
            }
            let sited = state.rated && state.site != NIL;
            let (place, left) = (state.turn.place(), state.turn.deficit);
            match self.order.step(&mut self.slab, first, &terms, || need(first)) {
                Step::Serve if sited && !self.begins_turn(now, first, quantum) => continue,
                Step::Serve => {
                    self.serving = Serving { user: first, place };
                    return Some(first);
                }
                Step::Later(Place::Old) => self.slab.at_mut(first).pay_back_in_turn(quantum),
                Step::Later(_) => {
                    let state = self.slab.at_mut(first);
                    state.owe_what_exceeded_its_credit();
                    if state.ahead > 0 && left > 0 {
                        // The user went ahead before its turn was used up, so it goes on with that turn.
                        state.turn.deficit = left;
                    } else {
                        state.pay_back_in_turn(quantum);
                    }
                }
            }
            if sited {
                self.ends_turn(now, first);
            }
        }
    }

    /// Charges the user that was chosen last for the packet sent. The user may have nothing waiting by now.
    pub fn charge(&mut self, now: Instant, cost: i32) {
        self.charge_with(now, cost, |_| ());
    }

    /// Charges the user in service; `sent` first notes the packet. A user whose last flow that was leaves its list.
    pub fn sent(&mut self, now: Instant, cost: i32, sent: impl FnOnce(&mut UserState<S>)) {
        if self.charge_with(now, cost, sent) == Some(0) {
            self.leave(self.serving.user);
        }
    }

    /// Charges the user, and returns how many of the user's flows then wait.
    #[inline]
    fn charge_with(&mut self, now: Instant, cost: i32, sent: impl FnOnce(&mut UserState<S>)) -> Option<u32> {
        let Serving { user, place } = self.serving;
        let state = self.slab.get_mut(user)?;
        sent(state);
        state.pay(now, cost, &mut self.sites);
        self.order.charge(&mut state.turn, self.new_share, place, cost);
        Some(state.flows)
    }

    /// Gives a user credit for the first flight of a flow: `wanted` bytes, but no more than keep the user at most
    /// `most` bytes ahead of its share. A user in the list of old ones moves to `place`. Returns whether any was given.
    pub fn credit_new_flow(&mut self, user: u32, wanted: i32, most: i32, place: Place) -> bool {
        let state = self.slab.at_mut(user);
        state.owe_what_exceeded_its_credit();
        let credit = wanted.min(most - state.ahead);
        if credit <= 0 || state.rated && (state.aside || state.standing == Standing::Waits) {
            return false;
        }
        state.turn.credit = state.turn.credit.max(0) + credit;
        state.ahead += credit;
        if state.turn.place() == Place::Old {
            self.order.promote(&mut self.slab, user, place);
        }
        true
    }

    /// Lists of the two users most likely served next, the first first, while the records of those after them are
    /// fetched.
    pub fn soon(&self) -> (Option<&S>, Option<&S>) {
        let after = |state: &UserState<S>| state.turn.links().next().map(|at| self.at(at));
        let Some(mut first) = self.order.soon().first().map(|at| self.at(at)) else { return (None, None) };
        // An old user that has used its quantum up goes to the end first.
        if first.turn.place() == Place::Old && first.turn.deficit <= 0 {
            first = after(first).unwrap_or(first);
        }
        let Some(second) = after(first) else { return (Some(&first.lists), None) };
        if let Some(third) = after(second) {
            prefetch(&third.lists);
            if let Some(fourth) = third.turn.links().next() {
                self.prefetch(fourth);
            }
        }
        (Some(&first.lists), Some(&second.lists))
    }
}

/// Room: who has most packets waiting.
impl<S> Users<S> {
    /// Counts a packet of the user that waits from now on.
    pub fn queued(&mut self, user: u32) {
        let state = self.slab.at_mut(user);
        state.packets += 1;
        let packets = state.packets;
        if self.slab.get(self.fullest).is_none_or(|f| f.packets < packets) {
            self.fullest = user;
        }
    }

    /// Whether nothing of the user waits.
    pub fn is_empty(&self, user: u32) -> bool {
        self.at(user).packets == 0
    }

    /// The user with most packets waiting, if they are of several flows and more than its part of `limit`. Where room
    /// is short it pays: many flows with little each must not push out those who have one.
    pub fn beyond(&self, limit: usize) -> Option<u32> {
        let fullest = self.fullest()?;
        let state = self.at(fullest);
        let several = state.flows > 1 && state.packets as usize * self.with_packets() > limit;
        several.then_some(fullest)
    }

    /// The user with most packets waiting, or nearly.
    fn fullest(&self) -> Option<u32> {
        self.slab.get(self.fullest).filter(|f| f.packets > 0).map(|_| self.fullest)
    }
}

/// Rates: users with one of their own, and what packets without data may take.
impl<S> Users<S> {
    /// Whether a packet without data may go before others for the sake of `user`: such packets have had no more than
    /// the user's share of the link.
    pub fn may_send_control(&self, now: Instant, user: u32) -> bool {
        self.at(user).control_until <= now
    }

    /// Counts such a packet of `cost` bytes against the user's share of `link`.
    pub fn sent_control(&mut self, now: Instant, user: u32, link: Rate, cost: Bytes) {
        let time = link.time_to_send(cost) * (self.waiting() + 1) as u64;
        let state = self.slab.at_mut(user);
        state.control_until = state.control_until.max(now - CONTROL_SAVED) + time;
    }

    /// Sets the rates of circuits and sites. Whoever has another rate now is judged anew, and nobody else: rates may
    /// come often, and what is owed stays owed.
    pub fn set_rates(&mut self, rates: CircuitRates) {
        let same_sites = rates.sites() == self.rates.sites();
        self.rates = rates;
        for at in 0..self.slab.places() as u32 {
            let Some(state) = self.slab.get(at) else { continue };
            let (before, site, due) = (state.pace.rate(), state.site, state.pace.paid_until());
            let (aside, waits) = (state.aside, state.standing == Standing::Waits);
            self.set_rate(at);
            let state = self.slab.at_mut(at);
            if state.pace.rate() != before {
                // Its debt was reckoned at its old rate.
                state.pace.forgive();
                if aside {
                    self.aside.remove(&(due, at));
                    self.back(at);
                }
            }
            if same_sites && self.slab.at(at).site == site {
                continue;
            }
            if waits {
                self.sites.leave(&mut self.slab, site, at);
                self.order.resume(&mut self.slab, at);
            }
            let state = self.slab.at_mut(at);
            let booked = state.booked();
            state.standing = Standing::Free;
            if booked > 0 {
                self.sites.pay(self.now, site, 0, booked);
            }
        }
        if !same_sites {
            self.sites = Sites::new(self.rates.sites());
        }
    }

    /// The rates of circuits.
    pub fn rates(&self) -> CircuitRates {
        self.rates.clone()
    }

    /// Looks up the rate of one user.
    fn set_rate(&mut self, at: u32) {
        let state = self.slab.at_mut(at);
        state.pace.set_rate(self.rates.of(state.user));
        state.site = self.rates.site(state.user).unwrap_or(NIL);
        state.rated = state.pace.rate().is_some() || state.site != NIL;
    }

    /// Has the user pay for a packet that is served outside the lists.
    pub fn pay(&mut self, now: Instant, user: u32, cost: i32) {
        let Some(state) = self.slab.get_mut(user).filter(|state| state.rated) else { return };
        let (aside, before) = (state.aside, state.pace.paid_until());
        state.pace.pay(now, cost);
        if state.site != NIL {
            self.sites.pay(now, state.site, cost, 0);
        }
        let after = state.pace.paid_until();
        if aside && self.aside.remove(&(before, user)) {
            self.aside.insert((after, user));
        }
    }

    /// Time at which somebody may be served: now, unless all who have packets waiting stand aside.
    pub fn next_ready(&self, now: Instant) -> Option<Instant> {
        if self.waiting() > 0 {
            return Some(now);
        }
        let aside = self.aside.first().map(|first| first.0);
        aside.into_iter().chain(self.sites.next()).min().map(|due| due.max(now))
    }

    /// Whether a user that hangs at a site may send: it has begun its turn, or begins it now. Any other one waits.
    fn begins_turn(&mut self, now: Instant, user: u32, quantum: i32) -> bool {
        let state = self.slab.at_mut(user);
        if state.standing != Standing::Free {
            return true;
        }
        let free = self.sites.is_free(now, state.site);
        if free {
            state.standing = Standing::Admitted(quantum);
            self.sites.book(now, state.site, quantum);
        } else {
            self.wait_at_site(now, user);
        }
        free
    }

    /// Ends the turn of a user at its site, once it has been given the quantum of its next one. It waits for that where
    /// it has to; with a debt of more than a quantum that turn has no packet either.
    fn ends_turn(&mut self, now: Instant, user: u32) {
        self.slab.at_mut(user).end_turn(now, &mut self.sites);
        if !self.sites.is_free(now, self.slab.at(user).site) {
            self.wait_at_site(now, user);
        }
    }

    fn wait_at_site(&mut self, now: Instant, user: u32) {
        self.slab.at_mut(user).standing = Standing::Waits;
        self.order.suspend(&mut self.slab, user);
        let site = self.slab.at(user).site;
        self.sites.wait(&mut self.slab, now, site, user);
    }

    /// Takes a user with nothing to pay with out of the user's list until the user can pay.
    fn put_aside(&mut self, user: u32) {
        let state = self.slab.at_mut(user);
        state.aside = true;
        self.aside.insert((state.pace.paid_until(), user));
        self.order.suspend(&mut self.slab, user);
    }

    /// Lets those who have paid by now go on where they left off, behind those who are there.
    fn come_back(&mut self, now: Instant) {
        while let Some((due, user)) = self.aside.first().copied().filter(|first| first.0 <= now) {
            self.aside.remove(&(due, user));
            self.back(user);
        }
    }

    fn back(&mut self, user: u32) {
        self.slab.at_mut(user).aside = false;
        self.order.resume(&mut self.slab, user);
    }
}

/// Leading bits of an IPv6 address that are a user's where neither a setting nor the driver tells: a site has at least
/// so many (RFC 6177).
const SITE: u8 = 64;

/// Reads the setting `user_prefix`, of which 0 says nothing.
pub const fn prefix(setting: u32) -> u8 {
    if setting == 0 { SITE } else { setting as u8 }
}

/// The user of a packet, if its flow shows no more than the packet itself.
pub fn user_of<P: Packet>(rule: &UserRule, packet: &P) -> User {
    packet.user().unwrap_or_else(|| rule.user(&packet.header().key, None))
}
