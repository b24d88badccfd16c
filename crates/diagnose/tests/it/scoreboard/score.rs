//! Precision and recall: what the diagnosis says against what happened.

use core::fmt;
use core::ops::AddAssign;
use std::collections::BTreeMap;

use narrows_diagnose::{Cause, FlowReport, Place, Repair, Stall};

use crate::scoreboard::label::TrueStall;
use crate::scoreboard::truth::{Book, Books, Did, Pair};

/// Times in seconds of what happened.
pub(crate) type Account = BTreeMap<Pair, Vec<f64>>;

/// How often something was, was found, was said, and was said rightly.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Score {
    pub(crate) truth: usize,
    found: usize,
    pub(crate) said: usize,
    right: usize,
}

impl AddAssign for Score {
    fn add_assign(&mut self, other: Self) {
        self.truth += other.truth;
        self.found += other.found;
        self.said += other.said;
        self.right += other.right;
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6} {:>5.3} {:>5.3}", self.truth, self.precision(), self.recall())
    }
}

impl Score {
    /// Score of a class with `truth` true cases, of which `right` were among the `said` claims.
    pub(crate) fn new(truth: usize, said: usize, right: usize) -> Self {
        Self { truth, found: right.min(truth), said, right }
    }
    pub(crate) fn precision(self) -> f64 {
        if self.said == 0 { f64::NAN } else { self.right as f64 / self.said as f64 }
    }
    pub(crate) fn recall(self) -> f64 {
        if self.truth == 0 { f64::NAN } else { self.found as f64 / self.truth as f64 }
    }
    /// How far the number is off.
    pub(crate) fn off(self) -> f64 {
        self.said as f64 / self.truth as f64 - 1.0
    }

    /// Compares moments, one by one. Two moments match if they are at most .6 s apart, the way to the capture and a
    /// wait in the queue included, and a quarter of the time since the one before: what was not seen can only be placed
    /// by its back-off.
    pub(crate) fn of(truth: &Account, said: &Account) -> Self {
        let none = Vec::new();
        let mut right = 0;
        for (pair, times) in truth {
            let found = said.get(pair).unwrap_or(&none);
            let mut used = vec![false; found.len()];
            let mut before = 0.0;
            for time in times {
                let near = 0.6 + (time - before).min(60.0) / 4.0;
                before = *time;
                let first = found.partition_point(|at| *at < time - near);
                let best = (first..found.len())
                    .take_while(|n| found[*n] <= time + near)
                    .filter(|n| !used[*n])
                    .min_by(|a, b| (found[*a] - time).abs().total_cmp(&(found[*b] - time).abs()));
                if let Some(n) = best {
                    used[n] = true;
                    right += 1;
                }
            }
        }
        let count = |a: &Account| a.values().map(Vec::len).sum::<usize>();
        Self { truth: count(truth), found: right, said: count(said), right }
    }
}

/// Times at which senders did `what`, by their own account, as far as the point can know.
pub(crate) fn did(books: &Books, what: Did, point: usize) -> Account {
    // A point that has seen no data of an end cannot know.
    let times = |b: &Book| {
        let begun = b.copies.iter().find(|c| !c.syn && c.seen[point]).map_or(f64::INFINITY, |c| c.sent);
        // A FIN alone, of which no copy has passed, cannot be known either.
        let hidden = |at: f64| {
            let next = b.copies.partition_point(|c| c.sent < at - 1e-6);
            let mut earlier =
                b.copies.get(next).filter(|c| c.payload == 0 && c.nth > 1).and_then(|c| c.earlier);
            let fin = earlier.is_some();
            while let Some(e) = earlier.map(|e| &b.copies[e]).filter(|e| !e.seen[point]) {
                earlier = e.earlier;
            }
            fin && earlier.is_none()
        };
        b.did.iter().filter(|d| d.1 == what && d.0 > begun && !hidden(d.0)).map(|d| d.0).collect()
    };
    books.iter().map(|(pair, book)| (*pair, times(book))).collect()
}

/// Times of copies that were sent again although an earlier copy arrived.
pub(crate) fn spurious(books: &Books) -> Account {
    let mut account = Account::new();
    for (pair, book) in books {
        for c in book.copies.iter().filter(|c| c.nth > 1 && !c.syn) {
            let mut earlier = c.earlier;
            while let Some(e) = earlier.map(|e| &book.copies[e]).filter(|e| e.arrived.is_none()) {
                earlier = e.earlier;
            }
            if earlier.is_some() {
                account.entry(*pair).or_default().push(c.sent);
            }
        }
    }
    account
}

/// How many data segments were sent again.
pub(crate) fn sent_again(books: &Books) -> usize {
    books.values().flat_map(|b| &b.copies).filter(|c| c.nth > 1 && !c.syn && c.payload > 0).count()
}

/// Moments of a kind, as the diagnosis says.
pub(crate) fn said(flows: &[FlowReport], of: impl Fn(&narrows_diagnose::Event) -> bool) -> Account {
    let mut account = Account::new();
    for flow in flows {
        for e in flow.events.iter().filter(|e| of(e)) {
            account.entry(pair(flow, e.by)).or_default().push(e.at.as_secs_f64());
        }
    }
    account.values_mut().for_each(|times| times.sort_by(f64::total_cmp));
    account
}

fn pair(flow: &FlowReport, by: u8) -> Pair {
    let ends = [flow.opener, flow.other].map(|e| core::net::SocketAddr::new(e.address, e.port));
    (ends[usize::from(by)], ends[usize::from(1 - by)])
}

/// Stalls that the diagnosis says ended, by the end that stood still. A stall of a handshake belongs to both ends, and
/// stands with the opener.
pub(crate) fn said_stalls(flows: &[FlowReport]) -> BTreeMap<Pair, Vec<&Stall>> {
    let mut stalls: BTreeMap<Pair, Vec<&Stall>> = BTreeMap::new();
    for flow in flows {
        for stall in flow.stalls.iter().filter(|s| s.ended) {
            let greeting = stall.cause == Cause::HandshakeLost;
            stalls.entry(pair(flow, if greeting { 0 } else { stall.by })).or_default().push(stall);
        }
    }
    stalls
}

/// Time that two spans share, if it is at least half of the shorter; else `None`.
fn shared(a: (f64, f64, bool), b: (f64, f64, bool)) -> Option<f64> {
    let shared = a.1.min(b.1) - a.0.max(b.0);
    let least = (a.1 - a.0).min(b.1 - b.0) / 2.0;
    (shared >= least).then_some(shared)
}

/// The other with which it shares most. A handshake is compared with a handshake: the opener may have data under way
/// before the other end has heard.
fn partner<T>(of: (f64, f64, bool), among: &[T], span: impl Fn(&T) -> (f64, f64, bool)) -> Option<&T> {
    among
        .iter()
        .filter(|other| span(other).2 == of.2)
        .filter_map(|other| Some((shared(of, span(other))?, other)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}

fn true_span(s: &TrueStall) -> (f64, f64, bool) {
    (s.from, s.to, s.cause == Some(Cause::HandshakeLost))
}

fn said_span(s: &&Stall) -> (f64, f64, bool) {
    (s.from.as_secs_f64(), s.to.as_secs_f64(), s.cause == Cause::HandshakeLost)
}

/// Scores stalls, by class. A stall of one account is looked for among those of the other with which it shares most of
/// its time: several may share one, because a point does not see all progress. What is within a quarter of the least
/// length counts neither way.
pub(crate) fn stalls(
    truth: &[(Pair, Vec<TrueStall>)],
    said: &BTreeMap<Pair, Vec<&Stall>>,
    point: usize,
    key: impl Fn(&TrueStall) -> Option<String>,
    said_key: impl Fn(&Stall) -> Option<String>,
) -> BTreeMap<String, Score> {
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    for (pair, stalls) in truth {
        let others = said.get(pair).map_or(&[][..], Vec::as_slice);
        for s in stalls.iter().filter(|s| s.ratio >= 1.25 && s.visible[point]) {
            let Some(key) = key(s) else { continue };
            let found =
                partner(true_span(s), others, said_span).is_some_and(|o| said_key(o).as_ref() == Some(&key));
            *scores.entry(key).or_default() += Score { truth: 1, found: found.into(), ..Score::default() };
        }
        for s in others {
            let (Some(name), partner) = (said_key(s), partner(said_span(s), stalls, true_span)) else {
                continue;
            };
            if partner.is_some_and(|p| p.ratio < 1.25 || !p.visible[point]) {
                continue;
            }
            let right = partner.is_some_and(|p| key(p).as_ref() == Some(&name));
            *scores.entry(name).or_default() += Score { said: 1, right: right.into(), ..Score::default() };
        }
    }
    scores
}

/// How often a true cause was said to be which, to see where the diagnosis errs.
pub(crate) fn confusion(
    truth: &[(Pair, Vec<TrueStall>)],
    said: &BTreeMap<Pair, Vec<&Stall>>,
    point: usize,
) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    let name = |cause: Option<Cause>| cause.map_or("-".to_owned(), |c| format!("{c:?}"));
    for (pair, stalls) in truth {
        let others = said.get(pair).map_or(&[][..], Vec::as_slice);
        for s in stalls.iter().filter(|s| s.ratio >= 1.25 && s.visible[point]) {
            let found = partner(true_span(s), others, said_span).map(|o| o.cause);
            *counts.entry((name(s.cause), name(found))).or_default() += 1;
        }
        for s in others {
            if partner(said_span(s), stalls, true_span).is_none() {
                *counts.entry(("nothing".to_owned(), name(Some(s.cause)))).or_default() += 1;
            }
        }
    }
    counts
}

/// The back-off as a class.
pub(crate) fn backoff(factor: u64) -> Option<String> {
    match factor {
        0 | 1 => None,
        2 | 4 => Some(format!("back-off {factor}")),
        _ => Some("back-off 8 and more".to_owned()),
    }
}

/// A place as a class.
pub(crate) fn place(lost: Place) -> Option<String> {
    match lost {
        Place::Unknown => None,
        lost => Some(format!("lost {lost:?}").to_lowercase()),
    }
}

/// The classes of repairs: of each, its name, what a sender says, and what is said of it.
pub(crate) const REPAIRS: [(&str, Did, Repair); 3] = [
    ("timeout", Did::Timeout, Repair::Timeout),
    ("fast_retransmit", Did::Fast, Repair::FastRetransmit),
    ("tail_probe", Did::Probe, Repair::Probe),
];
