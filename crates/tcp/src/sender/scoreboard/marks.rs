//! Which segments are lost, and which is to be sent again next.

use narrows_units::{Duration, Instant};

use super::segment::{LOST, SACKED};
use super::{EVER_RETRANS, Flight, Marks, RETRANS, Scoreboard, SentSegment, whole};

impl Marks {
    /// This segment is lost and was not sent again.
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

    /// Marks as lost, by time, what was sent once and before `newest`, a time and an end, and has been waited for
    /// longer than `patience` (RFC 8985, section 6.2, step 5). Returns when the first of those left which are still
    /// waited for.
    pub(crate) fn mark_lost_by_time(
        &mut self,
        newest: (Instant, u64),
        now: Instant,
        patience: Duration,
    ) -> Option<Instant> {
        let mut at = self.flight.as_ref().map_or(0, |f| self.index(whole(self.una, f.marks.lost_below)));
        let mut waits = None;
        while let Some(segment) = self.segment(at).copied() {
            if segment.flags & (SACKED | LOST | EVER_RETRANS) == 0 {
                if (segment.sent, self.offset(&segment) + segment.seq_len()) >= newest {
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

    /// Nothing counts as lost any more.
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

    /// The same for a rescue retransmission, which leaves `HighRxt` as it is (RFC 6675, section 4, `NextSeg`, rule 4).
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
