//! Word of a sender's log about a silence in a capture of its connection.
//!
//! The clocks are put side by side by the handshake: a packet passes the capture after it is sent and before it is
//! received, so the first packets of both ends bound the difference. Queues that fill later only make packets pass
//! later than they were sent, so times at the sender are bounds too, and are taken so that no expiry of another silence
//! is counted.

use std::net::SocketAddr;

use narrows_units::Instant;
use serde::Serialize;

use super::{SenderLog, SentPacket};
use crate::quic::QlogSums;

/// Word of a sender's log about a silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SenderWord {
    /// End that keeps the log: 0 the client, 1 the server.
    pub by: u8,
    /// Expiries of the sender's probe timer.
    pub timeouts: u32,
    /// Packets under way when the timer expired first that the sender declared lost, and that were never acknowledged.
    pub lost: u32,
    /// Whether what ended the silence answers a packet from before the first expiry: the timer was needless.
    pub needless: bool,
    /// Whether the sender had nothing in flight, and sent nothing, for the better part of the silence; `None` if the
    /// log does not tell.
    pub idle: Option<bool>,
}

/// A connection seen in the capture, for [`SenderLog::aligned`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    /// Addresses of the client and of the server.
    pub(crate) ends: [SocketAddr; 2],
    /// Time of the client's first packet.
    pub(crate) first: Instant,
    /// Time of the server's first packet.
    pub(crate) answered: Option<Instant>,
    /// Time of the last packet.
    pub(crate) last: Instant,
}

/// A silence in a capture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    /// End whose packet ended the silence.
    pub(crate) ended_by: usize,
    /// End that sent again and again into the silence, if an end did.
    pub(crate) asks: Option<usize>,
}

/// A log beside the capture of the log's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aligned<'a> {
    pub(crate) log: &'a SenderLog,
    owner: usize,
    /// Bounds of the capture's time less the log's: of a packet that is received, and of one that is sent.
    received: i64,
    sent: i64,
}

/// Time in which a busy host answers, nanoseconds; clocks that are put side by side are off by as much.
const NEAR: i64 = 5_000_000;
/// Difference of clocks that both are right, as NTP keeps them, nanoseconds.
const RIGHT: i64 = 100_000_000;

fn nanos(at: Instant) -> i64 {
    i64::try_from(at.as_nanos()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}

impl SenderLog {
    /// Whether this is the log of a connection that was captured, by its addresses; `None` if the log has none.
    pub(crate) fn is_of(&self, passed: &Passed) -> Option<bool> {
        let [a, b] = self.ends?;
        Some(passed.ends == [a, b] || passed.ends == [b, a])
    }

    /// Time of the first event.
    fn begun(&self) -> Option<i64> {
        let first = [self.packets.first().map(|p| p.at), self.received.first().copied()];
        first.into_iter().flatten().min()
    }

    /// Nanoseconds between the beginnings of the log and of a connection that was captured, if both clocks are right.
    /// `origin` is the time of the capture's beginning, in nanoseconds since 1970.
    pub(crate) fn apart(&self, passed: &Passed, origin: Option<i128>) -> Option<i64> {
        let begun = i128::from(self.begun()?) - origin?;
        let apart = i64::try_from(begun - i128::from(nanos(passed.first))).ok()?;
        Some(apart.saturating_abs())
    }

    /// Whether this may be the log of a connection that was captured, by its length and the packets of its end.
    pub(crate) fn is_like(&self, passed: &Passed, packets: [u64; 2]) -> bool {
        let ends = [self.packets.last().map(|p| p.at), self.received.last().copied()];
        let (Some(begun), Some(end), Some(owner)) =
            (self.begun(), ends.into_iter().flatten().max(), self.owner)
        else {
            return false;
        };
        let (lasted, seen) = (end - begun, nanos(passed.last) - nanos(passed.first));
        let alike = |a: i64, b: i64, most: i64| (a - b).abs() <= (a.max(b) / 10).max(most);
        // Several packets may share a datagram, and some are lost before the capture.
        let (sent, captured) = (self.packets.len() as u64, packets[owner]);
        alike(lasted, seen, 1_000_000_000) && captured <= sent && captured >= sent / 4
    }

    /// Puts the log beside its connection; `None` if the beginning of either is missing.
    pub(crate) fn aligned(&self, passed: &Passed, origin: Option<i128>) -> Option<Aligned<'_>> {
        let owner = self.owner?;
        let firsts = [nanos(passed.first), nanos(passed.answered?)];
        let (first_sent, first_received) = (self.packets.first()?.at, *self.received.first()?);
        let (mut received, mut sent) = (firsts[1 - owner] - first_received, firsts[owner] - first_sent);
        // Where both clocks are of one machine, or right, they tell what lost first packets hide.
        let clock = origin.and_then(|origin| i64::try_from(-origin).ok());
        if let Some(clock) = clock.filter(|c| {
            received <= c.saturating_add(RIGHT) && *c <= sent.saturating_add(RIGHT) && received <= sent
        }) {
            (received, sent) = (clock.clamp(received, sent), clock.clamp(received, sent));
        }
        (received <= sent.saturating_add(NEAR)).then_some(Aligned { log: self, owner, received, sent })
    }
}

impl Aligned<'_> {
    /// Sums over the connection.
    pub(crate) fn sums(&self) -> QlogSums {
        let [lost, spurious] = self.log.lost();
        QlogSums {
            name: self.log.name.clone(),
            by: self.owner as u8,
            sent: self.log.packets.len() as u64,
            lost,
            spurious,
            timeouts: self.log.expired.len() as u64,
        }
    }

    /// Word of the log about a silence; `None` if it is of the end that was silent while the other asked, or if the
    /// clocks are not known well enough.
    pub(crate) fn word(&self, silence: &Silence) -> Option<SenderWord> {
        let Self { log, owner, received, sent } = *self;
        let Silence { from, to, ended_by, asks } = *silence;
        let (from, to) = (nanos(from), nanos(to));
        if asks.is_some_and(|asks| asks != owner) || sent - received > (to - from) / 2 {
            return None;
        }
        let (begun, ended) = (from - received, to - received);
        if log.last < begun {
            return None;
        }
        let within = |all: &[i64]| {
            let (first, last) =
                (all.partition_point(|at| *at < begun), all.partition_point(|at| *at <= ended));
            [first, last.max(first)]
        };
        let [first, last] = within(&log.expired);
        let mut word =
            SenderWord { by: owner as u8, timeouts: (last - first) as u32, ..SenderWord::default() };
        if let Some(&expired) = log.expired[first..last].first() {
            self.after(begun, expired, ended, &mut word);
        } else {
            word.idle = self.idle(begun, if ended_by == owner { to - sent + NEAR } else { ended }, ended_by);
        }
        Some(word)
    }

    /// Fills in the fate of packets that were under way at the first expiry, in a silence from `begun` to `ended`.
    fn after(&self, begun: i64, expired: i64, ended: i64, word: &mut SenderWord) {
        let log = self.log;
        let heard = log.received.get(log.received.partition_point(|at| *at < ended.max(expired))).copied();
        let trip = log.least_trip.unwrap_or(0);
        let before = log.packets.partition_point(|p| p.at < expired);
        // The latest packet heard before it answers packets of a round trip before; older ones were lost earlier.
        let last = log.received[..log.received.partition_point(|at| *at <= begun)].last();
        let since = last.map_or(i64::MIN, |at| at.saturating_sub(trip));
        // Acknowledgments before the end passed before the silence.
        let open = |p: &&SentPacket| p.at >= since && p.acked.is_none_or(|at| at >= ended);
        let under_way = || log.packets[..before].iter().filter(open);
        if let Some(acked) = under_way().filter_map(|p| p.acked).min() {
            let mut probes = log.packets[before..].iter().take_while(|p| p.at <= acked);
            word.needless = Some(acked) == heard && !probes.any(|p| p.acked == Some(acked));
        } else if !log.packets.iter().any(|p| p.acked.is_some()) {
            // Without acknowledgments: what comes sooner than a round trip answers no probe, unless the other end's own
            // timer sent it, and then what was under way would be lost.
            let soon = heard.is_some_and(|heard| heard - expired < trip);
            word.needless = soon && under_way().all(|p| p.lost.is_none());
        }
        let lost = under_way().filter(|p| p.acked.is_none() && p.lost.is_some_and(|at| at >= expired));
        word.lost = lost.count() as u32;
    }

    /// Whether the end that keeps the log was idle for three quarters of a silence or more, until it sent again or
    /// until the other end did.
    fn idle(&self, begun: i64, ended: i64, ended_by: usize) -> Option<bool> {
        let packets = &self.log.packets;
        let next = packets.get(packets.partition_point(|p| p.at <= begun + NEAR)).map(|p| p.at);
        let until = match next.filter(|at| *at <= ended) {
            Some(at) => at,
            None if ended_by == self.owner => return None,
            None => ended,
        };
        if until - begun < (ended - begun) / 4 * 3 {
            return Some(false);
        }
        let latest = packets[..packets.partition_point(|p| p.at < until)].last().map_or(begun, |p| p.at);
        if self.log.blocked.iter().any(|at| (latest..until).contains(at)) {
            return None;
        }
        let known = &self.log.in_flight;
        let told = known[..known.partition_point(|(at, _)| *at < until)].last();
        told.map(|(_, bytes)| *bytes == 0)
    }
}
