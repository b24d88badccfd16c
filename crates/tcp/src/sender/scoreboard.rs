//! The segments between snd_una and snd_max: a small record of each, and counters from which the pipe (RFC 6675,
//! section 4) follows without a walk over the records.
//!
//! A segment keeps the boundaries with which it was first sent. Its record is touched when it is sent, when it is
//! SACKed or marked lost, and when it is acknowledged. Every walk moves a pointer that never moves back, so the cost
//! per segment does not depend on the window.
//!
//! `scoreboard/marks.rs` marks what is lost and finds what to send again.

mod marks;
mod segment;

use std::collections::VecDeque;

use narrows_units::Instant;

use super::ranges::SackRanges;
pub(crate) use segment::{Delivered, EVER_RETRANS, FIN, RETRANS, RackDelivered, SYN, SentSegment};
use segment::{LOST, SACKED};

/// See the head of the file.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Scoreboard {
    /// The first offset of the first segment: snd_una.
    una: u64,
    /// The offset after the last segment: snd_max.
    max: u64,
    /// Made when a segment is sent. An end that waits for its turn has none.
    flight: Option<Box<Flight>>,
    /// How many segments count as sent. The others, up to snd_max, are sent again in order (go-back-N): this is
    /// snd_nxt.
    next: u32,
    /// How many there are.
    len: u32,
}

/// The segments, and what was marked of them.
#[derive(Clone, Debug, Default)]
struct Flight {
    ring: VecDeque<SentSegment>,
    marks: Marks,
}

/// How segments are marked. Fields that stand for offsets hold their low halves; `una` tells the rest.
#[derive(Clone, Debug, Default)]
struct Marks {
    sacked: u32,
    lost: u32,
    retrans: u32,
    /// Segments that are lost and not sent again.
    pending: u32,
    /// No pending segment lies below this offset, which never lies below `una`.
    pending_from: u32,
    /// Below this offset everything that is not SACKed is marked lost. It never lies below `una` either.
    lost_below: u32,
    /// `HighRxt` (RFC 6675): the highest offset sent again in this recovery, which has set it when it began. It may lie
    /// below `una`.
    high_rxt: u32,
    /// What was SACKed.
    ranges: SackRanges,
}

impl Flight {
    #[cold]
    #[inline(never)]
    fn new(una: u64) -> Box<Self> {
        Box::new(Self { ring: VecDeque::new(), marks: Marks::new(una) })
    }

    /// Part of the segment taken from the front was acknowledged, and it goes back there. Our receivers never do that,
    /// but nothing forbids it.
    #[cold]
    fn cut_first(&mut self, mut segment: SentSegment, una: u64, ack: u64) {
        let gone = (ack - una) as u16;
        segment.len -= gone.min(segment.len);
        segment.low = ack as u32;
        segment.flags &= !SYN;
        self.ring.push_front(segment);
    }
}

impl Marks {
    /// None yet; this is snd_una.
    fn new(una: u64) -> Self {
        let una = una as u32;
        Self { pending_from: una, lost_below: una, high_rxt: una, ..Self::default() }
    }

    /// Takes a segment out of the counters of its marks.
    fn uncount(&mut self, segment: &SentSegment) {
        self.sacked -= u32::from(segment.has(SACKED));
        self.lost -= u32::from(segment.has(LOST));
        self.retrans -= u32::from(segment.has(RETRANS));
        self.pending -= u32::from(segment.has(LOST) && !segment.has(RETRANS));
    }

    /// Everything below `ack` has arrived; snd_una was `una`.
    fn acknowledge(&mut self, una: u64, ack: u64) {
        let raised = |low: u32| whole(una, low).max(ack) as u32;
        (self.lost_below, self.pending_from) = (raised(self.lost_below), raised(self.pending_from));
        if !self.ranges.is_empty() {
            self.ranges.trim(ack);
        }
    }
}

/// The offset with this low half that lies at or above `una`.
const fn whole(una: u64, low: u32) -> u64 {
    una + low.wrapping_sub(una as u32) as u64
}

/// An empty ring of at most this capacity is kept for the next segments. A larger one is freed, so that an idle
/// connection does not hold the memory of its largest window.
const RING_KEPT: usize = 8;

impl Scoreboard {
    pub(crate) const fn una(&self) -> u64 {
        self.una
    }
    pub(crate) const fn max(&self) -> u64 {
        self.max
    }
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Segments that are lost and not sent again.
    pub(crate) fn pending(&self) -> u32 {
        self.flight.as_ref().map_or(0, |flight| flight.marks.pending)
    }
    pub(crate) fn sacked(&self) -> u32 {
        self.flight.as_ref().map_or(0, |flight| flight.marks.sacked)
    }
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }
    /// Segments that are still to be sent again after going back.
    pub(crate) const fn rewound(&self) -> u32 {
        self.len - self.next
    }
    /// Segments sent, or sent again after going back, and not acknowledged cumulatively.
    pub(crate) const fn outstanding(&self) -> u32 {
        self.next
    }
    /// The pipe (RFC 6675, section 4): segments neither SACKed nor lost, and copies of lost ones.
    #[inline]
    pub(crate) fn pipe(&self) -> u32 {
        let Some(Flight { marks, .. }) = self.flight.as_deref() else { return self.next };
        self.next - marks.sacked - marks.lost + marks.retrans
    }
    /// Bytes between snd_una and snd_max.
    pub(crate) const fn bytes(&self) -> u64 {
        self.max - self.una
    }
    /// Whether the segment at index `at` bears `flag`.
    pub(crate) fn has(&self, at: usize, flag: u8) -> bool {
        self.segment(at).is_some_and(|segment| segment.has(flag))
    }
    /// When the first segment was last sent.
    pub(crate) fn first_sent(&self) -> Option<Instant> {
        self.segment(0).map(|segment| segment.sent)
    }

    /// Nothing was sent before `offset`.
    pub(crate) fn start(&mut self, offset: u64) {
        debug_assert!(self.flight.is_none());
        self.una = offset;
        self.max = offset;
    }

    /// A segment was sent for the first time, after all others.
    #[inline]
    pub(crate) fn push(&mut self, now: Instant, len: u16, flags: u8) {
        let segment = SentSegment { sent: now, low: self.max as u32, len, flags };
        self.max += segment.seq_len();
        let flight = self.flight.get_or_insert_with(|| Flight::new(self.una));
        flight.ring.push_back(segment);
        self.next += 1;
        self.len += 1;
    }

    /// Gives back the memory of no segments, which an end that only receives needs for its SYN and never again.
    pub(crate) fn give_back(&mut self) {
        if self.is_empty() {
            self.flight = None;
        }
    }

    /// The segment at an index.
    fn segment(&self, at: usize) -> Option<&SentSegment> {
        self.flight.as_ref()?.ring.get(at)
    }

    /// The offset of a segment.
    const fn offset(&self, segment: &SentSegment) -> u64 {
        whole(self.una, segment.low)
    }

    /// The index of the first segment that begins at or after `offset`. Most segments have the same length, so a
    /// guess by that length is mostly right.
    fn index(&self, offset: u64) -> usize {
        let Some(Flight { ring, .. }) = self.flight.as_deref() else { return 0 };
        let Some(front) = ring.front() else { return 0 };
        if offset <= self.una {
            return 0;
        }
        if offset >= self.max {
            return ring.len();
        }
        let guess = ((offset - self.una) / front.seq_len()) as usize;
        if ring.get(guess).is_some_and(|segment| self.offset(segment) == offset) {
            return guess;
        }
        ring.partition_point(|segment| self.offset(segment) < offset)
    }

    /// Everything below `ack` has arrived; `ack` lies above snd_una and not above snd_max. If the segment that ends at
    /// `timed` is among it, that is timed.
    #[inline(always)]
    pub(crate) fn acknowledge(&mut self, ack: u64, timed: Option<u64>, delivered: &mut Delivered) {
        debug_assert!(self.una < ack && ack <= self.max);
        let Some(flight) = &mut self.flight else { return };
        let una = self.una;
        while self.una < ack
            && let Some(segment) = flight.ring.pop_front()
        {
            let end = self.una + segment.seq_len();
            if end > ack {
                flight.cut_first(segment, self.una, ack);
                self.una = ack;
                break;
            }
            if Some(end) == timed {
                delivered.timed = Some(segment.sent);
            }
            self.una = end;
            self.len -= 1;
            self.next = self.next.saturating_sub(1);
            if segment.flags & (SACKED | LOST | RETRANS) != 0 {
                flight.marks.uncount(&segment);
            }
            if segment.has(SACKED) {
                delivered.retransmitted |= delivered.rack.is_some() && segment.has(EVER_RETRANS);
            } else {
                delivered.add(&segment, end);
                if let Some(rack) = delivered.rack.as_mut().filter(|_| !segment.has(EVER_RETRANS)) {
                    rack.last_cumulative = Some(segment.sent);
                }
            }
        }
        flight.marks.acknowledge(una, ack);
        if self.len == 0 && flight.ring.capacity() > RING_KEPT {
            self.flight = None;
        }
    }

    /// Takes a SACK block (`Update`, RFC 6675, section 4). Only whole segments count.
    pub(crate) fn sack(&mut self, left: u64, right: u64, delivered: &mut Delivered) {
        if left <= self.una || right > self.max || left >= right {
            return;
        }
        if self.flight.as_ref().is_some_and(|flight| flight.marks.ranges.contains(left, right)) {
            // Receivers repeat each block, because an ACK may be lost.
            return;
        }
        let from = self.index(left);
        let first = self.segment(from).map(|segment| (self.offset(segment), segment.seq_len()));
        let one = first.is_some_and(|(offset, len)| offset == left && left + len == right);
        let (to, left, right) = if one { (from + 1, left, right) } else { self.whole_segments(from, right) };
        let Some(flight) = &mut self.flight else { return };
        let mut ranges = core::mem::take(&mut flight.marks.ranges);
        ranges.insert(left, right, |a, b| {
            let all_new = (a, b) == (left, right);
            for at in if all_new { from..to } else { self.index(a)..self.index(b) } {
                self.mark_sacked(at, delivered);
            }
        });
        if let Some(flight) = &mut self.flight {
            flight.marks.ranges = ranges;
        }
    }

    /// Of the segments from index `from` on which a block tells that ends at `right`: the index after the last, and
    /// where they begin and end. A segment in which the block ends has not arrived as a whole.
    fn whole_segments(&self, from: usize, right: u64) -> (usize, u64, u64) {
        let mut to = self.index(right);
        if to > 0
            && self.segment(to - 1).is_some_and(|segment| self.offset(segment) + segment.seq_len() > right)
        {
            to -= 1;
        }
        let boundary = |at: usize| self.segment(at).map_or(self.max, |segment| self.offset(segment));
        (to, boundary(from), boundary(to))
    }

    fn mark_sacked(&mut self, at: usize, delivered: &mut Delivered) {
        let Some(Flight { ring, marks }) = self.flight.as_deref_mut() else { return };
        let Some(segment) = ring.get_mut(at) else { return };
        marks.uncount(segment);
        marks.sacked += 1;
        let end = whole(self.una, segment.low) + segment.seq_len();
        delivered.add(segment, end);
        segment.flags = segment.flags & !(LOST | RETRANS) | SACKED;
    }
}
