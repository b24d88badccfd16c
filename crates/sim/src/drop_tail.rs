//! A drop-tail queue in front of a wire, worked out ahead.
//!
//! First in, first out: when a packet comes, all that goes before it is there already, so it is known at once when its
//! sending begins and ends, and its arrival at the far end can be said. That spares the event "the link is free", which
//! a discipline that may choose the next packet, or drop one that waits, cannot do without. What the link has done by
//! some instant, which is what probes ask for, is counted when that instant has come ([`DropTail::pass`]).
//!
//! Who comes at the very instant at which a sending ends comes first if that was settled no later than the end was.

use std::collections::VecDeque;

use narrows_qdisc::{Backlog, Limit};
use narrows_units::{Bytes, Duration, Instant};

use crate::packet::PayloadKind;

/// A packet whose sending had not begun when the packet came.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    came: Instant,
    /// Time at which its sending ends. The sending begins when that of the packet before ends.
    ends: Instant,
    len: u32,
    kind: PayloadKind,
}

/// A packet whose sending has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) len: Bytes,
    pub(crate) kind: PayloadKind,
    /// Time that the packet waited.
    pub(crate) waited: Duration,
    /// Time that sending the packet takes.
    pub(crate) time: Duration,
}

/// The queue, and the wire's timetable.
#[derive(Debug)]
pub(crate) struct DropTail {
    limit: Limit,
    waiting: VecDeque<Waiting>,
    backlog: Backlog,
    /// Time at which the sending of the last packet that has begun did so, and when it ends.
    began: Instant,
    busy_until: Instant,
    /// Time at which that of the last one ends that was taken.
    full_until: Instant,
}

impl DropTail {
    pub(crate) fn new(limit: Limit) -> Self {
        Self {
            limit,
            waiting: VecDeque::new(),
            backlog: Backlog::default(),
            began: Instant::ZERO,
            busy_until: Instant::ZERO,
            full_until: Instant::ZERO,
        }
    }

    pub(crate) fn limit(&self) -> Limit {
        self.limit
    }

    /// The next packet whose sending has begun by the time something happens `now` that was scheduled at `since`, as
    /// long as there are such.
    #[inline(always)]
    pub(crate) fn pass(&mut self, now: Instant, since: Instant) -> Option<Begun> {
        let begins = self.busy_until;
        if begins > now {
            return None;
        }
        let next = *self.waiting.front()?;
        // The link would have said when it is free when it began to send with others waiting, or when the first of them
        // came.
        if begins == now && since <= self.began.max(next.came) {
            return None;
        }
        self.waiting.pop_front();
        let len = Bytes(u64::from(next.len));
        self.backlog.sub(len);
        (self.began, self.busy_until) = (begins, next.ends);
        Some(Begun { len, kind: next.kind, waited: begins.since(next.came), time: next.ends.since(begins) })
    }

    /// A packet comes `now`, up to which all has passed. When its sending, which takes `time`, begins and ends;
    /// `None` if it is dropped.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        now: Instant,
        len: Bytes,
        kind: PayloadKind,
        time: Duration,
    ) -> Option<(Instant, Instant)> {
        if !self.limit.admits(self.backlog, len) {
            return None;
        }
        let begins = self.full_until.max(now);
        let ends = begins + time;
        self.full_until = ends;
        if begins == now && self.waiting.is_empty() {
            (self.began, self.busy_until) = (now, ends);
        } else {
            self.backlog.add(len);
            self.waiting.push_back(Waiting { came: now, ends, len: len.get() as u32, kind });
        }
        Some((begins, ends))
    }

    /// Time at which the sending of a packet would begin that comes `now`; `None` if it is dropped.
    pub(crate) fn begins(&self, now: Instant, len: Bytes) -> Option<Instant> {
        self.limit.admits(self.backlog, len).then(|| self.full_until.max(now))
    }

    /// Time at which the sending of the last packet ends that was taken.
    pub(crate) fn full_until(&self) -> Instant {
        self.full_until
    }

    /// Packets that wait, at the instant up to which all has passed.
    pub(crate) fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Time at which the sending of the last packet ends that has begun.
    pub(crate) fn busy_until(&self) -> Instant {
        self.busy_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_qdisc::{Fifo, Qdisc as _, Record};

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn three_at_once_by_hand() {
        // Room for one; sending takes 10 ns. The second waits for the first, the third finds the room taken.
        let mut tail = DropTail::new(Limit::Packets(1));
        let ten = Duration::from_nanos(10);
        let come = |tail: &mut DropTail, ns| tail.take(at(ns), Bytes(100), PayloadKind::Bulk, ten);
        assert_eq!(come(&mut tail, 5), Some((at(5), at(15))));
        assert_eq!(come(&mut tail, 5), Some((at(15), at(25))));
        assert_eq!(come(&mut tail, 5), None);
        assert_eq!((tail.backlog().packets, tail.busy_until()), (1, at(15)));
        assert_eq!(tail.pass(at(14), at(14)), None);
        // At 15 ns the link is free, which was settled at 5. What was settled then or before happens first.
        assert_eq!(tail.pass(at(15), at(5)), None);
        let begun = Begun { len: Bytes(100), kind: PayloadKind::Bulk, waited: ten, time: ten };
        assert_eq!(tail.pass(at(15), at(6)), Some(begun));
        assert_eq!((tail.backlog().packets, tail.busy_until()), (0, at(25)));
    }

    /// The queue of `narrows_qdisc` in front of a link that asks it whenever it is free.
    #[test]
    fn it_does_what_a_fifo_that_is_asked_does() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for limit in [Limit::Packets(3), Limit::Bytes(Bytes(2_000))] {
            let (mut tail, mut fifo) = (DropTail::new(limit), Fifo::<Record>::new(limit));
            let (mut free, mut now) = (Instant::ZERO, Instant::ZERO);
            // Transmissions that each of both queues began: instant and packet.
            let (mut told, mut asked) = (Vec::new(), Vec::new());
            for id in 0..20_000 {
                // Odd instants and even times: no packet comes when another's sending ends.
                now += Duration::from_nanos(2 * rng.u64(0..600) + u64::from(id == 0));
                let (len, mut verdicts) = (Bytes(rng.u64(1..1_500)), Vec::new());
                let time = |len: Bytes| Duration::from_nanos(2 * (len.get() % 700) + 2);
                while free <= now
                    && let Some(packet) = fifo.dequeue(free, &mut verdicts)
                {
                    asked.push((free, packet.id));
                    free += time(packet.header.len);
                }
                let mut packet = Record { id, ..Record::default() };
                packet.header.len = len;
                fifo.enqueue(now, packet, &mut verdicts);
                if free <= now
                    && let Some(packet) = fifo.dequeue(now, &mut verdicts)
                {
                    asked.push((now, packet.id));
                    free = now + time(packet.header.len);
                }
                while tail.pass(now, now).is_some() {}
                let taken = tail.take(now, len, PayloadKind::Bulk, time(len));
                assert_eq!(taken.is_none(), !verdicts.is_empty(), "packet {id}");
                assert_eq!(tail.backlog(), fifo.backlog(), "packet {id}");
                told.extend(taken.map(|(begins, _)| (begins, id)));
            }
            told.truncate(asked.len());
            assert!(asked.len() > 5_000 && told == asked);
        }
    }
}
