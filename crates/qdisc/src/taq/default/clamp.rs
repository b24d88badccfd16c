//! The window clamp: a sender is told, in the acknowledgments that pass on their way back, to have no more under way
//! than its turn needs. What is never sent need not be dropped.
//!
//! The right edge of the window (RFC 9293, section 3.8.6) is lowered to what has been served plus an allowance. The
//! window scale (RFC 7323) must have been seen in both SYNs: a field whose unit is not known is left alone.
//!
//! The field counts in units of 2^scale bytes, at scale 10 more than two small segments. An edge that may be anywhere
//! cannot be told, only the next one before or after it, and which those are changes with each acknowledgment. An edge
//! always rounded up moves on with every acknowledgment of less than a unit, so that a window once wide would stay so
//! for good. Therefore:
//!
//! - An edge beyond what is wanted lies at most [`SPARE`] segments beyond it, or one unit beyond what has been served.
//! - The edge a sender was told is kept to within a unit: where rounding up would pass that limit it is rounded down,
//!   as receivers do and senders must bear (RFC 7323, section 2.4). It is pulled back no further ("shrinking the
//!   window" is strongly discouraged, RFC 9293, section 3.8.6.2.1), so no packet already permitted is forbidden.
//!
//! Idea: TCP rate control by ACK modification (Karandikar et al., CCR 2000), here with a queue per flow and an
//! allowance in rounds.

use narrows_units::SeqNum;
use narrows_wire::TcpHeader;

/// Segments that an edge may lie beyond what is wanted, for the sake of rounding.
const SPARE: u32 = 2;

/// What is known of a sender's data. Its segments end at `max_seq` plus multiples of `segment` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The sequence number after the last data that was served.
    pub served: SeqNum,
    /// The sequence number after the last data seen.
    pub max_seq: SeqNum,
    /// Payload of a full segment.
    pub segment: u32,
}

/// The right edges a sender has been told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Clamp {
    /// The furthest one.
    furthest: SeqNum,
    /// How far before it the last one was: less than a unit, of 2^14 bytes at the most.
    back: u16,
    /// Whether there has been one.
    told: bool,
}

impl Clamp {
    /// The window field to put into an acknowledgment `tcp` so that about `allowance` bytes beyond what was served may
    /// be sent, or `None` if it stays as it is. A window is never less than one segment.
    pub fn window(&mut self, tcp: &TcpHeader, scale: u8, allowance: u32, sent: Sent) -> Option<u16> {
        let offered = tcp.ack + (u32::from(tcp.window) << scale);
        let edges = Edges { ack: tcp.ack, scale };
        let segment = sent.segment.max(1);
        let served = sent.served.max(tcp.ack);
        let wanted = served + allowance.max(segment);
        let limit = served + (allowance.max(segment) + SPARE * segment).max(1 << scale);
        let target = match self.edge() {
            Some(e) if wanted.at_or_before(e) => Some(edges.up(e)).filter(|up| up.at_or_before(limit)),
            _ => Some(edges.whole_segments(wanted, limit, Sent { segment, ..sent })),
        };
        let least = edges.up(tcp.ack + segment);
        let kept = self.edge().map_or(least, |e| edges.down(e.max(tcp.ack)).max(least));
        let target = target.map_or(kept, |t| t.max(kept));
        if offered.at_or_before(target) {
            self.furthest = self.edge().map_or(offered, |e| e.max(offered));
            (self.back, self.told) = (0, true);
            return None;
        }
        let field = u16::try_from((target - tcp.ack) >> scale).ok().filter(|f| *f < tcp.window)?;
        self.furthest = self.edge().map_or(target, |e| e.max(target));
        (self.back, self.told) = (u16::try_from(self.furthest - target).unwrap_or(u16::MAX), true);
        Some(field)
    }

    fn edge(&self) -> Option<SeqNum> {
        self.told.then_some(self.furthest)
    }

    /// Whether a sender that has sent up to `max_seq` keeps within the edge it was told: then its backlog will not
    /// grow.
    pub fn obeyed(&self, max_seq: SeqNum) -> bool {
        self.edge().is_some_and(|e| max_seq.at_or_before(e + 1))
    }

    /// Whether a sender that has sent up to `max_seq` has less than `segment` bytes left to the edge: it waits for us.
    pub fn holds(&self, max_seq: SeqNum, segment: u32) -> bool {
        self.edge().is_some_and(|e| e.before(max_seq + segment + u32::from(self.back)))
    }
}

/// The edges an acknowledgment can tell: multiples of 2^scale beyond its number.
#[derive(Clone, Copy)]
struct Edges {
    ack: SeqNum,
    scale: u8,
}

impl Edges {
    fn up(self, edge: SeqNum) -> SeqNum {
        self.ack + ((edge - self.ack).div_ceil(1 << self.scale) << self.scale)
    }

    fn down(self, edge: SeqNum) -> SeqNum {
        self.ack + ((edge - self.ack) >> self.scale << self.scale)
    }

    /// An edge up to `limit`, at `wanted` or beyond or less than a segment before, and as little as may be short of
    /// whole segments of the sender: what is left over of a window is filled with a small segment, whose header costs
    /// as much as a full one's. Linux does so when more than one segment fits. With 448 bytes in units of 128 every
    /// second multiple fits. If no edge is there, it is the last up to `limit`.
    fn whole_segments(self, wanted: SeqNum, limit: SeqNum, sent: Sent) -> SeqNum {
        let (last, segment) = (sent.max_seq.max(self.ack), sent.segment);
        let most = self.down(limit);
        if wanted.at_or_before(last) {
            let up = self.up(wanted);
            return if up.at_or_before(most) { up } else { most };
        }
        let fewest = (wanted - last).div_ceil(segment);
        let mut best = None;
        // Each edge that can be told falls short of some whole number of segments; that of the limit may need one more.
        for n in fewest..=fewest + SPARE + 1 {
            let whole = last + n.saturating_mul(segment);
            let edge = self.down(whole);
            if most.before(edge) {
                break;
            }
            let short = whole - edge;
            if best.is_none_or(|(least, _)| short < least) {
                best = Some((short, edge));
            }
            // A thirty-second of a segment is as good as nothing.
            if short <= segment / 32 {
                break;
            }
        }
        best.filter(|(short, _)| *short < segment).map_or(most, |(_, edge)| edge)
    }
}

#[cfg(test)]
mod tests;
