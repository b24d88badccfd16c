//! Acknowledgments that a receiver owes, and when it sends them (RFC 9000, section 13.2).

use narrows_units::{Duration, Ecn, Instant};

use crate::Config;
use crate::packet::{Ack, EcnCounts};
use crate::ranges::RangeSet;

/// Most ranges of an ACK frame; beyond them the lowest are forgotten (section 13.2.3).
const MOST_RANGES: usize = 64;
/// Packets without a need for an ACK after which the next packet bears an ACK, so that the peer can forget its own.
const LAZY: u64 = 10;

/// The receiving half of a packet number space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acks {
    /// Every packet number that came: a packet that is here already is a duplicate.
    came: RangeSet,
    /// Packet numbers that an ACK frame tells of.
    ranges: RangeSet,
    largest: Option<(u64, Instant)>,
    largest_eliciting: u64,
    /// Packets that ask for an ACK since the last one, and others.
    eliciting: u64,
    others: u64,
    /// Time at which the first of `eliciting` came.
    earliest: Option<Instant>,
    immediate: bool,
    ecn: EcnCounts,
    marked: bool,
}

impl Acks {
    /// Takes note of a packet that came; tells whether the packet is the first copy.
    pub(crate) fn arrived(&mut self, now: Instant, number: u64, ecn: Ecn) -> bool {
        if self.came.insert(number, number + 1) == 0 {
            return false;
        }
        self.ranges.insert(number, number + 1);
        if self.ranges.as_slice().len() > MOST_RANGES {
            self.ranges.pop_first();
        }
        if self.largest.is_none_or(|(n, _)| number > n) {
            self.largest = Some((number, now));
        }
        self.ecn.add(ecn);
        self.marked |= ecn != Ecn::NotEct;
        // Section 13.2.1: a mark is told at once.
        self.immediate |= ecn == Ecn::Ce;
        true
    }

    /// Takes the frames of a packet into account. Tells whether the packet is the first for which an ACK waits for
    /// more.
    pub(crate) fn processed(&mut self, now: Instant, number: u64, eliciting: bool, config: &Config) -> bool {
        if !eliciting {
            self.others += 1;
            return false;
        }
        let before = self.largest_eliciting;
        self.largest_eliciting = before.max(number);
        self.eliciting += 1;
        // Section 13.2.1: out of order, before another or behind a gap.
        let out_of_order = number < before || !self.came.covers(before + 1, number);
        self.immediate |= self.eliciting >= config.ack_every || out_of_order;
        let first = self.earliest.is_none() && !self.is_due();
        if first {
            self.earliest = Some(now);
        }
        first
    }

    /// An ACK is sent at once.
    pub(crate) const fn hurry(&mut self) {
        self.immediate = true;
    }
    /// Whether an ACK is sent even by itself.
    pub(crate) const fn is_due(&self) -> bool {
        self.immediate && !self.ranges.is_empty()
    }
    /// Whether there are packet numbers to acknowledge.
    pub(crate) const fn any(&self) -> bool {
        !self.ranges.is_empty()
    }
    /// Notes that a packet is sent in any case, so that an ACK can go with the packet.
    pub(crate) const fn going_anyway(&mut self) {
        self.immediate |= self.others > LAZY;
    }
    /// Time at which an ACK is sent at the latest, whatever comes.
    pub(crate) fn due_at(&self, max_delay: Duration) -> Option<Instant> {
        self.earliest.filter(|_| !self.immediate).map(|at| at + max_delay)
    }
    /// Makes an ACK due at once, because the latest time for an ACK is reached.
    pub(crate) const fn on_timer(&mut self) {
        self.immediate = self.eliciting > 0;
    }

    /// The ACK frame to send at `now`.
    pub(crate) fn frame(&self, now: Instant) -> Ack {
        let waited = self.largest.map_or(Duration::ZERO, |(_, at)| now.since(at));
        // The delay is told in units of 8 us.
        let delay = Duration::from_nanos(waited.as_nanos() / 8_000 * 8_000);
        Ack { ranges: self.ranges.as_slice().to_vec(), delay, ecn: self.marked.then_some(self.ecn) }
    }
    /// Starts anew after an ACK was sent.
    pub(crate) const fn sent(&mut self) {
        (self.immediate, self.eliciting, self.others, self.earliest) = (false, 0, 0, None);
    }
    /// An ACK that told of packets up to `largest` was acknowledged (section 13.2.4).
    pub(crate) fn confirmed(&mut self, largest: u64) {
        self.ranges.remove(0, largest + 1);
    }
    /// The largest packet number an ACK would tell of.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.ranges.max()
    }
}
