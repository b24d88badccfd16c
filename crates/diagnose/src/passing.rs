//! Packets that pass the point of capture, of all connections together: how many packets of how many others came in a
//! silence, how long packets have just waited on their way here, and whether hosts number their packets.

use core::num::{NonZeroU16, NonZeroU64};

use narrows_units::{Duration, Instant};

use crate::tolerances::{
    ARRIVALS, BEHIND, BUSY, NUMBER_STEP, NUMBERED_IN, NUMBERED_LEAST, QUEUE_BEHIND, QUEUE_OLD, TIMED, TURNS,
    WHOLE,
};

/// Packets of other connections in a silence, of the direction in which it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others {
    /// Number of other connections that had a packet.
    pub connections: u32,
    /// Number of packets of all the other connections.
    pub packets: u32,
    /// Packets of the one that had most; `None` unless they had [few each](Self::is_shared).
    pub most: Option<u32>,
    /// Longest time without any.
    pub gap: Duration,
}

impl Others {
    /// Tells whether several connections have had a few packets each, on average.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.connections > 1 && self.packets <= self.connections * TURNS
    }
}

/// A packet of one direction.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Instant,
    /// Number of places from the one before of the same connection; the highest if there is none near.
    back: u32,
}

/// Place of a packet among all packets of the packet's direction, from 1.
pub(crate) type Place = NonZeroU64;

/// The latest packets of a direction, [`ARRIVALS`] of them. On a link on which many wait, a silence ends with every
/// other packet, and hundreds pass in each: so the numbers that verdicts ask for are kept ready.
#[derive(Clone, Debug)]
struct Latest {
    /// Up to twice as many, side by side: half of them are moved once in a while.
    list: Vec<Arrival>,
    /// Packets that are no longer in the list.
    gone: u64,
    /// Bits of the places: whether the packet is the latest of its connection.
    newest: [u64; WORDS],
    /// Longest time before a packet among those of each word.
    gaps: [Duration; WORDS],
}

/// Words for a bit of each of the latest packets.
const WORDS: usize = ARRIVALS / 64;

impl Default for Latest {
    fn default() -> Self {
        Self { list: Vec::new(), gone: 0, newest: [0; WORDS], gaps: [Duration::ZERO; WORDS] }
    }
}

impl Latest {
    /// Adds a packet of the connection whose packet before has this place. Gives its place.
    fn push(&mut self, at: Instant, before: Option<Place>) -> Option<Place> {
        if self.list.len() >= ARRIVALS * 2 {
            self.list.drain(..ARRIVALS);
            self.gone += ARRIVALS as u64;
        }
        let place = self.last() + 1;
        let back = before.map_or(u64::MAX, |before| place - before.get());
        if back < ARRIVALS as u64 {
            self.newest[word(place - back)] &= !bit(place - back);
        }
        // The packet that is no longer among the latest had the same bit.
        self.newest[word(place)] |= bit(place);
        let gap = self.list.last().map_or(Duration::ZERO, |last| at.since(last.at));
        let longest = &mut self.gaps[word(place)];
        *longest = if bit(place) == 1 { gap } else { gap.max(*longest) };
        self.list.push(Arrival { at, back: u32::try_from(back).unwrap_or(u32::MAX) });
        Place::new(place)
    }

    /// Place of the last packet; 0 if there is none.
    fn last(&self) -> u64 {
        self.gone + self.list.len() as u64
    }

    fn at(&self, place: u64) -> Arrival {
        self.list[(place - self.gone - 1) as usize]
    }

    /// Place of the packet before of the same connection, unless it is before `first`.
    fn before(&self, place: u64, first: u64) -> Option<u64> {
        place.checked_sub(self.at(place).back.into()).filter(|before| *before >= first)
    }

    /// Packets of other connections than the one whose latest packet has the place `own`, until `now`. None if some
    /// since then are no longer known.
    fn others(&self, own: Option<Place>, since: Instant, now: Instant) -> Option<Others> {
        let kept = &self.list[self.list.len().saturating_sub(ARRIVALS)..];
        if kept.len() >= ARRIVALS && kept[0].at > since {
            return None;
        }
        let (last, passed) = (self.last(), kept.len() - kept.partition_point(|a| a.at < since));
        let first = last + 1 - passed as u64;
        let own = own.map(Place::get).filter(|own| *own >= first);
        let (own_packets, gap) = self.without(own, first, since, now);
        let newest: u32 = self.newest(first).map(|(_, bits)| bits.count_ones()).sum();
        let connections = newest - u32::from(own.is_some());
        let mut others = Others { connections, packets: passed as u32 - own_packets, most: None, gap };
        others.most = others.is_shared().then(|| self.most(own, first));
        Some(others)
    }

    /// Own packets from the place `first` on, and the longest time without any other, from `since` until `now`. The
    /// time between two others is at least that from one of them to an own packet between, so these count as well.
    fn without(&self, own: Option<u64>, first: u64, since: Instant, now: Instant) -> (u32, Duration) {
        let last = self.last();
        let time = |place: u64| match place {
            _ if place < first => since,
            _ if place > last => now,
            _ => self.at(place).at,
        };
        let mut gap = time(first).since(since).max(now.since(time(last)));
        // The word of the first has packets from before it as well.
        let words = first / 64 + 1;
        for place in first + 1..=last.min(words * 64 - 1) {
            gap = gap.max(time(place).since(time(place - 1)));
        }
        gap = (words..=last / 64).map(|at| self.gaps[word(at * 64)]).fold(gap, Duration::max);
        let (mut packets, mut next, mut behind) = (0, own, own.map_or(now, |own| time(own + 1)));
        while let Some(place) = next {
            packets += 1;
            next = self.before(place, first);
            if next != Some(place - 1) {
                gap = gap.max(behind.since(time(place - 1)));
                behind = next.map_or(now, |next| time(next + 1));
            }
        }
        (packets, gap)
    }

    /// Bits of the latest packets of connections from a place on, in words, each with the place of its lowest bit.
    fn newest(&self, first: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let last = self.last();
        (first / 64..=last / 64).map(move |at| {
            let from = if at == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
            let to = if at == last / 64 { u64::MAX >> (63 - last % 64) } else { u64::MAX };
            (at * 64, self.newest[word(at * 64)] & from & to)
        })
    }

    /// Packets from a place on of the connection that has most of them, without the one whose latest is `own`.
    fn most(&self, own: Option<u64>, first: u64) -> u32 {
        let mut most = 0;
        for (lowest, mut bits) in self.newest(first) {
            while bits != 0 {
                let newest = lowest + u64::from(bits.trailing_zeros());
                bits &= bits - 1;
                if Some(newest) != own {
                    let (mut place, mut packets) = (newest, 1);
                    while let Some(before) = self.before(place, first) {
                        (place, packets) = (before, packets + 1);
                    }
                    most = most.max(packets);
                }
            }
        }
        most
    }
}

/// Number of the word of a place.
const fn word(place: u64) -> usize {
    (place / 64) as usize % WORDS
}

/// Bit of a place in its word.
const fn bit(place: u64) -> u64 {
    1 << (place % 64)
}

/// One direction of the capture: from those who open connections, or from those who are called.
#[derive(Clone, Debug, Default)]
struct Direction {
    latest: Latest,
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
    /// Takes a packet of a connection, from the end that opened it (0) or the other. Gives its place.
    pub(crate) fn passes(&mut self, from: usize, at: Instant, passage: Passage) -> Option<Place> {
        self.packets += 1;
        self.unseen += passage.unseen;
        let direction = &mut self.directions[from];
        let place = direction.latest.push(at, passage.before);
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

    /// Packets of other connections in a silence than of the one whose latest packet has the place `own`; `None` if it
    /// is longer ago than they are remembered.
    pub(crate) fn others(
        &self,
        from: usize,
        own: Option<Place>,
        since: Instant,
        now: Instant,
    ) -> Option<Others> {
        self.directions[from].latest.others(own, since, now)
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
        for (ms, connection) in [(0, 7), (100, 1), (200, 2), (300, 1)] {
            let passage = Passage { before: before[connection], ..Passage::default() };
            before[connection] = p.passes(1, at(ms), passage);
        }
        // Packets beside connection 7 between 0 and 600 ms: three of two others, and 300 ms at the end without any.
        let (gap, own) = (Duration::from_millis(300), before[7]);
        let expected = Others { connections: 2, packets: 3, most: Some(2), gap };
        assert_eq!(p.others(1, own, at(0), at(600)), Some(expected));
        assert_eq!(p.others(0, None, at(0), at(600)).map(|o| o.packets), Some(0));
    }

    /// Counting gives the same numbers: with many connections and with few, in silences of all lengths.
    #[test]
    fn others_are_counted() {
        let mut random = narrows_testing::Rng(7);
        for connections in [1, 2, 7, 300, 6000] {
            let (mut p, mut passed, mut all) = (Passing::default(), vec![None; connections], Vec::new());
            let mut now = 0_u64;
            for n in 0..ARRIVALS * 3 {
                // Some at one time, some long after the one before, some of one connection one behind the other.
                now += [0, 1, 3, 40][random.below(4) as usize];
                let again = random.below(4) == 0;
                let new = random.below(connections as u64) as usize;
                let connection = all.last().filter(|_| again).map_or(new, |(_, before)| *before);
                if n % 17 == 0 {
                    let since =
                        now.saturating_sub([1, 30, 2_000, 50_000, 1_000_000][random.below(5) as usize]);
                    let found = p.others(0, passed[new], at(since), at(now));
                    assert_eq!(found, counted(&all, new, since, now), "{connections} {n} {since} {now}");
                }
                let passage = Passage { before: passed[connection], ..Passage::default() };
                passed[connection] = p.passes(0, at(now), passage);
                all.push((now, connection));
            }
        }
    }

    fn counted(all: &[(u64, usize)], own: usize, since: u64, now: u64) -> Option<Others> {
        let latest = &all[all.len().saturating_sub(ARRIVALS)..];
        if latest.len() >= ARRIVALS && latest[0].0 > since {
            return None;
        }
        let others = latest.iter().filter(|(at, connection)| *at >= since && *connection != own);
        let mut counts = std::collections::BTreeMap::new();
        let (mut last, mut gap) = (since, 0);
        for (at, connection) in others {
            *counts.entry(*connection).or_insert(0_u32) += 1;
            (gap, last) = (gap.max(at - last), *at);
        }
        let gap = Duration::from_millis(gap.max(now - last));
        let found =
            Others { connections: counts.len() as u32, packets: counts.values().sum(), most: None, gap };
        let most = counts.values().copied().max().filter(|_| found.is_shared());
        Some(Others { most, ..found })
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
