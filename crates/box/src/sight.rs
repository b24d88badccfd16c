//! Sight: what every connection does, live, who stalls and why.
//!
//! Sight stands beside the disciplines, so it knows the same whatever queues, and also where nothing does
//! (`--observe`): it is shown each packet as it comes, as it leaves, and as it is dropped or refused. One of these
//! belongs to one link.
//!
//! A stall is a silence of more than a second and three round trips while something is under way or asked for; if a
//! repair is awaited (of a drop here, or by a timer that has expired) of 200 ms and two round trips, as in a capture.
//! A packet that stands in the box's queue waits for its turn: that is service, and no part of a silence.

mod bits;
mod book;
mod cause;
mod covered;
mod half;
mod histogram;
mod record;
mod report;
mod sweep;
mod table;
#[cfg(test)]
mod tests;
mod usage;

use narrows_flow::Micros;
use narrows_lists::NIL;
use narrows_qdisc::{Direction, Event, Verdict};
use narrows_units::Instant;
use narrows_users::User;
use narrows_wire::{FlowKey, Header};

use self::book::Book;
use self::record::Record;
pub use self::report::{
    CauseJson, HistogramJson, LostJson, NamedUser, SightJson, StallJson, TalkerJson, UserJson,
};
use self::sweep::Sweep;
use self::table::Table;
use super::packet::HeldPacket;

pub use self::record::BYTES_PER_FLOW;

/// Length of an IPv6 user's prefix in bits, unless more is known: a site has at least a /64 (RFC 6177).
const IPV6_PREFIX: u8 = 64;

/// Place at which sight remembers a packet; before its arrival is noted, a hint where to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    slot: u32,
    came: Micros,
}

impl Default for Mark {
    fn default() -> Self {
        Self { slot: NIL, came: Micros::default() }
    }
}

/// Follower of all connections that pass the box: what they do, who stalls, and why.
#[derive(Debug)]
pub struct Sight {
    table: Table,
    book: Book,
    sweep: Sweep,
}

impl Sight {
    /// Makes a sight that has seen nothing. `seed` is for hashing.
    #[must_use]
    pub fn new(now: Instant, seed: u64) -> Self {
        Self { table: Table::new(seed), book: Book::new(now), sweep: Sweep::new(now) }
    }

    /// Notes the arrival of a packet; returns the mark that goes with the packet.
    pub fn arrived(
        &mut self,
        now: Instant,
        direction: Direction,
        header: &Header,
        user: Option<User>,
    ) -> Mark {
        let place = self.place(direction, header);
        self.arrived_at(place, now, direction, header, user)
    }

    /// Packets have come together. What is kept of their connections is fetched from memory for all of them at once,
    /// not of one after the other.
    pub fn arrived_together(&mut self, now: Instant, packets: &mut [(Direction, HeldPacket)]) {
        packets.iter_mut().for_each(|(direction, p)| p.mark = self.place(*direction, &p.header));
        packets.iter().for_each(|(_, p)| self.fetch(p.mark));
        for (direction, p) in packets {
            p.mark = self.arrived_at(p.mark, now, *direction, &p.header, p.user);
        }
    }

    /// Place at which a packet's connection would be known.
    pub fn place(&self, direction: Direction, header: &Header) -> Mark {
        Mark { slot: self.table.bucket(&down(direction, header)), came: Micros::default() }
    }

    /// Has the record fetched from memory.
    pub fn fetch(&self, place: Mark) {
        self.table.fetch(place.slot);
    }

    /// Notes the arrival of a packet whose [`Sight::place`] is known.
    pub fn arrived_at(
        &mut self,
        place: Mark,
        now: Instant,
        direction: Direction,
        header: &Header,
        user: Option<User>,
    ) -> Mark {
        if header.fragment {
            return Mark::default();
        }
        let came = Micros::at(now);
        self.book.now = now;
        let d = direction as usize;
        let key = down(direction, header);
        let found = self.table.find(place.slot, &key);
        let Some(slot) = found.or_else(|| self.make(came, place.slot, key, user)) else {
            return Mark::default();
        };
        let (Some(record), Some(gaps)) =
            (self.table.records.get_mut(slot), self.table.gaps.get_mut(slot as usize))
        else {
            return Mark::default();
        };
        record.seen = came;
        match &header.tcp {
            Some(tcp) => {
                self.book.acknowledgments[d] += u64::from(tcp.flags.has(narrows_wire::Flags::ACK));
                record.tcp(came, d, tcp, gaps, &mut self.book);
            }
            None => record.datagram(came, d, header, &mut self.book),
        }
        record.arrived(d);
        self.book.offered(record.user, d, header.len.0);
        Mark { slot, came }
    }

    #[cold]
    fn make(&mut self, now: Micros, bucket: u32, key: FlowKey, user: Option<User>) -> Option<u32> {
        let user = user.unwrap_or_else(|| User::of_bits(key.dst_bits(), IPV6_PREFIX));
        let user = self.book.user(user);
        let book = &mut self.book;
        self.table.make(bucket, Record::new(key, user, now), now, |old, gaps| old.give_up(now, gaps, book))
    }

    /// Something was decided about a packet.
    pub fn decided(&mut self, now: Instant, event: &Event<HeldPacket>) {
        match event {
            Event::Send(d, p) => self.left(now, *d, p.mark, &p.header),
            Event::Verdict(_, Verdict::Dropped { packet, .. }) => {
                self.dropped(packet.direction(), packet.mark, &packet.header);
            }
            Event::Verdict(_, Verdict::Suppressed { packet }) => self.gone(packet.direction(), packet.mark),
            Event::Verdict(_, Verdict::Refused { packet, .. }) => {
                self.refused(packet.direction(), packet.mark)
            }
            Event::Verdict(_, Verdict::Marked { .. }) => {}
        }
    }

    /// Notes that a packet has left the box.
    pub fn left(&mut self, now: Instant, direction: Direction, mark: Mark, header: &Header) {
        let Some(record) = self.table.records.get_mut(mark.slot) else { return };
        let (now, d) = (Micros::at(now), direction as usize);
        let waited = now.since(mark.came);
        record.left(d, now, waited, header);
        let data = header.tcp.as_ref().is_none_or(|tcp| tcp.payload > 0);
        self.book.carried(record.user, d, header.len.0, data.then_some(waited));
        if header.tcp.is_none() {
            self.book.goodput(d, header.len.0.min(u64::from(u32::MAX)) as u32);
        }
    }

    /// The box has dropped a packet.
    pub fn dropped(&mut self, direction: Direction, mark: Mark, header: &Header) {
        self.gone(direction, mark);
        let (Some(record), Some(gaps)) =
            (self.table.records.get_mut(mark.slot), self.table.gaps.get_mut(mark.slot as usize))
        else {
            return;
        };
        record.dropped(direction as usize, header, &mut gaps[direction as usize]);
    }

    /// Admission control has refused a SYN.
    fn refused(&mut self, direction: Direction, mark: Mark) {
        self.gone(direction, mark);
        if let Some(record) = self.table.records.get_mut(mark.slot) {
            record.refused();
        }
    }

    fn gone(&mut self, direction: Direction, mark: Mark) {
        if let Some(record) = self.table.records.get_mut(mark.slot) {
            record.gone(direction as usize);
        }
    }
}

/// The key of a packet's connection: that of what goes down.
#[inline]
fn down(direction: Direction, header: &Header) -> FlowKey {
    if direction == Direction::Down { header.key } else { header.key.reverse() }
}
