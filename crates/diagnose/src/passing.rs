//! Packets that pass the point of capture, of all connections together: how many packets of how many others came in a
//! silence, how long packets have just waited on their way here, and whether hosts number their packets.

use std::collections::VecDeque;

use core::num::{NonZeroU16, NonZeroU64};

use narrows_units::{Duration, Instant};

use crate::tolerances::{
    ARRIVALS, BEHIND, BUSY, NUMBER_STEP, NUMBERED_IN, NUMBERED_LEAST, QUEUE_BEHIND, QUEUE_OLD, TIMED, WHOLE,
};

/// Packets of other connections in a silence, of the direction in which it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others {
    /// Number of other connections that had a packet.
    pub connections: u32,
    /// Number of packets of all the other connections.
    pub packets: u32,
    /// Packets of the one that had most.
    pub most: u32,
    /// Longest time without any.
    pub gap: Duration,
}

/// A packet of one direction.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Instant,
    connection: u64,
    /// Place of the one before of the same connection.
    before: Option<Place>,
}

/// Place of a packet among all packets of the packet's direction, from 1.
pub(crate) type Place = NonZeroU64;

/// One direction of the capture: from those who open connections, or from those who are called.
#[derive(Clone, Debug, Default)]
struct Direction {
    latest: VecDeque<Arrival>,
    /// Packets that are no longer among the latest.
    gone: u64,
    /// How long the latest packet of a sender with a known clock waited before here, and when.
    waited: Option<(Instant, Duration)>,
    /// Packets whose wait was told, and those that waited longer than a host takes.
    timed: u64,
    late: u64,
    /// Smoothed time between here and the receivers and back, above the least of each connection.
    behind: Duration,
    numbers: Numbers,
}

/// Steps of identifications within connections.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    /// Steps of one, and of few.
    next: u64,
    near: u64,
    all: u64,
}

impl Numbers {
    fn add(&mut self, step: u16) {
        self.all += 1;
        self.next += u64::from(step == 1);
        self.near += u64::from((1..=NUMBER_STEP).contains(&step));
    }

    /// Random ones are near by a chance of one in hundreds, and one next to the other hardly ever.
    const fn are_counts(self) -> bool {
        let Self { next, near, all } = self;
        all >= NUMBERED_LEAST && next * 4 >= all && near * NUMBERED_IN >= all * (NUMBERED_IN - 1)
    }
}

/// Signs in one packet of others of its direction, and of the way behind here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passage {
    /// Place of the packet before of the same end and connection.
    pub(crate) before: Option<Place>,
    /// Step of the identification from the packet before of the same end and connection.
    pub(crate) step: Option<u16>,
    /// Acknowledgments in the packet of data that was not seen here.
    pub(crate) unseen: u64,
    /// Wait of the packet before the capture, by the clock of the packet's sender.
    pub(crate) waited: Option<Duration>,
    /// How much later than ever the receiver of the other direction acknowledges.
    pub(crate) behind: Option<Duration>,
}

/// Packets of all connections that have passed, by direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passing {
    directions: [Direction; 2],
    packets: u64,
    /// Acknowledgments of data that was not seen.
    unseen: u64,
}

impl Passing {
    /// Takes a packet of this connection, from the end that opened it (0) or the other. Gives its place.
    pub(crate) fn passes(
        &mut self,
        from: usize,
        at: Instant,
        connection: u64,
        passage: Passage,
    ) -> Option<Place> {
        self.packets += 1;
        self.unseen += passage.unseen;
        let direction = &mut self.directions[from];
        if direction.latest.len() >= ARRIVALS {
            direction.latest.pop_front();
            direction.gone += 1;
        }
        direction.latest.push_back(Arrival { at, connection, before: passage.before });
        let place = Place::new(direction.gone + direction.latest.len() as u64);
        if let Some(step) = passage.step {
            direction.numbers.add(step);
        }
        if let Some(waited) = passage.waited {
            direction.waited = Some((at, waited));
            direction.timed += 1;
            direction.late += u64::from(waited > BUSY);
        }
        if let Some(excess) = passage.behind {
            let other = &mut self.directions[1 - from];
            other.behind = other.behind.ewma(excess, 4);
        }
        place
    }

    /// The capture has all that passes, as far as acknowledgments tell.
    pub(crate) fn is_whole(&self) -> bool {
        self.unseen * WHOLE < self.packets
    }

    /// Hosts of this end count the packets of a connection in their identification, as Linux does.
    pub(crate) fn are_numbered(&self, from: usize) -> bool {
        self.directions[from].numbers.are_counts()
    }

    /// Tells whether no queue stands before here in this direction: packets do not wait by their senders' clocks, or
    /// acknowledgments are late, so the queue is behind.
    pub(crate) fn is_clear_before(&self, from: usize) -> bool {
        let Direction { timed, behind, .. } = self.directions[from];
        (timed >= TIMED || behind >= QUEUE_BEHIND) && !self.is_behind_queue(from)
    }

    /// Packets of this direction wait or get lost before here, so a capture near in time is not at the senders.
    pub(crate) fn is_behind_queue(&self, from: usize) -> bool {
        let Direction { timed, late, numbers, .. } = &self.directions[from];
        let lost = self.are_numbered(from) && numbers.next * BEHIND < numbers.all * (BEHIND - 1);
        lost || late * BEHIND > *timed
    }

    /// Time for which packets from `from` have just waited before the capture.
    pub(crate) fn queue(&self, from: usize, now: Instant) -> Option<Duration> {
        self.directions[from].waited.filter(|(at, _)| now.since(*at) <= QUEUE_OLD).map(|(_, waited)| waited)
    }

    /// Packets of other connections than this in a silence; `None` if it is longer ago than they are remembered.
    pub(crate) fn others(
        &self,
        from: usize,
        connection: u64,
        since: Instant,
        now: Instant,
    ) -> Option<Others> {
        let Direction { latest, gone, .. } = &self.directions[from];
        let full = latest.len() >= ARRIVALS;
        if full && latest.front().is_none_or(|first| first.at > since) {
            return None;
        }
        let end = latest.partition_point(|a| a.at <= now);
        let begin = latest.partition_point(|a| a.at < since).min(end);
        let mut others = Others { connections: 0, packets: 0, most: 0, gap: Duration::ZERO };
        // How many of its connection each is, so that none has to be looked up.
        let mut nth: Vec<u32> = Vec::with_capacity(end - begin);
        let mut last = since;
        for a in latest.range(begin..end) {
            if a.connection == connection {
                nth.push(0);
                continue;
            }
            let before = a.before.and_then(|place| (place.get() - 1).checked_sub(gone + begin as u64));
            let of_connection = before.map_or(1, |at| nth[at as usize] + 1);
            nth.push(of_connection);
            others.connections += u32::from(of_connection == 1);
            others.packets += 1;
            others.most = others.most.max(of_connection);
            others.gap = others.gap.max(a.at.since(last));
            last = a.at;
        }
        others.gap = others.gap.max(now.since(last));
        Some(others)
    }
}

/// Identifications of one end's packets in one connection (RFC 791; Linux counts them where fragments are forbidden).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbering {
    last: Option<u16>,
    missing: u32,
}

impl Numbering {
    /// A packet passes. Gives the step from the one before, if it is one forwards.
    pub(crate) fn passes(&mut self, ident: Option<NonZeroU16>) -> Option<u16> {
        let ident = ident?.get();
        let step = self.last.map(|last| ident.wrapping_sub(last));
        match step {
            // A copy, or one that was overtaken.
            Some(step) if step == 0 || step > u16::MAX / 2 => return None,
            Some(step) => self.missing += u32::from(step - 1),
            None => {}
        }
        self.last = Some(ident);
        step
    }

    /// Counts missing packets anew.
    pub(crate) fn forget_missing(&mut self) {
        self.missing = 0;
    }

    /// Packets that this end sent and that never came here, since they were forgotten last.
    pub(crate) fn missing(&self) -> u32 {
        self.missing
    }

    /// Says whether any packet had a number.
    pub(crate) fn has(&self) -> bool {
        self.last.is_some()
    }
}

/// State in which no packet has passed.
#[cfg(test)]
pub(crate) static NOTHING: std::sync::LazyLock<Passing> = std::sync::LazyLock::new(Passing::default);

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn others_in_a_silence() {
        let (mut p, mut before) = (Passing::default(), [None; 8]);
        for (ms, connection) in [(0, 7), (100, 1), (200, 2), (300, 1), (600, 7), (650, 3)] {
            let passage = Passage { before: before[connection as usize], ..Passage::default() };
            before[connection as usize] = p.passes(1, at(ms), connection, passage);
        }
        // Packets beside connection 7 between 0 and 600 ms: three of two others, and 300 ms at the end without any.
        let gap = Duration::from_millis(300);
        let expected = Others { connections: 2, packets: 3, most: 2, gap };
        assert_eq!(p.others(1, 7, at(0), at(600)), Some(expected));
        assert_eq!(p.others(0, 7, at(0), at(600)).map(|o| o.packets), Some(0));
    }

    #[test]
    fn what_is_numbered_tells_what_is_missing() {
        let mut n = Numbering::default();
        let mut pass = |ident: u16| n.passes(NonZeroU16::new(ident));
        assert_eq!(
            [pass(0), pass(65_534), pass(65_535), pass(3), pass(2)],
            [None, None, Some(1), Some(4), None]
        );
        // From 65 535 to 3 the numbers 0, 1, 2: three packets, of which 2 came after all, which nobody can count back.
        assert_eq!(n.missing(), 3);
        n.forget_missing();
        assert_eq!(n.missing(), 0);
    }

    #[test]
    fn random_identifications_are_no_numbers() {
        let (mut counted, mut random) = (Numbers::default(), Numbers::default());
        for n in 0..100_u32 {
            counted.add(if n % 3 == 0 { 4 } else { 1 });
            random.add((n.wrapping_mul(2_654_435_761) >> 17) as u16);
        }
        assert!(counted.are_counts() && !random.are_counts());
    }
}
