//! The upper of two levels: the link is shared between users first, then between a user's flows.
//!
//! Deficit round robin over users (Shreedhar and Varghese, SIGCOMM 1995), with two lists before it: users who need less
//! than their share, and users who are new ([`crate::new_flows`]). Within a user a discipline has its own lists, as it
//! would have them for all flows if there were no users: `S`. What a flow may send before others is thus its user's
//! twice over: fifty new flows of one user go before its old ones, and together have the credit of one.
//!
//! Three disciplines serve flows by three rules, so what differs is told at the call: what a user needs in hand to be
//! served (nothing, or its next packet), and what becomes of a credit overspent ([`Carry`]). Where each user has one
//! flow, the order of service is that of the flows without users.
//!
//! A user with a rate of its own waits aside until it has paid for what it was sent ([`pace`]).
//!
//! A record of a user who has nothing waiting is kept until the table is full, so that nobody comes back as new.

mod ahead;
mod fullest;
mod heard;
mod idle;
mod lanes;
mod new_flows;
mod pace;
#[cfg(test)]
mod tests;

pub use lanes::LaneUsers;

use std::collections::BTreeSet;
use std::sync::Arc;

use narrows_flow::Coarse;
use narrows_lists::{Arena as _, Chains, Links, List, NIL, Slab, chained, linked};
use narrows_units::{Instant, Rate};
use narrows_users::{User, UserRule};
use narrows_wire::FlowKey;

use self::idle::Idle;
use crate::new_flows::{NewFlows, NewShare};
use crate::{Packet, Ppm};

/// The rates of circuits in one direction, by number; `None` for no limit.
pub type CircuitRates = Arc<[Option<Rate>]>;

/// Which list a user stands in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserList {
    /// None: nothing waits.
    #[default]
    Idle,
    /// Served before all others: it takes no more than its share of the time since it was last served.
    Sparse,
    /// Spends what a new user has.
    New,
    /// Served by deficit round robin.
    Old,
}

/// What becomes of a credit that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carry {
    /// What was sent beyond it is forgotten.
    Forget,
    /// What is left of it, or was sent beyond it, counts in the first round (RFC 8290, section 4.2).
    Keep,
}

/// One user: what a packet touches in a cache line, then the lists, then the rest.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct UserState<S> {
    user: User,
    /// Neighbours in the list that `place` names.
    links: Links,
    /// When data was last sent to it.
    pub served_at: Instant,
    /// Flows with packets waiting.
    pub flows: u32,
    /// Packets waiting.
    packets: u32,
    /// When it was last noted to have nothing waiting ([`Idle`]).
    rests: Coarse,
    /// Bytes it may send in this round; negative: a debt.
    pub deficit: i32,
    /// Bytes it may send before the old users.
    pub credit: i32,
    /// What its new flows were sent before others of late: a part of a quantum is forgotten in each round.
    pub spent: i32,
    /// Of a new user: when it is served at the latest.
    pub due: u16,
    /// Which list it stands in, or stood in before it was put aside.
    pub place: UserList,
    /// It waits for its rate, and stands in no list.
    aside: bool,
    /// It has sent something itself.
    heard: bool,
    /// It has a rate of its own.
    rated: bool,
    /// `rests` holds.
    noted: bool,
    /// Its flows.
    pub lists: S,
    chain: u32,
    /// Its own rate, in bits per second; 0 for none.
    rate_bps: u64,
    /// When its rate has paid for all it was sent.
    paid_until: Instant,
    /// When its share has paid for the packets without data that went before others.
    control_until: Instant,
}

/// Lists of users.
#[derive(Debug)]
pub enum Turn {}

linked!(<S> UserState<S>, Turn: links);
chained!(<S> UserState<S>: chain);

/// Who was chosen to be served.
#[derive(Clone, Copy, Debug)]
struct Serving {
    user: u32,
    place: UserList,
}

/// Users in the order in which they are served.
#[derive(Debug)]
struct Order {
    sparse: List<Turn>,
    new: NewFlows<Turn>,
    old: List<Turn>,
}

impl Order {
    const fn list(&mut self, place: UserList) -> &mut List<Turn> {
        match place {
            UserList::Sparse => &mut self.sparse,
            UserList::New => &mut self.new.list,
            UserList::Idle | UserList::Old => &mut self.old,
        }
    }
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
    order: Order,
    new_share: NewShare,
    /// Those who wait for their rates, by when they may go on.
    aside: BTreeSet<(Instant, u32)>,
    rates: CircuitRates,
    /// Whether any user has been heard: where nothing is, the other direction is not seen.
    heard: bool,
    serving: Serving,
    /// Nearly the user with most packets waiting: nobody had more when its packets last came.
    fullest: u32,
    /// When somebody was last chosen.
    now: Instant,
}

/// No instant at which anything was sent.
const NEVER: Instant = Instant::FAR_FUTURE;

impl<S> Users<S> {
    /// Nobody. Records of `capacity` users are kept, and of more only while all of them have packets waiting. `new`
    /// says what new users may have of the link while old ones wait.
    pub fn new(carry: Carry, capacity: usize, new: (Rate, Ppm), seed: u64) -> Self {
        let capacity = capacity.clamp(1, 1 << 24);
        Self {
            carry,
            seed,
            slab: Slab::new(),
            chains: Chains::new(capacity.next_power_of_two()),
            capacity,
            idle: Idle::default(),
            order: Order { sparse: List::EMPTY, new: NewFlows::new(), old: List::EMPTY },
            new_share: NewShare::new(new.0, new.1),
            aside: BTreeSet::new(),
            rates: Arc::default(),
            heard: false,
            serving: Serving { user: NIL, place: UserList::Idle },
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
            && let Some(oldest) = self.longest_idle()
        {
            let gone = self.bucket(self.slab.at(oldest).user);
            self.chains.remove(&mut self.slab, gone, oldest);
            self.slab.remove(oldest);
        }
        let (lists, credit) = fresh();
        let at = self.slab.insert(UserState {
            user,
            chain: NIL,
            links: Links::NONE,
            place: UserList::Idle,
            aside: false,
            heard: false,
            due: 0,
            flows: 0,
            packets: 0,
            deficit: 0,
            credit,
            spent: 0,
            served_at: NEVER,
            rests: Coarse::default(),
            rated: false,
            noted: false,
            rate_bps: 0,
            paid_until: Instant::ZERO,
            control_until: Instant::ZERO,
            lists,
        });
        let bucket = self.bucket(user);
        self.chains.push(&mut self.slab, bucket, at);
        self.idle.note(self.now, at, self.slab.at_mut(at));
        self.tidy_up();
        self.set_rate(at);
        at
    }

    /// Whether a record that may be gone is this user's.
    pub fn is_of(&self, at: u32, user: User) -> bool {
        self.slab.get(at).is_some_and(|state| state.user == user)
    }

    /// The record of a user, if there is one.
    pub fn find(&self, user: User) -> Option<u32> {
        self.chains.find(&self.slab, self.bucket(user), |u| u.user == user)
    }

    /// A record.
    pub fn at(&self, user: u32) -> &UserState<S> {
        self.slab.at(user)
    }
    /// The same, to change it.
    pub fn at_mut(&mut self, user: u32) -> &mut UserState<S> {
        self.slab.at_mut(user)
    }
    /// A record that may be gone.
    pub fn get(&self, user: u32) -> Option<&UserState<S>> {
        self.slab.get(user)
    }
    /// Users who are served as turns come: those who have packets waiting and do not wait for their rates.
    pub const fn waiting(&self) -> usize {
        (self.order.sparse.len() + self.order.new.list.len() + self.order.old.len()) as usize
    }

    /// Users who have packets waiting, or linger.
    pub fn with_packets(&self) -> usize {
        self.waiting() + self.aside.len()
    }

    /// When a user who comes now as new is served at the latest ([`NewFlows::due`]).
    pub fn due(&self) -> u16 {
        self.order.new.due(self.order.old.len())
    }

    /// A user with nothing waiting until now comes into a list.
    pub fn join(&mut self, user: u32, place: UserList) {
        debug_assert!(self.at(user).place == UserList::Idle && place != UserList::Idle);
        self.slab.at_mut(user).place = place;
        self.order.list(place).push_back(&mut self.slab, user);
    }

    /// A user comes back within its turn: what it has left of it, it may send now.
    pub fn rejoin(&mut self, user: u32) {
        debug_assert!(self.at(user).place == UserList::Idle);
        self.slab.at_mut(user).place = UserList::Old;
        self.order.old.push_front(&mut self.slab, user);
    }

    /// Nothing of the user waits any more.
    pub fn leave(&mut self, user: u32) {
        let state = self.slab.at_mut(user);
        let (place, aside) = (core::mem::take(&mut state.place), core::mem::take(&mut state.aside));
        if place == UserList::Idle {
            return;
        }
        self.idle.note(self.now, user, state);
        if aside {
            let due = state.paid_until;
            self.aside.remove(&(due, user));
        } else {
            self.order.list(place).remove(&mut self.slab, user);
        }
        self.tidy_up();
    }

    /// A user of whom nothing waits stays for a round as an old one, so that it is not new with each packet (RFC 8290,
    /// section 4.2).
    pub fn linger(&mut self, user: u32) {
        if self.at(user).place == UserList::Old {
            return self.leave(user);
        }
        let carried = self.at(user).credit;
        self.slab.at_mut(user).deficit = carried;
        self.age(user);
    }

    /// Anybody in a list.
    pub fn anybody(&self) -> Option<u32> {
        let lists = [&self.order.sparse, &self.order.new.list, &self.order.old];
        let listed = lists.iter().find_map(|list| list.first());
        listed.or_else(|| self.aside.first().map(|first| first.1))
    }

    /// Who is served last.
    pub fn last(&self) -> Option<u32> {
        let lists = [&self.order.old, &self.order.new.list, &self.order.sparse];
        let listed = lists.iter().find_map(|list| list.last());
        self.aside.last().map(|last| last.1).or(listed)
    }

    /// The user to be served. `need` says what it must have in hand for its next packet: 1 where a packet may be larger
    /// than what is left. Ends because each step over the old users adds a quantum to one.
    pub fn next(&mut self, now: Instant, quantum: i32, mut need: impl FnMut(u32) -> i32) -> Option<u32> {
        self.now = now;
        self.come_back(now);
        loop {
            let first = self.before_old_users().or_else(|| self.order.old.first())?;
            let state = self.slab.at_mut(first);
            if state.rated && state.paid_until > now {
                self.put_aside(first);
                continue;
            }
            let place = state.place;
            let may = if place == UserList::Old { state.deficit >= need(first) } else { state.credit > 0 };
            if may {
                self.serving = Serving { user: first, place };
                return Some(first);
            }
            if place == UserList::Old {
                state.deficit = state.deficit.saturating_add(quantum);
                state.forget(quantum, 1);
                self.order.old.move_to_back(&mut self.slab, first);
            } else {
                if state.spent > 0 {
                    // What was sent beyond the credit.
                    state.spent = state.spent.saturating_sub(state.credit.min(0));
                }
                let left = if self.carry == Carry::Keep { state.credit } else { state.deficit.min(0) };
                state.deficit = left.saturating_add(quantum);
                self.age(first);
            }
        }
    }

    /// Charges the user that was chosen last for what it was sent. It may have nothing waiting by now.
    pub fn charge(&mut self, now: Instant, cost: i32) {
        self.charge_with(now, cost, |_| ());
    }

    /// The same; `sent` first says what it was sent. If that was the last of its flows, it leaves its list.
    pub fn sent(&mut self, now: Instant, cost: i32, sent: impl FnOnce(&mut UserState<S>)) {
        if self.charge_with(now, cost, sent) == Some(0) {
            self.leave(self.serving.user);
        }
    }

    /// How many flows of it wait then.
    #[inline]
    fn charge_with(&mut self, now: Instant, cost: i32, sent: impl FnOnce(&mut UserState<S>)) -> Option<u32> {
        let Serving { user, place } = self.serving;
        let state = self.slab.get_mut(user)?;
        sent(state);
        state.pay(now, cost);
        if place == UserList::Old {
            state.deficit = state.deficit.saturating_sub(cost);
            self.order.new.waited(self.new_share, cost);
        } else {
            state.credit = state.credit.saturating_sub(cost);
            if place == UserList::New && !self.order.old.is_empty() {
                self.order.new.passed(self.new_share, cost, state.due);
            }
        }
        Some(state.flows)
    }

    /// Makes an old user of one that stands in a list before.
    fn age(&mut self, user: u32) {
        let place = core::mem::replace(&mut self.slab.at_mut(user).place, UserList::Old);
        self.order.list(place).remove(&mut self.slab, user);
        self.order.old.push_back(&mut self.slab, user);
    }

    /// The user that goes before the old ones now, if one does.
    fn before_old_users(&self) -> Option<u32> {
        let goes = |new: &u32| {
            self.order.old.is_empty() || self.order.new.may_go_first(self.new_share, self.slab.at(*new).due)
        };
        self.order.sparse.first().or_else(|| self.order.new.list.first().filter(goes))
    }

    fn bucket(&self, user: User) -> usize {
        FlowKey::of_host(user.bits()).hash(self.seed) as usize & (self.chains.buckets() - 1)
    }
}

/// The user of a packet, if its flow shows no more than the packet itself.
pub fn user_of<P: Packet>(rule: &UserRule, packet: &P) -> User {
    packet.circuit().map_or_else(|| rule.user(&packet.header().key, None), User::circuit)
}
