//! All connections, looked at about once a second, a few at a time: what they do now, who stalls, and which are over.

use narrows_flow::Micros;
use narrows_units::{Duration, Instant};

use super::Sight;
use super::book::{Book, Cells, Stall};
use super::cause::Cause;
use super::half::Gaps;
use super::record::Record;
use super::table::Table;

/// Time in which every connection is looked at once.
const PASS: Duration = Duration::from_secs(1);
/// Most that are looked at between two packets, for each millisecond that has passed since the last look.
const AT_ONCE: u64 = 128;
/// Least time between two looks.
const PACE: Duration = Duration::from_millis(1);
/// Time for which a connection is kept that is over, or never had an answer.
const LINGER: Duration = Duration::from_secs(30);
/// The longest back-off is two minutes (RFC 6298, (2.5); Linux): who is silent for longer has given up.
const GIVES_UP: Duration = Duration::from_secs(150);
/// Time for which a silent connection is kept.
const SILENT: Duration = Duration::from_secs(600);
/// Time since a connection's last packet within which it counts as moving.
const LATELY: Duration = Duration::from_secs(2);
/// Number of stalls in progress that are reported.
const SHOWN: usize = 24;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The handshake is not over.
    Opening,
    /// Data goes, and is acknowledged.
    Moving,
    /// Packets of the connection wait for their turn in the box's queue.
    Waiting,
    /// Data is due and does not come, or a repair is awaited.
    Stalled,
    /// The connection waits for nothing, or for an application.
    Idle,
}

impl State {
    /// Names of the states, in the order of `Now::states`.
    pub const NAMES: [&'static str; 5] = ["opening", "moving", "waiting", "stalled", "idle"];
}

/// All connections as of one look.
#[derive(Clone, Debug, Default)]
pub struct Now {
    /// Connections by [`State`].
    pub states: [u32; 5],
    /// Connections that stall, by cause; where both directions do, by that of the longer stall.
    pub causes: [u32; Cause::COUNT],
    /// Time that stalls in progress have lasted so far; the number of the stalls is left out.
    pub lasting: Cells,
    /// Stalls, the longest first.
    pub stalls: Vec<Stall>,
    /// Users one of whose connections stalls.
    pub users: u32,
}

/// Progress of the look at all connections.
#[derive(Debug)]
pub struct Sweep {
    pub now: Now,
    next: Now,
    at: usize,
    begun: Instant,
    looked: Instant,
}

impl Sweep {
    /// Sweep before the first look.
    pub fn new(now: Instant) -> Self {
        Self { now: Now::default(), next: Now::default(), at: 0, begun: now, looked: now }
    }
}

impl Now {
    fn count(&mut self, record: &Record, gaps: &[Gaps; 2], now: Micros, book: &mut Book) {
        let turns = book.turns();
        let both = [0, 1].into_iter().filter_map(|d| record.stall_now(now, d, gaps, turns));
        let worst = both.max_by_key(|stall| (stall.cause.is_of_the_network(), stall.length));
        let stalled = worst.as_ref().is_some_and(|stall| stall.cause.is_of_the_network());
        if let Some(stall) = worst {
            self.causes[stall.cause.index()] += 1;
            if stalled {
                book.goes_on(&stall);
                self.lasting[stall.cause.index()][stall.lost.index()].last(stall.length);
                self.show(stall);
            }
        }
        let state = match () {
            () if stalled => State::Stalled,
            () if record.is_closed() => State::Idle,
            () if record.is_opening() => State::Opening,
            () if record.queued() => State::Waiting,
            () if record.moves(now, LATELY) => State::Moving,
            () if now.since(record.seen) < LATELY => State::Moving,
            () => State::Idle,
        };
        self.states[state as usize] += 1;
    }

    /// Adds a stall to the longest ones, if it is among them.
    fn show(&mut self, stall: Stall) {
        let at = self.stalls.partition_point(|s| s.length >= stall.length);
        if at < SHOWN {
            self.stalls.truncate(SHOWN - 1);
            self.stalls.insert(at, stall);
        }
    }
}

impl Sight {
    /// Looks at the connections that are due.
    pub fn tick(&mut self, at: Instant) {
        if at.since(self.sweep.looked) < PACE {
            return;
        }
        let all = self.table.records.places();
        let share = at.since(self.sweep.begun).as_nanos().min(PASS.as_nanos()) * all as u64 / PASS.as_nanos();
        let most = AT_ONCE * (1 + at.since(self.sweep.looked).as_millis());
        let due = share.saturating_sub(self.sweep.at as u64).min(most) as usize;
        self.sweep.looked = at;
        if due == 0 && at.since(self.sweep.begun) < PASS {
            return;
        }
        let now = Micros::at(at);
        self.book.tick(at);
        for slot in self.sweep.at..self.sweep.at + due {
            look(&mut self.table, slot as u32, now, &mut self.sweep.next, &mut self.book);
        }
        self.sweep.at += due;
        if self.sweep.at >= all && at.since(self.sweep.begun) >= PASS {
            self.end_pass(at);
        }
    }

    fn end_pass(&mut self, at: Instant) {
        self.book.end_pass();
        for user in &mut self.book.users {
            user.stalled = std::mem::take(&mut user.counting);
            self.sweep.next.users += u32::from(user.stalled > 0);
        }
        let now = std::mem::take(&mut self.sweep.next);
        self.sweep = Sweep { now, ..Sweep::new(at) };
        if let Some(moved) = self.book.forget_users() {
            let place = |user: u32| moved.get(user as usize).copied().flatten().unwrap_or(0);
            for slot in 0..self.table.records.places() as u32 {
                if let Some(record) = self.table.records.get_mut(slot) {
                    record.user = place(record.user);
                }
            }
            self.sweep.now.stalls.iter_mut().for_each(|s| s.user = place(s.user));
        }
    }
}

fn look(table: &mut Table, slot: u32, now: Micros, next: &mut Now, book: &mut Book) {
    let Some(record) = table.records.get_mut(slot) else { return };
    let gaps = &table.gaps[slot as usize];
    let silent = now.since(record.seen);
    if silent > GIVES_UP && !record.queued() {
        record.give_up(now, gaps, book);
    }
    let brief = record.is_closed() || !record.talks();
    // A SYN that is sent again comes after a minute at the latest while anybody waits for it.
    let kept = if brief && !record.awaits_handshake() { LINGER } else { SILENT };
    if silent > kept && !record.queued() {
        table.remove(slot);
        return;
    }
    if silent < LATELY {
        book.heard_of(record.user);
    }
    next.count(record, gaps, now, book);
}
