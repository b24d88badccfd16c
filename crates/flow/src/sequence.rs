//! Sequence numbers of the queued direction: how far they have come, and which bytes are missing.
//!
//! Bytes are missing in two ways. A hole was skipped by the sender's segments and never seen. A dropped packet was seen
//! and dropped here. Both are kept as ranges, so that a cumulative ACK, or one large retransmission of two small
//! packets, settles them too. Most flows have neither: the ranges have memory of their own while there are any.

use narrows_units::{Duration, Instant, SeqNum};

use crate::Ranges;
use crate::ranges::MAX_SPAN;
use crate::times::Micros;

/// Windows that a segment may lie beyond what has been seen, or before what is acknowledged: a sender that doubles its
/// window may lose all of it on the way here, and its path may hold as much again.
const WINDOWS: u32 = 4;
/// Least bytes that a segment may lie beyond what has been seen: nearly all senders begin within them and go on within
/// them after a pause; a stranger who knows no number hits them once in 32 768 guesses.
const LEAST_REACH: u32 = 64 << 10;
/// Most bytes that a connection has under way on a thin link: a number beyond them is no sender's and no receiver's.
pub const MOST_UNDER_WAY: u32 = 4 << 20;

/// Ranges of missing bytes.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Gaps {
    dropped: Ranges<(), 3>,
    /// Start of the latest retransmission dropped here, while its bytes are missing.
    redropped: Option<SeqNum>,
    /// Bytes that were skipped, and when.
    holes: Ranges<Micros, 2>,
}

/// Place of a segment among the segments seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// All bytes of the segment are new.
    New,
    /// Old bytes, then new ones.
    Overlapping,
    /// All its bytes were seen before, or its first copy must have been lost before this box.
    Repeated,
    /// A later segment overtook the segment on the way to this box.
    Reordered,
    /// Too far ahead to be believed.
    Doubted,
    /// Too far behind what is acknowledged for any sender to repeat.
    Bygone,
    /// No window reaches the segment: the record starts anew from the segment.
    Elsewhere,
}

/// Sequence numbers of a flow.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Sequence {
    gaps: Option<Box<Gaps>>,
    /// Number after the highest byte that has arrived.
    max: SeqNum,
    /// Highest cumulative acknowledgment of the other direction.
    acked: SeqNum,
    /// End of the latest segment that was too far ahead to be believed; up to `max` it is believed.
    doubted: SeqNum,
    /// Packets that were dropped here and whose bytes have not gone through since: 0 if and only if no range is
    /// dropped, else no fewer than there are ranges. A dropped retransmission of such a packet does not count twice, or
    /// one repair could never settle it.
    unrepaired: u16,
    /// Whether `max` is known.
    known: bool,
    /// Whether `acked` is known.
    has_ack: bool,
}

impl Sequence {
    pub(crate) const UNKNOWN: Self = Self {
        gaps: None,
        max: SeqNum(0),
        acked: SeqNum(0),
        doubted: SeqNum(0),
        unrepaired: 0,
        known: false,
        has_ack: false,
    };

    /// Whether anything of the sender's numbers is known.
    pub(crate) const fn is_known(&self) -> bool {
        self.known
    }

    pub(crate) const fn max(&self) -> SeqNum {
        self.max
    }

    pub(crate) const fn highest_ack(&self) -> Option<SeqNum> {
        if self.has_ack { Some(self.acked) } else { None }
    }

    pub(crate) const fn unrepaired(&self) -> u16 {
        self.unrepaired
    }

    /// Whether nothing is missing that is under way.
    pub(crate) fn is_whole(&self) -> bool {
        self.unrepaired == 0 && self.gaps.as_ref().is_none_or(|gaps| gaps.holes.is_empty())
    }

    /// Whether a byte of `[seq, end)` was dropped here and has not gone through since.
    pub(crate) fn is_unrepaired(&self, seq: SeqNum, end: SeqNum) -> bool {
        let meets = |gaps: &Gaps| gaps.dropped.iter().any(|r| seq.before(r.end()) && r.start.before(end));
        self.gaps.as_ref().is_some_and(|gaps| meets(gaps))
    }

    /// Whether the latest retransmission that was dropped here begins in `[seq, end)`.
    pub(crate) fn is_redropped(&self, seq: SeqNum, end: SeqNum) -> bool {
        let redropped = self.gaps.as_ref().and_then(|gaps| gaps.redropped);
        redropped.is_some_and(|redropped| seq.at_or_before(redropped) && redropped.before(end))
    }

    /// Takes the first thing known of the sender's numbers.
    pub(crate) fn begin(&mut self, end: SeqNum) {
        (self.known, self.max, self.doubted) = (true, end, end);
        if end.before(self.acked) {
            // An ACK of what nobody sent.
            self.has_ack = false;
        }
    }

    /// Moves the highest number up to `end`.
    pub(crate) fn extend(&mut self, end: SeqNum) {
        self.max = self.max.max(end);
    }

    /// Takes a segment `[seq, end)` that is not empty, of a flow whose epoch has this length.
    pub(crate) fn take(&mut self, now: Instant, seq: SeqNum, end: SeqNum, epoch: Duration) -> Place {
        if self.has_ack {
            if seq != self.max && !self.is_plausible(seq, end) {
                if end.before(self.acked) {
                    return Place::Bygone;
                }
                // Believed as soon as the receiver acknowledges it.
                self.doubted = end;
                return Place::Doubted;
            }
        } else if end.distance_from(self.max).unsigned_abs() > MAX_SPAN {
            self.start_from(end);
            return Place::Elsewhere;
        }
        if end.at_or_before(self.max) {
            return self.below_max(now, seq, end, epoch);
        }
        let mut place = Place::New;
        if seq.before(self.max) {
            place = Place::Overlapping;
            self.fill(seq, self.max);
        } else if self.max.before(seq) {
            self.skip(now, seq);
        }
        self.max = end;
        place
    }

    /// Bytes beyond what has been seen, or before what is acknowledged, in which a number is believed.
    fn reach(&self) -> u32 {
        let window = (self.max - self.acked).min(MOST_UNDER_WAY);
        (window * WINDOWS).clamp(LEAST_REACH, MOST_UNDER_WAY)
    }

    /// Whether a segment `[seq, end)` lies where the sender can be, as far as is known. Both may be the number after
    /// what has been seen.
    pub(crate) fn is_plausible(&self, seq: SeqNum, end: SeqNum) -> bool {
        let reach = self.reach();
        // On the circle of numbers, from `reach` before what is acknowledged to `reach` beyond what was seen.
        let span = (self.max - self.acked).saturating_add(end - seq).saturating_add(2 * reach);
        !self.known || !self.has_ack || (end - self.acked).wrapping_add(reach) <= span
    }

    /// Within half an epoch of the skip, a segment in a hole was overtaken on its way here. Later it is the repair of a
    /// loss before this box, because no sender learns of a loss in less than a round trip.
    fn below_max(&mut self, now: Instant, seq: SeqNum, end: SeqNum, epoch: Duration) -> Place {
        let hole = self.gaps.as_mut().and_then(|gaps| gaps.holes.hit(seq, end));
        let Some(age) = hole.map(|hole| Micros::at(now).since(hole.tag)) else { return Place::Repeated };
        self.fill(seq, end);
        if age < epoch / 2 { Place::Reordered } else { Place::Repeated }
    }

    #[cold]
    fn skip(&mut self, now: Instant, to: SeqNum) {
        self.gaps.get_or_insert_default().holes.add(self.max, to, Micros::at(now));
        self.tidy();
    }

    /// Takes `[seq, end)` out of the holes.
    fn fill(&mut self, seq: SeqNum, end: SeqNum) {
        if let Some(gaps) = &mut self.gaps {
            gaps.holes.remove(seq, end);
            self.tidy();
        }
    }

    #[cold]
    fn start_from(&mut self, end: SeqNum) {
        (self.max, self.doubted, self.has_ack) = (end, end, false);
        (self.gaps, self.unrepaired) = (None, 0);
    }

    /// Takes a drop here of a segment `[seq, end)` that had arrived.
    pub(crate) fn drop_segment(&mut self, seq: SeqNum, end: SeqNum) {
        let again = self.is_unrepaired(seq, end);
        let gaps = self.gaps.get_or_insert_default();
        if again {
            gaps.redropped = Some(seq);
        } else {
            self.unrepaired = self.unrepaired.saturating_add(1);
        }
        gaps.dropped.add(seq, end, ());
        self.tidy();
    }

    /// Takes a segment `[seq, end)` that is sent on.
    pub(crate) fn depart(&mut self, seq: SeqNum, end: SeqNum) {
        if self.unrepaired > 0
            && let Some(gaps) = &mut self.gaps
            && gaps.dropped.remove(seq, end)
        {
            self.note_repair();
        }
    }

    /// Takes a cumulative acknowledgment. Returns whether it is the first, or higher than those before.
    pub(crate) fn acknowledge(&mut self, ack: SeqNum) -> bool {
        if self.has_ack && ack.at_or_before(self.acked) {
            return false;
        }
        (self.acked, self.has_ack) = (ack, true);
        if let Some(gaps) = &mut self.gaps {
            gaps.holes.remove_below(ack);
            if gaps.dropped.remove_below(ack) {
                self.note_repair();
            } else {
                self.tidy();
            }
        }
        true
    }

    /// Whether `ack` can be an acknowledgment of bytes that have passed here: not of any that have not (RFC 9293,
    /// section 3.10.7.4), and no older than those that may still be under way (RFC 5961, section 5.2).
    pub(crate) fn permits(&self, ack: SeqNum) -> bool {
        let back = self.max - ack;
        let most = if self.has_ack { (self.max - self.acked).saturating_add(self.reach()) } else { MAX_SPAN };
        self.known && back <= most
    }

    /// Believes the doubted segment, of which `ack` says that it has passed elsewhere, as while the box let all traffic
    /// pass. Returns whether there is one that it says so of.
    pub(crate) fn believe(&mut self, ack: SeqNum) -> bool {
        let told = self.max.before(self.doubted) && ack.at_or_before(self.doubted);
        if told {
            self.start_from(ack);
        }
        told
    }

    /// Counts one packet as repaired; each range that is left is at least one packet.
    fn note_repair(&mut self) {
        let Some(gaps) = &mut self.gaps else { return };
        let left = u16::try_from(gaps.dropped.count()).unwrap_or(u16::MAX);
        self.unrepaired = if left == 0 { 0 } else { self.unrepaired.saturating_sub(1).max(left) };
        if left == 0 {
            gaps.redropped = None;
        }
        self.tidy();
    }

    /// Forgets each drop: nothing is left to repair.
    pub(crate) fn forget_drops(&mut self) {
        self.unrepaired = 0;
        if let Some(gaps) = &mut self.gaps {
            gaps.dropped.clear();
            gaps.redropped = None;
            self.tidy();
        }
    }

    /// Forgets ranges so old that sequence numbers have moved on by more than any window.
    pub(crate) fn forget_far(&mut self) {
        let max = self.max;
        let Some(gaps) = &mut self.gaps else { return };
        let far = |start: SeqNum| max - start > MAX_SPAN;
        let drops = gaps.dropped.iter().any(|r| far(r.start));
        if gaps.holes.iter().any(|r| far(r.start)) {
            gaps.holes.clear();
        }
        if drops {
            self.forget_drops();
        }
        self.tidy();
    }

    /// Gives the memory back once nothing is missing.
    fn tidy(&mut self) {
        if self.gaps.as_ref().is_some_and(|gaps| gaps.dropped.is_empty() && gaps.holes.is_empty()) {
            self.gaps = None;
        }
    }
}
