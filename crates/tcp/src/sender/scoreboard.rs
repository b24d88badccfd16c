//! The segments between snd_una and snd_max: a small record of each, and counters from which the pipe (RFC 6675,
//! section 4) follows without a walk over the records.
//!
//! A segment keeps the boundaries with which it was first sent. A segment's record is touched when it is sent, when it
//! is SACKed or marked lost, and when it is acknowledged. Every walk moves a pointer that never moves back, so the cost
//! per segment does not depend on the window. What was SACKed is a short sorted list besides ([`SackRanges`]), which
//! finds what is new in a SACK block without a walk over the segments.

use std::collections::VecDeque;

use narrows_units::{Duration, Instant};

/// SACKed.
pub(crate) const SACKED: u8 = 1;
/// The segment counts as lost, also after a retransmission.
pub(crate) const LOST: u8 = 2;
/// Retransmitted, and the copy counts as being in the network.
pub(crate) const RETRANS: u8 = 4;
/// The segment was retransmitted at least once and gives no RTT sample (Karn).
pub(crate) const EVER_RETRANS: u8 = 8;
/// A SYN takes one of the segment's sequence numbers.
pub(crate) const SYN: u8 = 16;
/// A FIN takes one of the segment's sequence numbers.
pub(crate) const FIN: u8 = 32;

/// One sent segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentSegment {
    /// Time at which the segment was last sent.
    pub(crate) sent: Instant,
    /// The low half of the segment's first stream offset.
    low: u32,
    /// Payload bytes.
    pub(crate) len: u16,
    pub(crate) flags: u8,
}

impl SentSegment {
    /// Length of the segment in sequence space.
    fn seq_len(&self) -> u64 {
        u64::from(self.len) + u64::from(self.flags & (SYN | FIN) != 0)
    }
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// How many of the segments between snd_una and snd_max bear each mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentMarks {
    /// Segments sent and not acknowledged cumulatively.
    pub outstanding: u32,
    /// Outstanding segments that were SACKed.
    pub sacked: u32,
    /// Outstanding segments that count as lost, sent again or not.
    pub lost: u32,
    /// Outstanding segments whose copy counts as being in the network.
    pub copies: u32,
}

/// Segments that an acknowledgment reports for the first time, cumulatively or in SACK blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivered {
    /// Segments.
    pub(crate) segments: u32,
    /// Payload bytes of the segments.
    pub(crate) bytes: u64,
    /// Time at which the first of the segments that were sent only once left.
    pub(crate) sent: Option<Instant>,
    /// Time at which the timed segment left; `None` if the timed segment is not among the segments.
    pub(crate) timed: Option<Instant>,
    /// Whether some of the segments were retransmitted.
    pub(crate) retransmitted: bool,
    /// Facts that only RACK reads, for senders that have it.
    pub(crate) rack: Option<RackDelivered>,
}

/// A segment by the order in which RACK takes segments to be sent: by time, then by their end (RFC 8985, section 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Newest {
    /// Time of the segment's last transmission.
    pub(crate) sent: Instant,
    /// Offset of the byte behind the segment's last byte.
    pub(crate) end: u64,
}

/// Facts that RACK reads about the segments of [`Delivered`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RackDelivered {
    /// The segment sent last (RFC 8985, section 6.2, step 2).
    pub(crate) newest: Option<Newest>,
    /// Whether the newest was a retransmission.
    pub(crate) newest_again: bool,
    /// The highest end among the segments (RFC 8985, section 6.2, step 3).
    pub(crate) highest: u64,
    /// The lowest end among the segments sent once (RFC 8985, section 6.2, step 3).
    pub(crate) lowest_sent_once: Option<u64>,
    /// Offset at which the segment begins that has the lowest end among those sent once.
    pub(crate) lowest_begin: u64,
    /// When the last of them left that is acknowledged cumulatively and was sent only once.
    pub(crate) last_cumulative: Option<Instant>,
}

impl Delivered {
    /// Divides the report after the cumulative part, before SACK blocks add theirs. A sample comes from the former, if
    /// it may, and not from both ([`crate::RttSampling::EveryAck`]).
    pub(crate) fn split(&mut self) -> Option<Instant> {
        let sent = self.sent.take().filter(|_| !self.retransmitted);
        self.retransmitted = false;
        sent
    }

    /// A segment that ends at `end` was delivered.
    fn add(&mut self, segment: &SentSegment, end: u64) {
        self.segments += 1;
        self.bytes += u64::from(segment.len);
        if segment.has(EVER_RETRANS) {
            self.retransmitted = true;
        } else if self.sent.is_none() {
            self.sent = Some(segment.sent);
        }
        if let Some(rack) = &mut self.rack {
            rack.add(segment, end);
        }
    }
}

impl RackDelivered {
    // Not in line: those without RACK would carry its fields through their loop over segments.
    #[inline(never)]
    fn add(&mut self, segment: &SentSegment, end: u64) {
        let once = !segment.has(EVER_RETRANS);
        if once && self.lowest_sent_once.is_none_or(|lowest| end < lowest) {
            self.lowest_sent_once = Some(end);
            self.lowest_begin = end - segment.seq_len();
        }
        self.highest = self.highest.max(end);
        let this = Newest { sent: segment.sent, end };
        if self.newest.is_none_or(|newest| newest < this) {
            (self.newest, self.newest_again) = (Some(this), !once);
        }
    }
}

/// Ranges [left, right) of stream offsets in ascending order, which neither touch nor overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct SackRanges(Vec<(u64, u64)>);

impl SackRanges {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Removes everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
    pub(crate) fn as_slice(&self) -> &[(u64, u64)] {
        &self.0
    }
    /// Whether all of [left, right) is in one of the ranges.
    pub(crate) fn contains(&self, left: u64, right: u64) -> bool {
        let after = self.0.partition_point(|range| range.0 <= left);
        self.0[..after].last().is_some_and(|range| right <= range.1)
    }
    /// Adds [left, right) and calls `fresh` for each part of the range that is new.
    pub(crate) fn insert(&mut self, left: u64, right: u64, mut fresh: impl FnMut(u64, u64)) {
        if left >= right {
            return;
        }
        let first = self.0.partition_point(|range| range.1 < left);
        let (mut low, mut high, mut at, mut end) = (left, right, left, first);
        while let Some(&(a, b)) = self.0.get(end)
            && a <= right
        {
            if at < a {
                fresh(at, a);
            }
            at = at.max(b);
            low = low.min(a);
            high = high.max(b);
            end += 1;
        }
        if at < right {
            fresh(at, right);
        }
        match self.0.get_mut(first) {
            Some(range) if end > first => {
                *range = (low, high);
                self.0.drain(first + 1..end);
            }
            _ => self.0.insert(first, (low, high)),
        }
    }

    /// Removes everything below `una`.
    pub(crate) fn trim(&mut self, una: u64) {
        let gone = self.0.partition_point(|range| range.1 <= una);
        self.0.drain(..gone);
        if let Some(range) = self.0.first_mut() {
            range.0 = range.0.max(una);
        }
    }

    /// The offset below which data counts as lost (`IsLost`, RFC 6675, section 4): at least `dupthresh` separate
    /// ranges, or more than (`dupthresh` - 1) * `mss` bytes, were SACKed above it.
    pub(crate) fn lost_below(&self, dupthresh: u32, mss: u32) -> u64 {
        let enough = u64::from(dupthresh.saturating_sub(1)) * u64::from(mss);
        let mut bytes = 0;
        for (above, range) in self.0.iter().rev().enumerate() {
            bytes += range.1 - range.0;
            if bytes > enough || above + 1 >= dupthresh as usize {
                return range.0;
            }
        }
        0
    }
}

/// Segments between snd_una and snd_max.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Scoreboard {
    /// The first offset of the first segment: snd_una.
    una: u64,
    /// The offset after the last segment: snd_max.
    max: u64,
    /// Segments in flight; made when a segment is sent. An end that waits for its turn has none.
    flight: Option<Box<Flight>>,
    /// How many segments count as sent. The others, up to snd_max, are sent again in order (go-back-N): this is
    /// snd_nxt.
    next: u32,
    /// Number of segments.
    len: u32,
}

/// The segments, and the marks on the segments.
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
    /// Lower bound of the offsets of pending segments, never below `una`.
    pending_from: u32,
    /// Offset below which everything that is not SACKed is marked lost, never below `una`.
    lost_below: u32,
    /// `HighRxt` (RFC 6675): the highest offset sent again in this recovery, which has set it when it began. The number
    /// may lie below `una`.
    high_rxt: u32,
    /// Ranges that were SACKed.
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
    /// Marks of a flight without marked segments; `una` is snd_una.
    fn new(una: u64) -> Self {
        let una = una as u32;
        Self { pending_from: una, lost_below: una, high_rxt: una, ..Self::default() }
    }

    /// Takes a segment out of the counters of the segment's marks.
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

/// The offset with low half `low` that lies at or above `una`.
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
    pub(crate) fn marks(&self) -> SegmentMarks {
        let all = SegmentMarks { outstanding: self.next, ..SegmentMarks::default() };
        let Some(Flight { marks, .. }) = self.flight.as_deref() else { return all };
        SegmentMarks { sacked: marks.sacked, lost: marks.lost, copies: marks.retrans, ..all }
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

    /// Starts at `offset`, before which nothing was sent.
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

    /// Finds the whole segments that a SACK block covers from index `from` up to the offset `right`: the index after
    /// the last, and where they begin and end. A segment in which the block ends has not arrived as a whole.
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

impl Marks {
    /// Counts `segment` as lost and not sent again.
    fn add_pending(&mut self, una: u64, segment: &SentSegment) {
        self.pending += 1;
        self.pending_from = whole(una, self.pending_from).min(whole(una, segment.low)) as u32;
    }
}

impl Scoreboard {
    /// Marks as lost what has enough SACKed data above it (`IsLost`, RFC 6675, section 4).
    #[inline]
    pub(crate) fn mark_lost(&mut self, dupthresh: u32, mss: u32) {
        let Some(Flight { marks, .. }) = self.flight.as_deref() else { return };
        if marks.ranges.is_empty() {
            return;
        }
        let below = marks.ranges.lost_below(dupthresh, mss);
        let from = whole(self.una, marks.lost_below);
        if below <= from {
            return;
        }
        for at in self.index(from)..self.index(below) {
            self.mark_lost_at(at);
        }
        if let Some(flight) = &mut self.flight {
            flight.marks.lost_below = below as u32;
        }
    }

    /// Marks as lost, by time, what was sent once and before the `newest` segment that has arrived, and has been waited
    /// for longer than `patience` (RFC 8985, section 6.2, step 5). Returns when the first was sent of those that are
    /// still waited for.
    pub(crate) fn mark_lost_by_time(
        &mut self,
        newest: Newest,
        now: Instant,
        patience: Duration,
    ) -> Option<Instant> {
        let mut at = self.flight.as_ref().map_or(0, |f| self.index(whole(self.una, f.marks.lost_below)));
        let mut waits = None;
        while let Some(segment) = self.segment(at).copied() {
            if segment.flags & (SACKED | LOST | EVER_RETRANS) == 0 {
                if (Newest { sent: segment.sent, end: self.offset(&segment) + segment.seq_len() }) >= newest {
                    break;
                }
                if segment.sent + patience > now {
                    waits = Some(segment.sent);
                    break;
                }
                self.mark_lost_at(at);
            }
            at += 1;
        }
        if let Some(Flight { ring, marks }) = self.flight.as_deref_mut() {
            marks.lost_below = ring.get(at).map_or(self.max as u32, |segment| segment.low);
        }
        waits
    }

    /// The index and the end of the segment at `offset`, if its last copy left at `sent` and is still waited for.
    pub(crate) fn copy(&self, offset: u64, sent: Instant) -> Option<(usize, u64)> {
        if offset < self.una {
            return None;
        }
        let at = self.index(offset);
        let segment = self.segment(at).filter(|segment| segment.has(RETRANS) && segment.sent == sent)?;
        (self.offset(segment) == offset).then(|| (at, offset + segment.seq_len()))
    }

    /// The copy of the segment at index `at` is lost too.
    pub(crate) fn mark_copy_lost(&mut self, at: usize) {
        let Some(Flight { ring, marks }) = self.flight.as_deref_mut() else { return };
        let Some(segment) = ring.get_mut(at) else { return };
        marks.lost += u32::from(!segment.has(LOST));
        marks.retrans -= u32::from(segment.has(RETRANS));
        segment.flags = segment.flags & !RETRANS | LOST;
        marks.add_pending(self.una, segment);
    }

    fn mark_lost_at(&mut self, at: usize) {
        let Some(Flight { ring, marks }) = self.flight.as_deref_mut() else { return };
        let Some(segment) = ring.get_mut(at) else { return };
        if segment.flags & (SACKED | LOST) != 0 {
            return;
        }
        segment.flags |= LOST;
        marks.lost += 1;
        if !segment.has(RETRANS) {
            marks.add_pending(self.una, segment);
        }
    }

    /// The first segment counts as lost, whatever the rules say.
    pub(crate) fn mark_first_lost(&mut self) {
        self.mark_lost_at(0);
    }

    /// After a time-out everything that was not SACKed counts as lost, copies included, except for the segments that
    /// are `spared` because of the time they were sent. A first segment that was SACKed shows that the receiver has
    /// discarded what it had SACKed (RFC 2018, section 8); then no mark is believed.
    pub(crate) fn mark_all_lost(&mut self, spared: impl Fn(Instant) -> bool) {
        let Some(Flight { ring, marks }) = self.flight.as_deref_mut() else { return };
        if ring.front().is_some_and(|segment| segment.has(SACKED)) {
            marks.ranges.clear();
            for segment in &mut *ring {
                segment.flags &= !SACKED;
            }
            marks.sacked = 0;
        }
        (marks.lost, marks.retrans, marks.pending) = (0, 0, 0);
        marks.pending_from = self.una as u32;
        marks.lost_below = self.max as u32;
        for (at, segment) in ring.iter_mut().enumerate().rev() {
            if segment.has(SACKED) {
                continue;
            }
            if at == 0 || !spared(segment.sent) {
                segment.flags = segment.flags & !RETRANS | LOST;
            } else if !segment.has(LOST) {
                marks.lost_below = segment.low;
            }
            marks.lost += u32::from(segment.has(LOST));
            marks.retrans += u32::from(segment.has(RETRANS));
            marks.pending += u32::from(segment.flags & (LOST | RETRANS) == LOST);
        }
    }

    /// Takes all marks of loss away.
    pub(crate) fn unmark_lost(&mut self) {
        let Some(Flight { ring, marks }) = self.flight.as_deref_mut() else { return };
        for segment in ring {
            segment.flags &= !LOST;
        }
        (marks.lost, marks.pending) = (0, 0);
        (marks.lost_below, marks.pending_from) = (self.una as u32, self.una as u32);
    }

    /// Forgets all marks and counts nothing as sent, so that everything is sent again in order (go-back-N).
    pub(crate) fn go_back(&mut self) {
        self.next = 0;
        let Some(Flight { ring, marks }) = self.flight.as_deref_mut() else { return };
        if marks.sacked + marks.lost + marks.retrans > 0 {
            for segment in ring {
                segment.flags &= !(SACKED | LOST | RETRANS);
            }
            (marks.sacked, marks.lost, marks.retrans, marks.pending) = (0, 0, 0, 0);
            marks.ranges.clear();
        }
        (marks.lost_below, marks.pending_from) = (self.una as u32, self.una as u32);
    }

    /// The first segment that is lost and was not sent again.
    pub(crate) fn next_pending(&mut self) -> Option<usize> {
        let flight = self.flight.as_ref().filter(|flight| flight.marks.pending > 0)?;
        let from = self.index(whole(self.una, flight.marks.pending_from));
        let at = (from..self.len as usize)
            .find(|&at| self.segment(at).is_some_and(|segment| segment.flags & (LOST | RETRANS) == LOST))?;
        let Flight { ring, marks } = self.flight.as_deref_mut()?;
        marks.pending_from = ring.get(at)?.low;
        Some(at)
    }

    /// The next segment to be sent again after going back.
    pub(crate) fn next_rewound(&self) -> Option<usize> {
        (self.next < self.len).then_some(self.next as usize)
    }

    /// A recovery begins, in which nothing was sent again yet.
    pub(crate) fn reset_high_rxt(&mut self) {
        if let Some(flight) = &mut self.flight {
            flight.marks.high_rxt = self.una as u32;
        }
    }

    /// The first segment from `HighRxt` on that is neither SACKed nor sent again and has SACKed data above it
    /// (`NextSeg`, rule 3). This walks over the gaps between the ranges, not over the segments.
    pub(crate) fn next_hole(&self) -> Option<usize> {
        let marks = &self.flight.as_ref()?.marks;
        // `HighRxt` may lie below snd_una.
        let mut from = self.una + u64::try_from(distance(self.una as u32, marks.high_rxt)).unwrap_or(0);
        let list = marks.ranges.as_slice();
        for range in list.get(list.partition_point(|range| range.1 <= from)..)? {
            for at in self.index(from)..self.index(range.0) {
                if self.segment(at).is_some_and(|segment| segment.flags & (SACKED | RETRANS) == 0) {
                    return Some(at);
                }
            }
            from = from.max(range.1);
        }
        None
    }

    /// The last segment that is not SACKed (`NextSeg`, rule 4).
    pub(crate) fn last_hole(&self) -> Option<usize> {
        self.flight.as_ref()?.ring.iter().rposition(|segment| !segment.has(SACKED))
    }

    /// The segment at index `at` is sent again now. Returns its offset and its record.
    pub(crate) fn resend(&mut self, at: usize, now: Instant) -> Option<(u64, SentSegment)> {
        let (offset, segment) = self.rescue(at, now)?;
        let end = (offset + u64::from(segment.len)) as u32;
        if let Some(Flight { marks, .. }) = self.flight.as_deref_mut()
            && distance(marks.high_rxt, end) > 0
        {
            marks.high_rxt = end;
        }
        Some((offset, segment))
    }

    /// Sends a rescue retransmission, which leaves `HighRxt` as it is (RFC 6675, section 4, `NextSeg`, rule 4).
    pub(crate) fn rescue(&mut self, at: usize, now: Instant) -> Option<(u64, SentSegment)> {
        let una = self.una;
        let rewound = at as u32 == self.next;
        let Flight { ring, marks } = self.flight.as_deref_mut()?;
        let segment = ring.get_mut(at)?;
        if rewound {
            self.next += 1;
        } else if !segment.has(RETRANS) {
            marks.pending -= u32::from(segment.has(LOST));
            marks.retrans += 1;
            segment.flags |= RETRANS;
        }
        segment.flags |= EVER_RETRANS;
        segment.sent = now;
        Some((una + u64::from(segment.low.wrapping_sub(una as u32)), *segment))
    }
}

/// How far the offset with the low half `to` lies above that with the low half `from`.
const fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(ranges: &mut SackRanges, left: u64, right: u64) -> Vec<(u64, u64)> {
        let mut fresh = vec![];
        ranges.insert(left, right, |a, b| fresh.push((a, b)));
        fresh
    }

    #[test]
    fn only_what_is_new_is_told() {
        let mut ranges = SackRanges::default();
        assert_eq!(insert(&mut ranges, 10, 20), [(10, 20)]);
        assert_eq!(insert(&mut ranges, 10, 20), []);
        assert_eq!(insert(&mut ranges, 30, 40), [(30, 40)]);
        assert_eq!(insert(&mut ranges, 50, 60), [(50, 60)]);
        assert_eq!(insert(&mut ranges, 35, 55), [(40, 50)]);
        assert_eq!(ranges.as_slice(), [(10, 20), (30, 60)]);
        assert_eq!(insert(&mut ranges, 20, 30), [(20, 30)], "touching ranges join");
        assert_eq!(ranges.as_slice(), [(10, 60)]);
        assert_eq!(insert(&mut ranges, 0, 100), [(0, 10), (60, 100)]);
        assert_eq!(insert(&mut ranges, 5, 5), []);
        ranges.trim(42);
        assert_eq!(ranges.as_slice(), [(42, 100)]);
        ranges.trim(100);
        assert!(ranges.is_empty());
    }

    #[test]
    fn any_story_agrees_with_a_set_of_bytes() {
        let mut seed = 7_u64;
        let mut random = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..300 {
            let (mut ranges, mut set) = (SackRanges::default(), [false; 64]);
            for _ in 0..20 {
                let left = random(64);
                let right = (left + random(12)).min(64);
                let known = set[left as usize..right as usize].iter().all(|there| *there);
                assert!(left == right || ranges.contains(left, right) == known);
                let mut fresh = [false; 64];
                ranges.insert(left, right, |a, b| (a..b).for_each(|i| fresh[i as usize] = true));
                for i in left as usize..right as usize {
                    assert_eq!(fresh[i], !set[i]);
                    set[i] = true;
                }
                let collected: Vec<usize> =
                    ranges.as_slice().iter().flat_map(|r| r.0 as usize..r.1 as usize).collect();
                assert_eq!(collected, (0..64).filter(|&i| set[i]).collect::<Vec<_>>());
                assert!(ranges.as_slice().windows(2).all(|w| w[0].1 < w[1].0));
            }
        }
    }

    #[test]
    fn is_lost_by_hand() {
        let mss = 100;
        let lost = |list: &[(u64, u64)]| {
            let mut ranges = SackRanges::default();
            for r in list {
                ranges.insert(r.0, r.1, |_, _| ());
            }
            ranges.lost_below(3, mss)
        };
        assert_eq!(lost(&[]), 0);
        assert_eq!(lost(&[(300, 500)]), 0, "two segments above a hole are not more than (3 - 1) * SMSS");
        assert_eq!(lost(&[(300, 501)]), 300, "a byte more is");
        assert_eq!(lost(&[(300, 600)]), 300);
        assert_eq!(lost(&[(300, 310), (400, 410), (500, 510)]), 300, "three separate ranges");
        assert_eq!(lost(&[(100, 110), (300, 310), (400, 410), (500, 510)]), 300);
        assert_eq!(lost(&[(300, 400), (500, 700)]), 300, "100 + 200 bytes, none of them alone");
    }
}
