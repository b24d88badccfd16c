//! The segments between snd_una and snd_max: one small record each, and counters that say how many are still in the
//! network (the pipe of RFC 6675, section 4) without walking over them.
//!
//! Boundaries of segments stay as they were first sent. A record is touched when its segment is sent, when it is SACKed
//! or marked lost, and when it is acknowledged; every walk moves a pointer that does not come back, so the cost per
//! segment does not depend on the window.

use std::collections::VecDeque;

use narrows_units::{Duration, Instant};

use super::ranges::Ranges;

/// One sent segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seg {
    /// When it was last sent.
    pub(crate) sent: Instant,
    /// Low half of its first stream offset.
    low: u32,
    /// Payload bytes.
    pub(crate) len: u16,
    pub(crate) flags: u8,
}

/// SACKed.
pub(crate) const SACKED: u8 = 1;
/// Counts as lost; stays so once sent again.
pub(crate) const LOST: u8 = 2;
/// Sent again, and that copy counts as being in the network.
pub(crate) const RETRANS: u8 = 4;
/// Sent more than once: no RTT sample (Karn).
pub(crate) const AGAIN: u8 = 8;
/// Takes a sequence number for a SYN.
pub(crate) const SYN: u8 = 16;
/// Takes a sequence number for a FIN.
pub(crate) const FIN: u8 = 32;

impl Seg {
    /// Sequence space.
    fn seq_len(&self) -> u64 {
        u64::from(self.len) + u64::from(self.flags & (SYN | FIN) != 0)
    }
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What an acknowledgment told anew.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivered {
    /// Segments acknowledged for the first time, cumulatively or selectively.
    pub(crate) segments: u32,
    /// Payload bytes of them.
    pub(crate) bytes: u64,
    /// Time of sending of the first of them that was sent only once.
    pub(crate) sent: Option<Instant>,
    /// Time of sending of the one segment that was timed, if it is among them.
    pub(crate) timed: Option<Instant>,
    /// Some were sent more than once.
    pub(crate) again: bool,
    /// What follows is wanted: RACK alone looks at it.
    pub(crate) by_time: bool,
    /// The most recently sent of them: when, its end, whether it had been sent before (RFC 8985, section 6.2, step 2).
    pub(crate) newest: Option<(Instant, u64, bool)>,
    /// Highest end among them, and lowest among those sent once (RFC 8985, section 6.2, step 3).
    pub(crate) highest: u64,
    pub(crate) lowest_once: Option<u64>,
    /// Time of sending of the last of them that is acknowledged cumulatively and was sent only once.
    pub(crate) cumulative: Option<Instant>,
}

impl Delivered {
    fn add(&mut self, seg: &Seg, end: u64) {
        self.segments += 1;
        self.bytes += u64::from(seg.len);
        if seg.has(AGAIN) {
            self.again = true;
        } else if self.sent.is_none() {
            self.sent = Some(seg.sent);
        }
        if self.by_time {
            self.add_by_time(seg, end);
        }
    }

    fn add_by_time(&mut self, seg: &Seg, end: u64) {
        if !seg.has(AGAIN) && self.lowest_once.is_none_or(|lowest| end < lowest) {
            self.lowest_once = Some(end);
        }
        self.highest = self.highest.max(end);
        if self.newest.is_none_or(|(sent, highest, _)| (sent, highest) < (seg.sent, end)) {
            self.newest = Some((seg.sent, end, seg.has(AGAIN)));
        }
    }
}

/// See the head of the file. The pipe, and what every acknowledgment looks at, are its first 64 bytes.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Scoreboard {
    /// Offset of the first byte of the first segment: snd_una.
    una: u64,
    /// Offset after the last segment: snd_max.
    max: u64,
    ring: VecDeque<Seg>,
    /// Segments that count as sent; those after them are to be sent again in order (go-back-N).
    next: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    /// Lost and not sent again.
    pending: u32,
    /// No pending segment lies below; the low half of an offset, as it never lies below `una`.
    pending_from: u32,
    /// Everything unSACKed below is marked lost; a low half likewise.
    lost_below: u32,
    /// What was SACKed, from the first time on that something was.
    ranges: Option<Box<Ranges>>,
}

/// Capacity of an empty ring that is kept for the next segments; one that has held more is freed, so that a connection
/// that rests does not keep the memory of its largest window.
const RING_KEPT: usize = 8;

impl Scoreboard {
    pub(crate) const fn una(&self) -> u64 {
        self.una
    }
    pub(crate) const fn max(&self) -> u64 {
        self.max
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
    pub(crate) const fn pending(&self) -> u32 {
        self.pending
    }
    pub(crate) const fn sacked(&self) -> u32 {
        self.sacked
    }
    pub(crate) fn len(&self) -> u32 {
        self.ring.len() as u32
    }
    /// Segments still to be sent again after going back.
    pub(crate) fn behind(&self) -> u32 {
        self.ring.len() as u32 - self.next
    }
    /// Segments sent or sent again that are not known to have left the network: packets out, SACKed ones counted too.
    pub(crate) const fn outstanding(&self) -> u32 {
        self.next
    }
    /// The pipe (RFC 6675, section 4): neither SACKed nor lost, and what was sent again.
    pub(crate) const fn pipe(&self) -> u32 {
        self.next - self.sacked - self.lost + self.retrans
    }
    /// Bytes between snd_una and snd_max.
    pub(crate) const fn bytes(&self) -> u64 {
        self.max - self.una
    }
    /// Whether the `at`-th segment bears `flag`.
    pub(crate) fn has(&self, at: usize, flag: u8) -> bool {
        self.ring.get(at).is_some_and(|seg| seg.has(flag))
    }
    /// When the segment that ends at `end` left.
    pub(crate) fn sent_before(&self, end: u64) -> Option<Instant> {
        self.ring.get(self.index(end).checked_sub(1)?).map(|seg| seg.sent)
    }

    /// Nothing was sent before `offset`.
    pub(crate) fn start(&mut self, offset: u64) {
        debug_assert!(self.ring.is_empty());
        self.una = offset;
        self.max = offset;
        self.lost_below = offset as u32;
        self.pending_from = offset as u32;
    }

    /// A segment was sent for the first time, after all others.
    #[inline]
    pub(crate) fn push(&mut self, now: Instant, len: u16, flags: u8) {
        let seg = Seg { sent: now, low: self.max as u32, len, flags };
        self.max += seg.seq_len();
        self.ring.push_back(seg);
        self.next += 1;
    }

    /// The offset at or above snd_una with this low half.
    const fn whole(&self, low: u32) -> u64 {
        self.una + low.wrapping_sub(self.una as u32) as u64
    }

    /// Offset of a segment.
    const fn offset(&self, seg: &Seg) -> u64 {
        self.whole(seg.low)
    }

    /// Index of the first segment that begins at or after `offset`. Segments are mostly alike, so a guess by their size is
    /// mostly right.
    fn index(&self, offset: u64) -> usize {
        let Some(front) = self.ring.front() else { return 0 };
        if offset <= self.una {
            return 0;
        }
        if offset >= self.max {
            return self.ring.len();
        }
        let guess = ((offset - self.una) / front.seq_len()) as usize;
        if self.ring.get(guess).is_some_and(|seg| self.offset(seg) == offset) {
            return guess;
        }
        self.ring.partition_point(|seg| self.offset(seg) < offset)
    }

    /// Everything below `ack` arrived; `ack` lies above snd_una and not above snd_max.
    #[inline]
    pub(crate) fn acknowledge(&mut self, ack: u64, told: &mut Delivered) {
        debug_assert!(self.una < ack && ack <= self.max);
        let (lost_below, pending_from) = (self.whole(self.lost_below), self.whole(self.pending_from));
        while let Some(seg) = self.ring.front() {
            let seg = *seg;
            let end = self.una + seg.seq_len();
            if end > ack {
                break;
            }
            self.ring.pop_front();
            self.una = end;
            self.next = self.next.saturating_sub(1);
            if seg.flags & (SACKED | LOST | RETRANS) != 0 {
                self.uncount(&seg);
            }
            if !seg.has(SACKED) {
                told.add(&seg, end);
                if told.by_time && !seg.has(AGAIN) {
                    told.cumulative = Some(seg.sent);
                }
            }
        }
        if self.una < ack {
            self.cut_first(ack);
        }
        self.lost_below = lost_below.max(ack) as u32;
        self.pending_from = pending_from.max(ack) as u32;
        if let Some(ranges) = self.ranges.as_mut().filter(|ranges| !ranges.is_empty()) {
            ranges.trim(ack);
        }
        if self.ring.is_empty() && self.ring.capacity() > RING_KEPT {
            self.ring = VecDeque::new();
        }
    }

    /// A segment was acknowledged in part: no stack of ours does so, but nothing forbids it.
    #[cold]
    fn cut_first(&mut self, ack: u64) {
        if let Some(seg) = self.ring.front_mut() {
            let gone = (ack - self.una) as u16;
            seg.len -= gone.min(seg.len);
            seg.low = ack as u32;
            seg.flags &= !SYN;
            self.una = ack;
        }
    }

    fn uncount(&mut self, seg: &Seg) {
        self.sacked -= u32::from(seg.has(SACKED));
        self.lost -= u32::from(seg.has(LOST));
        self.retrans -= u32::from(seg.has(RETRANS));
        self.pending -= u32::from(seg.has(LOST) && !seg.has(RETRANS));
    }

    /// Takes a SACK block (Update, RFC 6675, section 4). Only whole segments count.
    pub(crate) fn sack(&mut self, left: u64, right: u64, told: &mut Delivered) {
        if left <= self.una || right > self.max || left >= right {
            return;
        }
        if self.ranges.as_ref().is_some_and(|ranges| ranges.contains(left, right)) {
            // Receivers tell of each block several times, in case an ACK is lost.
            return;
        }
        let from = self.index(left);
        let mut to = self.index(right);
        // A block may end within a segment, which then did not arrive whole.
        if to > 0 && self.ring.get(to - 1).is_some_and(|seg| self.offset(seg) + seg.seq_len() > right) {
            to -= 1;
        }
        let edge = |at: usize| self.ring.get(at).map_or(self.max, |seg| self.offset(seg));
        let (left, right) = (edge(from), edge(to));
        let mut ranges = self.ranges.take().unwrap_or_default();
        ranges.insert(left, right, |a, b| {
            for at in self.index(a)..self.index(b) {
                self.mark_sacked(at, told);
            }
        });
        self.ranges = Some(ranges);
    }

    fn mark_sacked(&mut self, at: usize, told: &mut Delivered) {
        let Some(seg) = self.ring.get(at).copied() else { return };
        self.uncount(&seg);
        self.sacked += 1;
        let end = self.offset(&seg) + seg.seq_len();
        told.add(&seg, end);
        if let Some(seg) = self.ring.get_mut(at) {
            seg.flags = seg.flags & !(LOST | RETRANS) | SACKED;
        }
    }

    /// Marks lost what has enough SACKed data above it (`IsLost`, RFC 6675, section 4).
    #[inline]
    pub(crate) fn mark_lost(&mut self, dupthresh: u32, mss: u32) {
        let Some(ranges) = self.ranges.as_ref().filter(|ranges| !ranges.is_empty()) else { return };
        let below = ranges.lost_below(dupthresh, mss);
        let from = self.whole(self.lost_below);
        if below <= from {
            return;
        }
        for at in self.index(from)..self.index(below) {
            self.mark_lost_at(at);
        }
        self.lost_below = below as u32;
    }

    /// The same by time (RFC 8985, section 6.2, step 5), for what was sent once and before `newest`, a time and an end: lost
    /// after `patience`. When the first of the rest was sent.
    pub(crate) fn mark_lost_by_time(
        &mut self,
        newest: (Instant, u64),
        now: Instant,
        patience: Duration,
    ) -> Option<Instant> {
        let mut at = self.index(self.whole(self.lost_below));
        let mut waits = None;
        while let Some(seg) = self.ring.get(at).copied() {
            if seg.flags & (SACKED | LOST | AGAIN) == 0 {
                if (seg.sent, self.offset(&seg) + seg.seq_len()) >= newest {
                    break;
                }
                if seg.sent + patience > now {
                    waits = Some(seg.sent);
                    break;
                }
                self.mark_lost_at(at);
            }
            at += 1;
        }
        self.lost_below = self.ring.get(at).map_or(self.max as u32, |seg| seg.low);
        waits
    }

    /// The segment at `offset`, if the copy that left at `sent` is its last and still waited for: its index and end.
    pub(crate) fn copy(&self, offset: u64, sent: Instant) -> Option<(usize, u64)> {
        if offset < self.una {
            return None;
        }
        let at = self.index(offset);
        let seg = self.ring.get(at).filter(|seg| seg.has(RETRANS) && seg.sent == sent)?;
        (self.offset(seg) == offset).then(|| (at, offset + seg.seq_len()))
    }

    /// The copy of the `at`-th segment is lost too.
    pub(crate) fn mark_copy_lost(&mut self, at: usize) {
        let Some(seg) = self.ring.get_mut(at) else { return };
        self.lost += u32::from(!seg.has(LOST));
        self.retrans -= u32::from(seg.has(RETRANS));
        self.pending += 1;
        seg.flags = seg.flags & !RETRANS | LOST;
        let seg = *seg;
        self.pending_from = self.whole(self.pending_from).min(self.offset(&seg)) as u32;
    }

    fn mark_lost_at(&mut self, at: usize) {
        let Some(seg) = self.ring.get_mut(at) else { return };
        if seg.flags & (SACKED | LOST) != 0 {
            return;
        }
        seg.flags |= LOST;
        self.lost += 1;
        if !seg.has(RETRANS) {
            self.pending += 1;
            let seg = *seg;
            self.pending_from = self.whole(self.pending_from).min(self.offset(&seg)) as u32;
        }
    }

    /// The first segment counts as lost, whatever the rule says.
    pub(crate) fn mark_first_lost(&mut self) {
        self.mark_lost_at(0);
    }

    /// After a time-out everything that was not SACKed counts as lost, copies included, but for what is `spared` for the
    /// time it was sent. If the first segment was SACKed, the receiver has thrown away what it had SACKed (RFC 2018,
    /// section 8), and no mark can be believed.
    pub(crate) fn mark_all_lost(&mut self, spared: impl Fn(Instant) -> bool) {
        if self.ring.front().is_some_and(|seg| seg.has(SACKED)) {
            self.ranges = None;
            for seg in &mut self.ring {
                seg.flags &= !SACKED;
            }
            self.sacked = 0;
        }
        (self.lost, self.retrans, self.pending) = (0, 0, 0);
        self.pending_from = self.una as u32;
        self.lost_below = self.max as u32;
        for (at, seg) in self.ring.iter_mut().enumerate().rev() {
            if seg.has(SACKED) {
                continue;
            }
            if at == 0 || !spared(seg.sent) {
                seg.flags = seg.flags & !RETRANS | LOST;
            } else if !seg.has(LOST) {
                self.lost_below = seg.low;
            }
            self.lost += u32::from(seg.has(LOST));
            self.retrans += u32::from(seg.has(RETRANS));
            self.pending += u32::from(seg.flags & (LOST | RETRANS) == LOST);
        }
    }

    /// Forgets all marks and counts nothing as sent: everything goes again in order.
    pub(crate) fn go_back(&mut self) {
        if self.sacked + self.lost + self.retrans > 0 {
            for seg in &mut self.ring {
                seg.flags &= !(SACKED | LOST | RETRANS);
            }
            (self.sacked, self.lost, self.retrans, self.pending) = (0, 0, 0, 0);
            if let Some(ranges) = &mut self.ranges {
                ranges.clear();
            }
        }
        self.lost_below = self.una as u32;
        self.pending_from = self.una as u32;
        self.next = 0;
    }

    /// The first segment that is lost and was not sent again.
    pub(crate) fn next_pending(&mut self) -> Option<usize> {
        if self.pending == 0 {
            return None;
        }
        let from = self.index(self.whole(self.pending_from));
        let at = (from..self.ring.len())
            .find(|&at| self.ring.get(at).is_some_and(|seg| seg.flags & (LOST | RETRANS) == LOST))?;
        self.pending_from = self.ring.get(at)?.low;
        Some(at)
    }

    /// The next segment to be sent again after going back.
    pub(crate) fn next_behind(&self) -> Option<usize> {
        (self.next < self.ring.len() as u32).then_some(self.next as usize)
    }

    /// The first unSACKed segment from `from` on that was not sent again and has SACKed data above it (`NextSeg`, rule 3,
    /// with `from` = HighRxt). The gaps between the ranges are walked, not the segments.
    pub(crate) fn next_hole(&self, from: u64) -> Option<usize> {
        let mut from = from.max(self.una);
        let list = self.ranges.as_ref()?.as_slice();
        for range in list.get(list.partition_point(|range| range.1 <= from)..)? {
            for at in self.index(from)..self.index(range.0) {
                if self.ring.get(at).is_some_and(|seg| seg.flags & (SACKED | RETRANS) == 0) {
                    return Some(at);
                }
            }
            from = from.max(range.1);
        }
        None
    }

    /// The last unSACKed segment (`NextSeg`, rule 4).
    pub(crate) fn last_hole(&self) -> Option<usize> {
        self.ring.iter().rposition(|seg| !seg.has(SACKED))
    }

    /// The `at`-th segment is sent again now; returns its offset and itself.
    pub(crate) fn resend(&mut self, at: usize, now: Instant) -> Option<(u64, Seg)> {
        let una = self.una;
        let behind = at as u32 == self.next;
        let seg = self.ring.get_mut(at)?;
        if behind {
            self.next += 1;
        } else if !seg.has(RETRANS) {
            self.pending -= u32::from(seg.has(LOST));
            self.retrans += 1;
            seg.flags |= RETRANS;
        }
        seg.flags |= AGAIN;
        seg.sent = now;
        Some((una + u64::from(seg.low.wrapping_sub(una as u32)), *seg))
    }
}
