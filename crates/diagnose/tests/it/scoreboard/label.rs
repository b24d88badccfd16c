//! True stalls and their classes: a rule for each class, in terms of what really happened (see
//! [`crate::scoreboard::truth`]).
//!
//! A stall of a sender is a time without progress longer than 200 ms and two smoothed round trips (RFC 6298) in
//! which data is under way, or none is and then new data comes. Progress is new data that leaves the sender or an
//! acknowledgment that reaches it, also a duplicate. Times are the sender's, whatever the point of capture. The classes
//! are those of TAPO (Zhou et al., CoNEXT 2015, section 3), asked in this order, with its threshold of four segments,
//! which is one more than DupThresh. Where TAPO infers from a server's packets that something was lost, we know.
//!
//! 1. **Handshake lost**: from the first SYN until the called end has something else from the opener, if in that time a
//!    SYN, a SYN-ACK or the ACK for it was lost. A point of capture counts from the first that passes it.
//! 2. Nothing is under way when it begins. **Zero window** if the last window that the sender heard of was closed;
//!    **client idle** if it is the end that opened the connection; else **data not available**.
//! 3. **Closing**: only the FIN is under way, and is sent again because it was lost.
//! 4. No timer has expired in it, no tail-loss probe was sent: **zero window** if it was closed, else **packet delay**.
//! 5. **ACK delayed or lost**: of what the sender sent again an earlier copy arrived, of every one of them.
//! 6. **Double retransmission**: a copy that was itself a repair was lost, and is repaired in it.
//! 7. **Tail retransmission**: the sender had nothing else to send, so that fewer than three packets behind the lost
//!    one came to tell of it. It had nothing if no new data left until all that was under way is acknowledged, nor
//!    within 50 ms of that.
//! 8. **Small window**: fewer than four segments were under way, or of more fewer than three arrived but some (TAPO:
//!    fewer than four). It is the **receive window** if that has no room for one more full segment, else the
//!    **congestion window**.
//! 9. **Continuous loss**: none of four or more arrived.
//! 10. Three or more arrived, and yet the timer expired: their ACKs were lost, which is **ACK delayed or lost** too;
//!     if they were not, it has no class, and any that is said of it is wrong.
//!
//! Lost *before* or *behind* a point are the copies whose loss was repaired in the stall, by whether they passed there.
//! The *back-off* is the factor after the last expiry within the stall.

use std::collections::{HashMap, VecDeque};

use narrows_diagnose::{Cause, Place};

use crate::scoreboard::truth::{Book, Books, Copy, Did, Heard, Pair};

/// Longest time from an event to the repair that it causes: hosts send with up to 30 ms of jitter.
const NEAR: f64 = 0.05;

/// A stall as it was.
#[derive(Clone, Debug)]
pub(crate) struct TrueStall {
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// Class of the stall; `None` if it has none.
    pub(crate) cause: Option<Cause>,
    /// Length of the stall over the least that makes it one. From .5 to 1.25 it may be one and may not.
    pub(crate) ratio: f64,
    pub(crate) timeouts: usize,
    pub(crate) backoff: u64,
    /// Where, seen from each point.
    pub(crate) lost: [Place; 3],
    /// Whether the stall can be seen from each point at all.
    pub(crate) visible: [bool; 3],
}

/// The walk through a book.
struct Walk<'a> {
    book: &'a Book,
    una: u32,
    max: u32,
    /// The last progress.
    last: f64,
    /// Time at which the other end's latest data came, as long as it is not answered.
    asked: Option<f64>,
    srtt: f64,
    window: u32,
    /// The window was closed since the last progress.
    closed: bool,
    mss: u32,
    /// Data was sent.
    spoke: bool,
    /// Originals that are not acknowledged.
    under_way: VecDeque<&'a Copy>,
    /// The copies so far of what begins there.
    sent_so_far: HashMap<u32, Vec<&'a Copy>>,
    stalls: Vec<TrueStall>,
}

/// A copy that leaves, or something that comes.
#[derive(Clone, Copy)]
enum Step<'a> {
    Heard(&'a Heard),
    Sent(&'a Copy),
}

impl<'a> Walk<'a> {
    fn patience(&self) -> f64 {
        (2.0 * self.srtt).max(0.2)
    }

    fn add(&mut self, from: f64, to: f64, cause: Option<Cause>) -> Option<&mut TrueStall> {
        let ratio = (to - from) / self.patience();
        (ratio > 0.5).then(|| {
            let (lost, visible) = ([Place::Unknown; 3], [true; 3]);
            self.stalls.push(TrueStall { from, to, cause, ratio, timeouts: 0, backoff: 1, lost, visible });
        })?;
        self.stalls.last_mut()
    }

    fn sent(&mut self, c: &'a Copy) {
        self.sent_so_far.entry(c.seq).or_default().push(c);
        if c.syn {
            if c.nth == 1 {
                self.under_way.push_back(c);
            }
            (self.una, self.max, self.last) = (c.seq, c.end, c.sent);
            return;
        }
        if c.nth > 1 {
            return;
        }
        if self.una == self.max {
            let began = self.asked.map_or(self.last, |asked| asked.max(self.last));
            let cause = match () {
                () if self.closed => Cause::ZeroWindow,
                () if self.book.opener => Cause::ClientIdle,
                () => Cause::DataUnavailable,
            };
            if c.payload > 0 && (self.spoke || self.asked.is_some()) {
                self.add(began, c.sent, Some(cause));
            }
        } else {
            self.gap(c.sent);
        }
        (self.last, self.max, self.asked, self.spoke) = (c.sent, c.end, None, true);
        self.closed = self.window == 0;
        self.mss = self.mss.max(c.payload);
        self.under_way.push_back(c);
    }

    fn heard(&mut self, h: &Heard) {
        if h.payload > 0 {
            self.asked = Some(h.at);
        }
        let before = core::mem::replace(&mut self.window, h.window);
        self.closed |= h.window == 0;
        if h.syn || self.under_way.front().is_some_and(|c| c.syn) {
            // The handshake is its own stall.
            self.sample(h);
            (self.una, self.last) = (self.una.max(h.ack), h.at);
            return;
        }
        if h.ack > self.una {
            self.window = before;
            self.gap(h.at);
            (self.window, self.closed) = (h.window, h.window == 0);
            self.sample(h);
            (self.una, self.last) = (h.ack, h.at);
        } else if h.pure && h.ack == self.una && self.una < self.max {
            self.gap(h.at);
            self.last = h.at;
        }
    }

    /// RFC 6298, (2.2) and (2.3), of the copy that arrived last among those which the acknowledgment covers: we know
    /// which one it answers.
    fn sample(&mut self, h: &Heard) {
        let mut latest: Option<(f64, f64)> = None;
        while let Some(c) = self.under_way.front().copied().filter(|c| c.end <= h.ack) {
            let copies = self.sent_so_far.remove(&c.seq).unwrap_or_default();
            let came = copies.iter().filter_map(|c| Some((c.arrived.filter(|at| *at < h.at)?, c.sent)));
            latest = came.chain(latest).max_by(|a, b| a.0.total_cmp(&b.0));
            self.under_way.pop_front();
        }
        if let Some((_, sent)) = latest {
            let r = h.at - sent;
            self.srtt = if self.srtt == 0.0 { r } else { self.srtt + (r - self.srtt) / 8.0 };
        }
    }

    /// Something was under way, and there is progress at `to`.
    fn gap(&mut self, to: f64) {
        let from = self.last;
        if self.una >= self.max || to - from < 0.5 * self.patience() {
            return;
        }
        let within = |at: f64| at > from && at <= to;
        let book = self.book;
        let expiries: Vec<u64> =
            book.did.iter().filter(|d| d.1 == Did::Timeout && within(d.0)).map(|d| d.2).collect();
        let (cause, repaired) = self.cause(to, !expiries.is_empty());
        let Some(stall) = self.add(from, to, cause) else { return };
        // A point that has seen no data of this end, or of a FIN only the last copy, cannot know.
        let shown = |point: usize| {
            let before = |c: &&Copy| !c.syn && c.seen[point] && c.sent <= from;
            match cause {
                Some(Cause::Closing) => book.copies.iter().any(|c| before(&c) && c.payload == 0),
                _ => book.copies.iter().any(|c| before(&c)),
            }
        };
        stall.visible = [0, 1, 2].map(shown);
        stall.timeouts = expiries.len();
        stall.backoff = expiries.last().copied().unwrap_or(1);
        for lost in repaired {
            for (place, seen) in stall.lost.iter_mut().zip(lost.seen) {
                *place = place.and(if seen { Place::Behind } else { Place::Before });
            }
        }
    }

    /// Class of the stall that ends at `to`, by the rules 4 to 10 of this module. Also gives the lost copies that were
    /// repaired.
    fn cause(&self, to: f64, expired: bool) -> (Option<Cause>, Vec<&'a Copy>) {
        let (book, from) = (self.book, self.last);
        let again: Vec<&'a Copy> =
            book.copies.iter().filter(|c| c.nth > 1 && c.sent > from && c.sent <= to).collect();
        let earlier = |c: &Copy| c.earlier.map(|e| &book.copies[e]);
        // All before a copy.
        let arrived = |c: &Copy| {
            let mut at = earlier(c);
            while let Some(e) = at.filter(|e| e.arrived.is_none()) {
                at = earlier(e);
            }
            at.is_some()
        };
        let needed: Vec<&'a Copy> = again.iter().copied().filter(|c| !arrived(c)).collect();
        let repaired: Vec<&'a Copy> = needed.iter().filter_map(|c| earlier(c)).collect();
        let probed = book.did.iter().any(|d| d.1 == Did::Probe && d.0 > from - 1e-3 && d.0 <= to);
        let fin_only = book.copies.iter().any(|c| c.seq == self.una && c.payload == 0);
        let cause = match () {
            () if fin_only && !needed.is_empty() => Cause::Closing,
            () if again.is_empty() || !(expired || probed) => {
                return if self.closed {
                    (Some(Cause::ZeroWindow), Vec::new())
                } else {
                    (Some(Cause::PacketDelay), Vec::new())
                };
            }
            () if needed.is_empty() => Cause::AckDelayedOrLost,
            () if repaired.iter().any(|c| c.nth > 1) => Cause::DoubleRetransmission,
            () => return (self.too_few(to), repaired),
        };
        (Some(cause), repaired)
    }

    /// Rules 7 to 10.
    fn too_few(&self, to: f64) -> Option<Cause> {
        let count = self.under_way.len();
        let arrived = self.under_way.iter().filter(|c| c.arrived.is_some_and(|at| at < to)).count();
        if arrived < 3 && self.said_all() {
            return Some(Cause::TailLoss);
        }
        if count < 4 || (1..3).contains(&arrived) {
            let full = self.window < self.max - self.una + self.mss;
            return Some(if full { Cause::SmallReceiveWindow } else { Cause::SmallCongestionWindow });
        }
        if arrived == 0 {
            return Some(Cause::ContinuousLoss);
        }
        let told = self.book.heard.iter().filter(|h| h.pure && h.ack == self.una && h.at <= self.last);
        (told.count() < 4).then_some(Cause::AckDelayedOrLost)
    }

    /// Tells whether no new data leaves until all is acknowledged, nor soon after.
    fn said_all(&self) -> bool {
        let next = self.book.copies.iter().find(|c| c.seq >= self.max).map(|c| c.sent);
        let done = self.book.heard.iter().find(|h| h.ack >= self.max).map(|h| h.at);
        match (next, done) {
            (Some(next), Some(done)) => next > done + NEAR,
            (None, Some(_)) => true,
            // The run ends before: what was said last is the end only if it says so.
            (_, None) => self.book.copies.last().is_some_and(|c| c.payload == 0 && !c.syn),
        }
    }
}

/// The stalls of one sender, its handshake apart.
fn of(book: &Book) -> Vec<TrueStall> {
    let mut walk = Walk {
        book,
        una: 0,
        max: 0,
        last: 0.0,
        asked: None,
        srtt: 0.0,
        window: 0,
        closed: false,
        mss: 0,
        spoke: false,
        under_way: VecDeque::new(),
        sent_so_far: HashMap::new(),
        stalls: Vec::new(),
    };
    let mut steps: Vec<(f64, Step<'_>)> = book.heard.iter().map(|h| (h.at, Step::Heard(h))).collect();
    steps.extend(book.copies.iter().map(|c| (c.sent, Step::Sent(c))));
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (_, step) in steps {
        match step {
            Step::Heard(h) => walk.heard(h),
            Step::Sent(c) => walk.sent(c),
        }
    }
    walk.stalls
}

/// Rule 1: of an opener and who it called.
fn handshake(opener: &Book, called: &Book) -> Option<TrueStall> {
    let first = opener.copies.iter().find(|c| c.syn)?;
    let done = called.heard.iter().find(|h| !h.syn)?.at;
    let greetings = || opener.copies.iter().chain(&called.copies).filter(|c| c.syn);
    let again = greetings().any(|c| c.nth > 1);
    let length = done - first.sent;
    let ratio = length / 0.2;
    (again && ratio > 0.5).then(|| {
        // A point sees it from the first that passes.
        let seen = |point: usize| {
            let passed = greetings().filter(|c| c.seen[point]).map(|c| c.sent).fold(f64::INFINITY, f64::min);
            greetings().any(|c| c.seen[point] && c.nth > 1 && c.sent > passed + 0.2)
        };
        TrueStall {
            from: first.sent,
            to: done,
            cause: Some(Cause::HandshakeLost),
            ratio,
            timeouts: 0,
            backoff: 1,
            lost: [Place::Unknown; 3],
            visible: [0, 1, 2].map(seen),
        }
    })
}

/// Collects all stalls by the end that stood still; those of a handshake by the opener.
pub(crate) fn stalls(books: &Books) -> Vec<(Pair, Vec<TrueStall>)> {
    let of_pair = |(pair, book): (&Pair, &Book)| {
        let mut stalls = of(book);
        let called = books.get(&(pair.1, pair.0)).filter(|_| book.opener);
        stalls.extend(called.and_then(|called| handshake(book, called)));
        (*pair, stalls)
    };
    books.iter().map(of_pair).collect()
}
