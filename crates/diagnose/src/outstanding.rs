//! Bytes that a sender has under way, as far as they were seen at the point of capture: those between the highest ACK
//! and the highest sequence number, in segments. Bytes that were passed over and never seen are segments too: holes.

use std::collections::VecDeque;

use narrows_units::{Instant, SeqNum};

use crate::seen::Seen;
use crate::tolerances::MOST_SEGMENTS;

/// Consecutive bytes that were sent together, or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) start: SeqNum,
    pub(crate) len: u32,
    /// Time at which the segment was last seen; of a hole, when it was passed over.
    pub(crate) last: Instant,
    /// Time at which that copy was sent (see [`Seen`]).
    pub(crate) sent: Instant,
    /// The frame in which the segment was last seen.
    pub(crate) frame: u64,
    /// Number of copies seen. Zero for a hole.
    pub(crate) seen: u8,
    /// Whether the receiver has reported the segment as received.
    pub(crate) sacked: bool,
}

impl Segment {
    pub(crate) fn end(&self) -> SeqNum {
        self.start + self.len
    }

    /// Time at which the copy of the segment that arrived was sent, if the time is certain.
    fn answered(&self, answered: Instant) -> Option<Instant> {
        (self.seen == 1 || self.seen > 1 && self.last <= answered).then_some(self.last)
    }
}

/// Knowledge of a segment's bytes from before the segment passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Time at which a hole was passed over that the bytes, or a part of them, fill.
    pub(crate) hole: Option<Instant>,
    /// How often the bytes had been seen, at most.
    pub(crate) seen: u8,
    /// Time at which the bytes were last seen, and the frame.
    pub(crate) last: Option<(Instant, u64)>,
    /// Whether the receiver has reported all the bytes as received.
    pub(crate) sacked: bool,
}

/// Segments that a cumulative ACK newly covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Covered {
    /// Time at which the highest segment was sent, if it was sent once and not acknowledged selectively before.
    pub(crate) sample: Option<Instant>,
    /// Time at which a covered segment was seen last.
    pub(crate) last: Option<Instant>,
    /// Whether a segment that had been seen more than once, or fills a hole, is among them (Karn's rule).
    pub(crate) repeated: bool,
    /// Segments, holes included.
    pub(crate) count: u32,
    /// Holes among the segments: the bytes came another way, or the capture missed the bytes.
    pub(crate) holes: u32,
}

/// Segments under way of one sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outstanding {
    list: VecDeque<Segment>,
    sacked: u32,
    holes: u32,
    /// Time at which the latest that has arrived was sent (RFC 8985, RACK.xmit_ts).
    delivered: Option<Instant>,
}

impl Outstanding {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Segments, holes included.
    pub(crate) fn count(&self) -> u32 {
        self.list.len() as u32
    }

    /// Segments that the receiver has selectively acknowledged.
    pub(crate) fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Time at which the latest that has arrived was sent, as far as ACKs have told (RFC 8985, RACK.xmit_ts).
    pub(crate) fn delivered(&self) -> Option<Instant> {
        self.delivered
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds a segment behind the last. `seen` is 0 for a hole.
    pub(crate) fn push(&mut self, start: SeqNum, end: SeqNum, p: &Seen<'_>, seen: u8) {
        if self.list.len() >= MOST_SEGMENTS {
            self.pop();
        }
        self.holes += u32::from(seen == 0);
        let Seen { at, frame, sent, .. } = *p;
        self.list.push_back(Segment { start, len: end - start, last: at, sent, frame, seen, sacked: false });
    }

    fn pop(&mut self) -> Option<Segment> {
        let first = self.list.pop_front()?;
        self.sacked -= u32::from(first.sacked);
        self.holes -= u32::from(first.seen == 0);
        Some(first)
    }

    /// The place of the first segment that ends after `seq`. Where nothing is acknowledged, as in a capture of one
    /// direction, it is far from the first and near the last, so the search begins there and doubles its steps.
    fn place(&self, seq: SeqNum) -> usize {
        let over = |at: usize| self.list.get(at).is_some_and(|s| s.end().at_or_before(seq));
        let (mut step, mut to) = (1, self.list.len());
        let mut from = to.saturating_sub(step);
        while from > 0 && !over(from) {
            (to, step) = (from, step * 2);
            from = to.saturating_sub(step);
        }
        while from < to {
            let middle = from + (to - from) / 2;
            if over(middle) { from = middle + 1 } else { to = middle }
        }
        from
    }

    /// Everything before `to` is acknowledged. What was sent several times counts as delivered if it was sent before
    /// `answered`: an ACK of what was sent later would be too early (RFC 8985, section 6.2, step 2).
    pub(crate) fn cover(&mut self, to: SeqNum, answered: Instant) -> Covered {
        let mut covered = Covered::default();
        while let Some(first) = self.list.front_mut() {
            if !first.start.before(to) {
                break;
            }
            covered.count += 1;
            covered.repeated |= first.seen != 1;
            covered.last = covered.last.max((first.seen > 0).then_some(first.last));
            covered.sample = (first.seen == 1 && !first.sacked).then_some(first.last);
            self.delivered = self.delivered.max(first.answered(answered));
            if to.before(first.end()) {
                // A part of a segment: the rest is still under way.
                first.len = first.end() - to;
                first.start = to;
                break;
            }
            covered.holes += u32::from(first.seen == 0);
            self.pop();
        }
        covered
    }

    /// The receiver has `[left, right)`; `answered` as of [`Outstanding::cover`]. Says whether that was news.
    pub(crate) fn sack(&mut self, left: SeqNum, right: SeqNum, answered: Instant) -> bool {
        let (mut at, mut news) = (self.place(left), false);
        while let Some(s) = self.list.get_mut(at) {
            if !s.start.before(right) {
                break;
            }
            if !s.sacked && left.at_or_before(s.start) && s.end().at_or_before(right) {
                (s.sacked, news) = (true, true);
                self.sacked += 1;
                self.delivered = self.delivered.max(s.answered(answered));
            }
            at += 1;
        }
        news
    }

    /// `[start, end)`, which was sent or passed over before, is seen now.
    pub(crate) fn touch(&mut self, start: SeqNum, end: SeqNum, p: &Seen<'_>) -> Known {
        let (mut at, mut known) = (self.place(start), Known { sacked: true, ..Known::default() });
        while let Some(s) = self.list.get(at).copied() {
            if !s.start.before(end) {
                break;
            }
            known.sacked &= s.sacked;
            if s.seen == 0 {
                known.hole = Some(known.hole.map_or(s.last, |h| h.min(s.last)));
                at += self.fill(at, start, end, p);
                continue;
            }
            known.seen = known.seen.max(s.seen);
            if known.last.is_none_or(|(last, _)| last < s.last) {
                known.last = Some((s.last, s.frame));
            }
            if let Some(s) = self.list.get_mut(at) {
                (s.seen, s.last, s.sent, s.frame) = (s.seen.saturating_add(1), p.at, p.sent, p.frame);
            }
            at += 1;
        }
        known
    }

    /// Splits the hole at `at` into what is before `start`, what is seen now, and what is behind `end`. Gives the
    /// number of segments that are there now. What fills a hole counts as seen twice: it is not the first that was
    /// sent.
    fn fill(&mut self, at: usize, start: SeqNum, end: SeqNum, p: &Seen<'_>) -> usize {
        let hole = self.list[at];
        let from = if hole.start.before(start) { start } else { hole.start };
        let to = if end.before(hole.end()) { end } else { hole.end() };
        let (before, behind) = (from - hole.start, hole.end() - to);
        let (last, sent, frame) = (p.at, p.sent, p.frame);
        self.list[at] = Segment { start: from, len: to - from, last, sent, frame, seen: 2, ..hole };
        self.holes -= 1;
        if behind > 0 {
            self.holes += 1;
            self.list.insert(at + 1, Segment { start: to, len: behind, ..hole });
        }
        if before > 0 {
            self.holes += 1;
            self.list.insert(at, Segment { len: before, ..hole });
        }
        1 + usize::from(behind > 0) + usize::from(before > 0)
    }

    /// The first segment.
    pub(crate) fn first(&self) -> Option<&Segment> {
        self.list.front()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use narrows_wire::TcpHeader;

    use super::*;
    use crate::passing::NOTHING;

    static TCP: LazyLock<TcpHeader> = LazyLock::new(TcpHeader::default);

    const fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }
    fn seen<'a>(ms: u64, frame: u64) -> Seen<'a> {
        Seen { at: at(ms), frame, tcp: &TCP, sent: at(ms), ident: None, passing: &NOTHING, passed: [None; 2] }
    }
    fn seq(n: u32) -> SeqNum {
        SeqNum(n)
    }

    #[test]
    fn an_ack_gives_a_sample_unless_karn_forbids() {
        let mut o = Outstanding::default();
        o.push(seq(0), seq(100), &seen(1, 1), 1);
        o.push(seq(100), seq(200), &seen(2, 2), 1);
        o.push(seq(200), seq(300), &seen(3, 3), 1);
        assert_eq!(o.touch(seq(0), seq(100), &seen(9, 4)).last, Some((at(1), 1)));
        let c = o.cover(seq(200), at(0));
        assert_eq!((c.sample, c.repeated, c.count), (Some(at(2)), true, 2));
        // Half of the third: its time is known, and the other half stays.
        let c = o.cover(seq(250), at(0));
        assert_eq!((c.sample, c.repeated, o.first().unwrap().len), (Some(at(3)), false, 50));
    }

    #[test]
    fn a_hole_is_filled_in_pieces() {
        let mut o = Outstanding::default();
        o.push(seq(0), seq(300), &seen(5, 1), 0);
        o.push(seq(300), seq(400), &seen(5, 1), 1);
        let k = o.touch(seq(100), seq(200), &seen(9, 2));
        assert_eq!((k.hole, k.seen, o.count(), o.holes), (Some(at(5)), 0, 4, 2));
        assert_eq!(o.touch(seq(0), seq(100), &seen(10, 3)).hole, Some(at(5)));
        assert_eq!(o.touch(seq(100), seq(400), &seen(11, 4)).seen, 2, "the piece that was filled");
        assert_eq!((o.holes, o.cover(seq(400), at(0)).count), (0, 4));
    }

    #[test]
    fn selective_acknowledgments_are_news_once() {
        let mut o = Outstanding::default();
        for n in 0..3 {
            o.push(seq(n * 10), seq(n * 10 + 10), &seen(1, 1), 1);
        }
        assert!(o.sack(seq(10), seq(30), at(0)) && !o.sack(seq(10), seq(30), at(0)));
        assert_eq!(o.sacked(), 2);
        assert!(
            o.touch(seq(10), seq(20), &seen(2, 2)).sacked && !o.touch(seq(0), seq(20), &seen(2, 2)).sacked
        );
        o.cover(seq(30), at(0));
        assert!(o.is_empty() && o.sacked() == 0);
    }

    #[test]
    fn it_never_grows_beyond_its_bound() {
        let mut o = Outstanding::default();
        for n in 0..MOST_SEGMENTS as u32 + 10 {
            o.push(seq(n), seq(n + 1), &seen(1, 1), 1);
        }
        assert_eq!((o.count() as usize, o.first().unwrap().start), (MOST_SEGMENTS, seq(10)));
    }
}
