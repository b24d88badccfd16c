//! Slow link as it shows to somebody who changes nothing: where its queue stands, and its rate then, second by second.
//!
//! The controllers of a shaper that follows its link look on, so a capture tells what a box at its place would have
//! learnt.

use narrows_units::{Bytes, Duration, Instant, Rate};
use narrows_wire::Header;

use super::Departure;
use super::config::FollowConfig;
use super::sides::{BySide, LinkSide, Sides, Waits};

/// A second of one direction of the traffic, seen at one point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkSecond {
    /// Seconds since the first packet.
    pub at: u64,
    /// Bytes that passed.
    pub passed: Bytes,
    /// Shortest wait on each side, of the packets that told.
    pub waits: BySide<Option<Duration>>,
    /// Side on which a queue stood.
    pub full: Option<LinkSide>,
    /// Rate of the link on that side; not told of a link behind the point that loses packets: what is acknowledged
    /// there is not all that it carries.
    pub rate: Option<Rate>,
}

/// Packets for each one that is sent again, from which the rate of a link behind the point is told.
const SENT_FOR_AGAIN: u64 = 50;

/// Observer of one direction of a link.
#[derive(Debug)]
pub struct LinkWatch {
    sides: Sides,
    from: Option<Instant>,
    /// The second that has begun: its number and its bytes, waits and packets in it, and packets sent again before it.
    now: LinkSecond,
    waits: BySide<Waits>,
    packets: u64,
    again: u64,
    seconds: Vec<LinkSecond>,
}

impl LinkWatch {
    /// An observer of a link of which nothing is known. `seed` keys the hashes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            sides: Sides::new(FollowConfig::default(), seed),
            from: None,
            now: LinkSecond::default(),
            waits: BySide::default(),
            packets: 0,
            again: 0,
            seconds: Vec::new(),
        }
    }

    /// Notes a packet of the watched direction that takes `bytes` on the link.
    pub fn passes(&mut self, now: Instant, header: &Header, bytes: Bytes) {
        self.tick(now);
        self.now.passed += bytes;
        self.packets += 1;
        if let Some(late) = self.sides.arrives(now, header, bytes.get()) {
            self.waits.before.note(late);
        }
        // Packets leave as they come: nothing waits at the point.
        self.sides.make_room(now, bytes.get());
        let departure = Departure { header, bytes: bytes.get(), waiting: true, brings_more: true };
        self.sides.departs(now, &departure);
    }

    /// Notes a packet of the other direction.
    pub fn returns(&mut self, now: Instant, header: &Header) {
        self.tick(now);
        if let Some(late) = self.sides.returns(now, header) {
            self.waits.behind.note(late);
        }
    }

    /// Ends the observation, and gives all seconds in which something passed.
    #[must_use]
    pub fn finish(mut self) -> Vec<LinkSecond> {
        self.close();
        self.seconds
    }

    /// Begins a second, if one has begun.
    fn tick(&mut self, now: Instant) {
        let from = *self.from.get_or_insert(now);
        let at = now.since(from).as_millis() / 1000;
        if at != self.now.at {
            self.close();
            self.now.at = at;
        }
    }

    fn close(&mut self) {
        let second = core::mem::take(&mut self.now);
        let waits = core::mem::take(&mut self.waits);
        let packets = core::mem::take(&mut self.packets);
        let sent_again = self.sides.sent_again();
        let again = sent_again - core::mem::replace(&mut self.again, sent_again);
        if packets == 0 {
            return;
        }
        let shortest = BySide { before: waits.before.shortest(), behind: waits.behind.shortest() };
        let side = if shortest.behind > shortest.before { LinkSide::Behind } else { LinkSide::Before };
        let full = self.sides.stands(side, &waits[side]).then_some(side);
        let told = full.filter(|side| *side == LinkSide::Before || again * SENT_FOR_AGAIN <= packets);
        let rate = told.map(|side| self.sides.rate(side));
        self.seconds.push(LinkSecond { waits: shortest, full, rate, ..second });
    }
}
