//! Which segments are lost, and which is to be sent again next.

use narrows_units::{Duration, Instant};

use super::segment::{LOST, SACKED};
use super::{EVER_RETRANS, RETRANS, Scoreboard, SentSegment};

impl Scoreboard {
    /// Marks as lost what has enough SACKed data above it (`IsLost`, RFC 6675, section 4).
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

    /// Marks as lost, by time, what was sent once and before `newest`, a time and an end, and has been waited for
    /// longer than `patience` (RFC 8985, section 6.2, step 5). Returns when the first of those left which are still
    /// waited for.
    pub(crate) fn mark_lost_by_time(
        &mut self,
        newest: (Instant, u64),
        now: Instant,
        patience: Duration,
    ) -> Option<Instant> {
        let mut at = self.index(self.whole(self.lost_below));
        let mut waits = None;
        while let Some(segment) = self.ring.get(at).copied() {
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
        self.lost_below = self.ring.get(at).map_or(self.max as u32, |segment| segment.low);
        waits
    }

    /// The index and the end of the segment at `offset`, if its last copy left at `sent` and is still waited for.
    pub(crate) fn copy(&self, offset: u64, sent: Instant) -> Option<(usize, u64)> {
        if offset < self.una {
            return None;
        }
        let at = self.index(offset);
        let segment = self.ring.get(at).filter(|segment| segment.has(RETRANS) && segment.sent == sent)?;
        (self.offset(segment) == offset).then(|| (at, offset + segment.seq_len()))
    }

    /// The copy of the segment at index `at` is lost too.
    pub(crate) fn mark_copy_lost(&mut self, at: usize) {
        let Some(segment) = self.ring.get_mut(at) else { return };
        self.lost += u32::from(!segment.has(LOST));
        self.retrans -= u32::from(segment.has(RETRANS));
        self.pending += 1;
        segment.flags = segment.flags & !RETRANS | LOST;
        let segment = *segment;
        self.pending_from = self.whole(self.pending_from).min(self.offset(&segment)) as u32;
    }

    fn mark_lost_at(&mut self, at: usize) {
        let Some(segment) = self.ring.get_mut(at) else { return };
        if segment.flags & (SACKED | LOST) != 0 {
            return;
        }
        segment.flags |= LOST;
        self.lost += 1;
        if !segment.has(RETRANS) {
            self.pending += 1;
            let segment = *segment;
            self.pending_from = self.whole(self.pending_from).min(self.offset(&segment)) as u32;
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
        if self.ring.front().is_some_and(|segment| segment.has(SACKED)) {
            self.ranges = None;
            for segment in &mut self.ring {
                segment.flags &= !SACKED;
            }
            self.sacked = 0;
        }
        (self.lost, self.retrans, self.pending) = (0, 0, 0);
        self.pending_from = self.una as u32;
        self.lost_below = self.max as u32;
        for (at, segment) in self.ring.iter_mut().enumerate().rev() {
            if segment.has(SACKED) {
                continue;
            }
            if at == 0 || !spared(segment.sent) {
                segment.flags = segment.flags & !RETRANS | LOST;
            } else if !segment.has(LOST) {
                self.lost_below = segment.low;
            }
            self.lost += u32::from(segment.has(LOST));
            self.retrans += u32::from(segment.has(RETRANS));
            self.pending += u32::from(segment.flags & (LOST | RETRANS) == LOST);
        }
    }

    /// Nothing counts as lost any more.
    pub(crate) fn unmark_lost(&mut self) {
        for segment in &mut self.ring {
            segment.flags &= !LOST;
        }
        (self.lost, self.pending) = (0, 0);
        self.lost_below = self.una as u32;
        self.pending_from = self.una as u32;
    }

    /// Forgets all marks and counts nothing as sent, so that everything is sent again in order (go-back-N).
    pub(crate) fn go_back(&mut self) {
        if self.sacked + self.lost + self.retrans > 0 {
            for segment in &mut self.ring {
                segment.flags &= !(SACKED | LOST | RETRANS);
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
            .find(|&at| self.ring.get(at).is_some_and(|segment| segment.flags & (LOST | RETRANS) == LOST))?;
        self.pending_from = self.ring.get(at)?.low;
        Some(at)
    }

    /// The next segment to be sent again after going back.
    pub(crate) fn next_rewound(&self) -> Option<usize> {
        (self.next < self.ring.len() as u32).then_some(self.next as usize)
    }

    /// A recovery begins, in which nothing was sent again yet.
    pub(crate) const fn reset_high_rxt(&mut self) {
        self.high_rxt = self.una as u32;
    }

    /// The offset `HighRxt`, or snd_una if that is higher.
    fn high_rxt(&self) -> u64 {
        self.una + u64::try_from(distance(self.una as u32, self.high_rxt)).unwrap_or(0)
    }

    /// The first segment from `HighRxt` on that is neither SACKed nor sent again and has SACKed data above it
    /// (`NextSeg`, rule 3). This walks over the gaps between the ranges, not over the segments.
    pub(crate) fn next_hole(&self) -> Option<usize> {
        let mut from = self.high_rxt();
        let list = self.ranges.as_ref()?.as_slice();
        for range in list.get(list.partition_point(|range| range.1 <= from)..)? {
            for at in self.index(from)..self.index(range.0) {
                if self.ring.get(at).is_some_and(|segment| segment.flags & (SACKED | RETRANS) == 0) {
                    return Some(at);
                }
            }
            from = from.max(range.1);
        }
        None
    }

    /// The last segment that is not SACKed (`NextSeg`, rule 4).
    pub(crate) fn last_hole(&self) -> Option<usize> {
        self.ring.iter().rposition(|segment| !segment.has(SACKED))
    }

    /// The segment at index `at` is sent again now. Returns its offset and its record.
    pub(crate) fn resend(&mut self, at: usize, now: Instant) -> Option<(u64, SentSegment)> {
        let high_rxt = self.high_rxt;
        let (offset, segment) = self.rescue(at, now)?;
        let end = (offset + u64::from(segment.len)) as u32;
        self.high_rxt = if distance(high_rxt, end) > 0 { end } else { high_rxt };
        Some((offset, segment))
    }

    /// The same for a rescue retransmission, which leaves `HighRxt` as it is (RFC 6675, section 4, `NextSeg`, rule 4).
    pub(crate) fn rescue(&mut self, at: usize, now: Instant) -> Option<(u64, SentSegment)> {
        let una = self.una;
        let rewound = at as u32 == self.next;
        let segment = self.ring.get_mut(at)?;
        if rewound {
            self.next += 1;
        } else if !segment.has(RETRANS) {
            self.pending -= u32::from(segment.has(LOST));
            self.retrans += 1;
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
