//! Book of stalls: sums by cause for an hour, users, the latest stalls with their evidence, histograms. All of it
//! has a bound.

use std::collections::{HashMap, VecDeque};

use narrows_diagnose::{Certainty, Repair};
use narrows_units::{Duration, Instant};
use narrows_users::User;
use narrows_wire::FlowKey;

use super::cause::{Cause, Lost};
use super::covered::{Covered, Span};
use super::histogram::{Histogram, MICROS, PACKETS, ROUND_TRIPS_S, STALLS_S};
use super::usage::Usage;

/// Minutes that are kept, and minutes that a report sums up as a quarter of an hour.
pub const HOUR: usize = 60;
pub const QUARTER: usize = 15;
/// Wait above which a user counts as having waited long.
pub const LONG: Duration = Duration::from_secs(5);
/// Milliseconds of a minute.
const MINUTE_MS: u64 = 60_000;
/// Stalls that are kept with their evidence.
const LAST: usize = 64;
/// Users that are told apart.
const USERS: usize = 1024;

/// A time without progress.
#[derive(Clone, Debug)]
pub struct Stall {
    pub key: FlowKey,
    pub user: u32,
    /// Direction whose data stood still: 0 down, 1 up.
    pub by: usize,
    pub length: Duration,
    pub cause: Cause,
    pub lost: Lost,
    pub certainty: Certainty,
    pub repair: Option<Repair>,
    pub timeouts: u8,
    pub backoff: u8,
    pub outstanding: u8,
    /// Time for which the connection's packets waited here for their turn before the stall, in milliseconds.
    pub turn_ms: u16,
    pub ended: bool,
}

/// Stall that is over: number, time of the end, and user.
#[derive(Clone, Debug)]
pub struct Ended {
    pub number: u64,
    pub at: Instant,
    pub user: User,
    pub stall: Stall,
}

/// Stalls of one cause and place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    pub stalls: u32,
    pub ms: u64,
    /// Part of `ms` in stalls longer than [`LONG`].
    pub long_ms: u64,
}

impl Cell {
    /// Adds the time of one more stall.
    pub fn last(&mut self, length: Duration) {
        let ms = length.as_millis();
        self.ms += ms;
        self.long_ms += if length > LONG { ms } else { 0 };
    }

    /// Adds what another has.
    pub fn add(&mut self, other: &Self) {
        self.stalls = self.stalls.saturating_add(other.stalls);
        self.ms += other.ms;
        self.long_ms += other.long_ms;
    }
}

/// Cells by cause, then by place.
pub type Cells = [[Cell; Lost::COUNT]; Cause::COUNT];
const NO_CELLS: Cells = [[Cell { stalls: 0, ms: 0, long_ms: 0 }; Lost::COUNT]; Cause::COUNT];

/// A minute of one user: the part of it in which any of its connections stalled, and the longest stall that ended
/// or went on in it, in tenths of a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserMinute {
    pub stalled_ms: u16,
    pub longest_ds: u16,
}

/// A user.
#[derive(Clone, Debug)]
pub struct UserBook {
    pub user: User,
    /// The latest minute in which it had packets, in which it stalled, and in which it stalled for long.
    pub seen: u64,
    pub stalled_at: Option<u64>,
    pub stalled_long_at: Option<u64>,
    pub minutes: [UserMinute; HOUR],
    /// Milliseconds in which the user was stalled, by the cause noted first.
    pub causes: [[u64; Cause::COUNT]; QUARTER],
    /// Traffic of the user.
    pub usage: Usage,
    /// Times in which the user stalled.
    covered: Covered,
    /// Flows that stall now, as of the latest look at all, and of the one that goes on.
    pub stalled: u32,
    pub counting: u32,
}

impl UserBook {
    fn new(user: User, minute: u64) -> Self {
        Self {
            user,
            seen: minute,
            stalled_at: None,
            stalled_long_at: None,
            minutes: [UserMinute::default(); HOUR],
            causes: [[0; Cause::COUNT]; QUARTER],
            usage: Usage::new(minute),
            covered: Covered::default(),
            stalled: 0,
            counting: 0,
        }
    }
}

/// Users of the last quarter of an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsersOfQuarter {
    /// Users that had packets.
    pub seen: usize,
    /// Users that stalled.
    pub stalled: usize,
    /// Users that stalled for longer than [`LONG`] at once.
    pub stalled_long: usize,
}

/// Sum of the waits of one direction's packets in the box since the last look at all connections.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    packets: u64,
    waited: Duration,
}

/// Book of a link's stalls.
#[derive(Debug)]
pub struct Book {
    pub now: Instant,
    started: Instant,
    minute: u64,
    minutes: Vec<Cells>,
    /// Since the start.
    pub totals: Cells,
    pub timeouts: u64,
    pub fast_retransmits: u64,
    pub goodput_bytes: [u64; 2],
    /// Packets with an acknowledgment that came, down and up.
    pub acknowledgments: [u64; 2],
    counting: [Turns; 2],
    turns: [Duration; 2],
    pub lengths: Histogram,
    /// Round trips to the wide network and back, to the users and back.
    pub round_trips: [Histogram; 2],
    pub packets: Histogram,
    pub last: VecDeque<Ended>,
    number: u64,
    pub users: Vec<UserBook>,
    by_user: HashMap<User, u32>,
}

impl Book {
    /// An empty book.
    pub fn new(now: Instant) -> Self {
        Self {
            now,
            started: now,
            minute: 0,
            minutes: vec![NO_CELLS; HOUR],
            totals: NO_CELLS,
            timeouts: 0,
            fast_retransmits: 0,
            goodput_bytes: [0; 2],
            acknowledgments: [0; 2],
            counting: [Turns::default(); 2],
            turns: [Duration::ZERO; 2],
            lengths: Histogram::new(STALLS_S, MICROS),
            round_trips: [0; 2].map(|_| Histogram::new(ROUND_TRIPS_S, MICROS)),
            packets: Histogram::new(PACKETS, 1),
            last: VecDeque::with_capacity(LAST),
            number: 0,
            users: Vec::new(),
            by_user: HashMap::new(),
        }
    }

    /// Time goes on: the oldest minutes are forgotten.
    pub fn tick(&mut self, now: Instant) {
        self.now = now;
        let minute = now.since(self.started).as_millis() / MINUTE_MS;
        for new in (self.minute + 1..=minute).take(HOUR) {
            self.minutes[new as usize % HOUR] = NO_CELLS;
        }
        if minute == self.minute {
            return;
        }
        for user in &mut self.users {
            for new in (self.minute + 1..=minute).take(HOUR) {
                user.minutes[new as usize % HOUR] = UserMinute::default();
                user.causes[new as usize % QUARTER] = [0; Cause::COUNT];
            }
            user.usage.tick(minute);
        }
        self.minute = minute;
    }

    /// The place of a user.
    pub fn user(&mut self, user: User) -> u32 {
        if let Some(at) = self.by_user.get(&user) {
            return *at;
        }
        let new = UserBook::new(user, self.minute);
        // The last place is for all for whom there is none.
        let full = self.users.len() == USERS;
        let at = if full { USERS - 1 } else { self.users.len() };
        if full {
            self.users[at].user = User::STRANGERS;
        } else {
            self.users.push(new);
            self.by_user.insert(user, at as u32);
        }
        at as u32
    }

    /// Forgets users that have not been heard of for an hour, if there are many. Says where each of the others is now.
    pub fn forget_users(&mut self) -> Option<Vec<Option<u32>>> {
        let minute = self.minute;
        let old = |u: &UserBook| u.seen + HOUR as u64 <= minute;
        if self.users.len() < USERS || !self.users.iter().any(old) {
            return None;
        }
        let mut kept = 0;
        let moved = self
            .users
            .iter()
            .map(|u| {
                (!old(u)).then(|| {
                    kept += 1;
                    kept - 1
                })
            })
            .collect();
        self.users.retain(|u| !old(u));
        self.by_user = self.users.iter().enumerate().map(|(at, u)| (u.user, at as u32)).collect();
        Some(moved)
    }

    /// User at an index of the book.
    pub fn name(&self, user: u32) -> User {
        self.users.get(user as usize).map_or(User::STRANGERS, |u| u.user)
    }

    /// Notes that a user has had packets in the present minute.
    pub fn heard_of(&mut self, user: u32) {
        if let Some(user) = self.users.get_mut(user as usize) {
            user.seen = self.minute;
        }
    }

    /// A packet of a user comes to the box.
    pub fn offered(&mut self, user: u32, d: usize, bytes: u64) {
        if let Some(user) = self.users.get_mut(user as usize) {
            user.usage.offered(d, bytes);
        }
    }

    /// Notes that a packet has left the box; `waited` is `None` for a packet without data.
    pub fn carried(&mut self, user: u32, d: usize, bytes: u64, waited: Option<Duration>) {
        if let Some(user) = self.users.get_mut(user as usize) {
            user.usage.delivered(d, bytes, waited);
        }
        if let Some(waited) = waited {
            self.counting[d].packets += 1;
            self.counting[d].waited += waited;
        }
    }

    /// All connections have been looked at.
    pub fn end_pass(&mut self) {
        let mean = |t: Turns| Duration::from_nanos(t.waited.as_nanos() / t.packets.max(1));
        self.turns = std::mem::take(&mut self.counting).map(mean);
    }

    /// Mean wait of packets with data for their turn in the box, as of the latest look: down, up.
    pub const fn turns(&self) -> [Duration; 2] {
        self.turns
    }

    /// A connection stalls at a look at all.
    pub fn goes_on(&mut self, stall: &Stall) {
        self.note(stall);
        if let Some(user) = self.users.get_mut(stall.user as usize) {
            user.counting += 1;
        }
    }

    /// Notes at the stall's user that the stall lasts until now.
    fn note(&mut self, stall: &Stall) {
        let (minute, begun) = (self.minute, self.age(self.now).saturating_sub(stall.length));
        let span = Span { from: self.started + begun, until: self.now };
        let Some(user) = self.users.get_mut(stall.user as usize) else { return };
        user.stalled_at = Some(minute);
        if stall.length > LONG {
            user.stalled_long_at = Some(minute);
        }
        let cell = &mut user.minutes[minute as usize % HOUR];
        cell.longest_ds = cell.longest_ds.max(tenths(stall.length));
        let (minutes, started) = (&mut user.minutes, self.started);
        let by_cause = &mut user.causes[minute as usize % QUARTER][stall.cause.index()];
        user.covered.add(span, |fresh| {
            *by_cause += fresh.until.since(fresh.from).as_millis();
            spread(minutes, started, fresh);
        });
    }

    /// A stall is over.
    #[cold]
    pub fn ended(&mut self, stall: Stall) {
        let minute = self.minute as usize;
        for cells in [&mut self.minutes[minute % HOUR], &mut self.totals] {
            let cell = &mut cells[stall.cause.index()][stall.lost.index()];
            cell.stalls = cell.stalls.saturating_add(1);
            cell.last(stall.length);
        }
        if stall.cause.is_of_the_network() {
            self.lengths.add(stall.length.as_nanos() / 1000);
            self.note(&stall);
        }
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.number += 1;
        let user = self.name(stall.user);
        self.last.push_back(Ended { number: self.number, at: self.now, user, stall });
    }

    /// A sender has sent something again.
    pub fn repaired(&mut self, repair: Repair) {
        self.timeouts += u64::from(repair == Repair::Timeout);
        self.fast_retransmits += u64::from(repair == Repair::FastRetransmit);
    }

    /// Notes a round trip from the box to the end from which direction `d` comes, and back.
    pub fn round_trip(&mut self, d: usize, trip: Duration) {
        self.round_trips[d].add(trip.as_nanos() / 1000);
    }

    /// New data that an end has acknowledged.
    pub fn goodput(&mut self, d: usize, bytes: u32) {
        self.goodput_bytes[d] += u64::from(bytes);
    }

    /// New packets in a round trip.
    pub fn packets_of_trip(&mut self, packets: u16) {
        self.packets.add(packets.into());
    }

    /// Sum of the cells of the last `minutes` minutes, the present one included.
    pub fn cells(&self, minutes: usize) -> Cells {
        let mut sum = NO_CELLS;
        for back in 0..minutes.min(self.minute as usize + 1) {
            let cells = &self.minutes[(self.minute as usize - back) % HOUR];
            for (to, from) in sum.iter_mut().flatten().zip(cells.iter().flatten()) {
                to.add(from);
            }
        }
        sum
    }

    /// Whether a minute is one of the last quarter of an hour.
    pub const fn is_late(&self, minute: u64) -> bool {
        minute + QUARTER as u64 > self.minute
    }

    /// Users of the last quarter of an hour.
    pub fn users_of_quarter(&self) -> UsersOfQuarter {
        let late = |at: Option<u64>| at.is_some_and(|minute| self.is_late(minute));
        let count = |of: fn(&UserBook) -> Option<u64>| self.users.iter().filter(|u| late(of(u))).count();
        UsersOfQuarter {
            seen: count(|u| Some(u.seen)),
            stalled: count(|u| u.stalled_at),
            stalled_long: count(|u| u.stalled_long_at),
        }
    }

    /// The latest minutes of a user, oldest first; fewer if the box is younger.
    pub fn minutes_of<'a>(
        &self,
        user: &'a UserBook,
        minutes: usize,
    ) -> impl Iterator<Item = UserMinute> + 'a {
        let now = self.minute as usize;
        (0..minutes.min(now + 1)).rev().map(move |back| user.minutes[(now - back) % HOUR])
    }

    /// Time since the book was begun.
    pub fn age(&self, at: Instant) -> Duration {
        at.since(self.started)
    }
}

/// Adds a span of stalled time to the minutes that the span covers, as far as those are kept.
fn spread(minutes: &mut [UserMinute; HOUR], started: Instant, span: Span) {
    let (mut from, until) = (span.from.since(started).as_millis(), span.until.since(started).as_millis());
    from = from.max(until.saturating_sub(HOUR as u64 * MINUTE_MS));
    while from < until {
        let end = until.min((from / MINUTE_MS + 1) * MINUTE_MS);
        let cell = &mut minutes[(from / MINUTE_MS) as usize % HOUR];
        cell.stalled_ms = cell.stalled_ms.saturating_add((end - from) as u16);
        from = end;
    }
}

fn tenths(time: Duration) -> u16 {
    (time.as_millis() / 100).min(u64::from(u16::MAX)) as u16
}
