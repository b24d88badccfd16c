//! The window clamp: a sender is told, in the acknowledgments that pass on their way back, to have no more under way
//! than its turn needs. What is never sent need not be dropped.
//!
//! The right edge of the window (RFC 9293, section 3.8.6) is lowered to what has been served plus an allowance. The
//! window scale (RFC 7323) must have been seen in both SYNs: a field whose unit is not known is left alone.
//!
//! The field counts in units of u = 2^scale bytes, at scale 10 more than two small segments. An edge that may be
//! anywhere cannot be told, only the next one before or after it, and which those are changes with each acknowledgment.
//! Senders that avoid silly windows (RFC 9293, section 3.8.6.2.1) wait where a whole segment does not fit: Linux and
//! FreeBSD until a timer expires with nothing outstanding. An edge a few bytes short of a segment costs a turn. An edge
//! always rounded up moves on with every acknowledgment of less than a unit, so that a window once wide would stay so
//! for good. Let segments have m bytes, S be the end of what was served, P that of what was seen, A >= m the allowance,
//! and k = ceil((S + A - P) / m) the whole segments that are missing of it, 0 if none are. Then:
//!
//! 1. Whole segments fit. With nothing waiting (P = S) the edge lies at P + m or beyond, whatever the limit. It lies at
//!    P + k * m or beyond where an edge up to the limit does, and with u <= m + 1 one always does.
//! 2. Few wait. The edge lies at most at the limit, max(A + 2 * m, u) beyond S, or where the sender was told before.
//!    Rule 1 may exceed the limit up to S + m + u - 1. With A = 2 * m that is four segments; where a unit is more than
//!    three segments it is a unit, and less than a segment more.
//! 3. The edge a sender was told is kept to within a unit. Where rounding up passes the limit it is rounded down, as
//!    receivers do and senders must bear (RFC 7323, section 2.4). It is pulled back no further ("shrinking the window"
//!    is strongly discouraged, RFC 9293, section 3.8.6.2.1), so no packet already permitted is forbidden.
//!
//! The first allowance is two segments or more. A receiver that offers less than all that is believed.
//!
//! Idea: TCP rate control by ACK modification (Karandikar et al., CCR 2000), here with a queue per flow and an
//! allowance in rounds.

use narrows_units::{Duration, SeqNum};
use narrows_wire::TcpHeader;

/// Segments that an edge may lie beyond what is wanted, for the sake of rounding.
const SPARE: u32 = 2;

/// Segments of the first window at least: Linux never sends a segment of more than half the largest window it was
/// offered (`tcp_bound_to_half_wnd`).
const FIRST: u32 = 2;

/// The clamp of one flow: the edges its sender was told, and by what they are reckoned.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[repr(C)]
pub struct WindowClamp {
    /// The largest payload seen; before there is any, what the SYNs agreed on.
    segment: u16,
    extra: Extra,
    /// Whether any data was sent on.
    served: bool,
    edges: Clamp,
    /// The sequence number after the last new data sent on, if any was.
    served_end: SeqNum,
}

/// Payload of a segment of which nothing is known: of an MTU of 1500 bytes, with timestamps.
const USUAL: u16 = 1448;

/// A backlog of so many segments all the time shows that less than `extra` would do.
const ENOUGH: u32 = 3;

impl WindowClamp {
    /// Notes what a SYN of either side says: a segment is as large as the receiver takes and the sender's path carries.
    pub fn note_mss(&mut self, tcp: &TcpHeader) {
        let Some(mss) = tcp.mss else { return };
        // Timestamps take 12 of it (RFC 7323, appendix A).
        let options = if tcp.timestamps.is_some() { 12 } else { 0 };
        let mss = mss.saturating_sub(options).max(1);
        self.segment = if self.segment == 0 { mss } else { self.segment.min(mss) };
    }

    /// Notes a segment that arrives and is larger than those before, if `believed` says that it is one of the sender's.
    pub fn note_arrival(&mut self, tcp: &TcpHeader, believed: impl FnOnce() -> bool) {
        let payload = u16::try_from(tcp.payload).unwrap_or(u16::MAX);
        if payload > self.segment && believed() {
            self.segment = payload;
        }
    }

    /// Notes that a segment with `payload` bytes which ends at `end` is sent on, while `waiting` more wait of a sender
    /// that has sent up to `max_seq`. A sender that runs dry while it is held may have more in flight from now on, and
    /// one of which enough waited for a whole window has less.
    pub fn note_departure(&mut self, end: SeqNum, payload: u32, waiting: u32, max_seq: SeqNum) {
        let before = self.served_end;
        // A segment far ahead, which nobody believes was sent, has not been served.
        if end.at_or_before(max_seq) {
            self.served_end = if self.served { before.max(end) } else { end };
            self.served = true;
        }
        if payload == 0 {
            return;
        }
        let segment = u32::from(self.segment);
        // A sender whose last segment is short has said all: no edge that it has not heard of holds it.
        let unheard = self.edges.late && payload >= segment;
        if waiting == 0 && (unheard || self.edges.holds(max_seq, segment)) {
            self.extra.add();
        } else if waiting < ENOUGH {
            self.extra.note_few();
        }
        if self.edges.window_passes(before, self.served_end) {
            self.extra.end_window();
        }
    }

    /// Whether a sender that has sent up to `max_seq` keeps within the edge it was told: then its backlog will not
    /// grow.
    pub fn obeyed(&self, max_seq: SeqNum) -> bool {
        self.edges.obeyed(max_seq)
    }

    /// Segments beyond what is served that a sender may have in flight: `least`, so that one waits while another is
    /// answered, and what the round trip takes beside a round.
    pub fn in_flight(&self, least: u32, most: u32, rtt: Duration, round: Duration) -> u32 {
        let round = round.as_nanos().max(1);
        let under_way = (2 * rtt.as_nanos() + round / 2) / round;
        let wanted = u64::from(least) + u64::from(self.extra.segments()) + under_way;
        u32::try_from(wanted).unwrap_or(u32::MAX).min(most)
    }

    /// Whether a sender that has sent up to `max_seq`, and may send about `segments` beyond what was served, sends more
    /// once all that was served is acknowledged. Not if the edge that it was told holds it, and stays.
    pub fn permits_more(&self, segments: u32, max_seq: SeqNum) -> bool {
        let Some(told) = self.edges.edge().filter(|_| self.served) else { return true };
        let sent = self.sent(self.served_end, max_seq.max(self.served_end));
        let allowance = self.allowance(segments).max(sent.segment);
        // A sender with much room left is held by something else than its edge.
        (sent.max_seq + allowance).before(told) || told.before(sent.max_seq + sent.missing(allowance))
    }

    /// The window field to put into an acknowledgment `tcp` so that about `segments` beyond what was served may be
    /// sent by a sender that has sent up to `max_seq`, or `None` if it stays as it is. The acknowledgment is `late` if
    /// it has to wait here on its way to the sender.
    pub fn window(
        &mut self,
        tcp: &TcpHeader,
        scale: u8,
        segments: u32,
        max_seq: SeqNum,
        late: bool,
    ) -> Option<u16> {
        self.edges.late = late;
        let sent = self.sent(if self.served { self.served_end } else { tcp.ack }, max_seq);
        let allowance = self.allowance(segments);
        self.edges.window(tcp, scale, allowance, sent)
    }

    /// Knowledge of the data of a sender that has sent up to `max_seq`, `served` of that.
    fn sent(&self, served: SeqNum, max_seq: SeqNum) -> Sent {
        Sent { served, max_seq, segment: self.full_segment() }
    }

    /// Payload of a full segment.
    fn full_segment(&self) -> u32 {
        u32::from(if self.segment == 0 { USUAL } else { self.segment })
    }

    /// Bytes in `segments` beyond what was served.
    fn allowance(&self, segments: u32) -> u32 {
        segments.saturating_mul(self.full_segment()).min(1 << 24)
    }
}

/// Segments by which more is permitted in flight than the round trip asks for, because the flow ran dry while it was
/// held, and whether few waited since the last window began.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Extra(u8);

impl Extra {
    /// Set if fewer than [`ENOUGH`] waited at some time of this window.
    const FEW: u8 = 1 << 7;
    /// Most segments.
    const MOST: u8 = 64;

    const fn segments(self) -> u8 {
        self.0 & !Self::FEW
    }

    /// The flow ran dry.
    fn add(&mut self) {
        self.0 = (self.segments() + 1).min(Self::MOST) | Self::FEW;
    }

    fn note_few(&mut self) {
        self.0 |= Self::FEW;
    }

    /// A whole window has been served.
    fn end_window(&mut self) {
        let less = u8::from(self.0 & Self::FEW == 0);
        self.0 = self.segments().saturating_sub(less);
    }
}

/// Knowledge of a sender's data. The sender's segments end at `max_seq` plus multiples of `segment` bytes.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// The sequence number after the last data that was served.
    served: SeqNum,
    /// The sequence number after the last data seen.
    max_seq: SeqNum,
    /// Payload of a full segment.
    segment: u32,
}

impl Sent {
    /// Bytes in the whole segments that are missing of an `allowance` beyond what was served.
    fn missing(self, allowance: u32) -> u32 {
        let missing = (self.served + allowance).distance_from(self.max_seq).max(0).unsigned_abs();
        missing.div_ceil(self.segment).saturating_mul(self.segment)
    }
}

/// The right edges a sender has been told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Clamp {
    /// Furthest window edge that was announced.
    furthest: SeqNum,
    /// Distance from `furthest` back to the edge that was announced last: less than a unit, of 2^14 bytes at the most.
    back: u16,
    /// Whether any window edge was announced.
    told: bool,
    /// Whether the acknowledgment that announced the last one had to wait here, so that its sender may not know it yet.
    #[cfg_attr(feature = "handover", serde(skip))]
    late: bool,
}

impl Clamp {
    /// The window field to put into an acknowledgment `tcp` so that about `allowance` bytes beyond what was served may
    /// be sent, or `None` if it stays as it is. A window is never less than one segment.
    fn window(&mut self, tcp: &TcpHeader, scale: u8, allowance: u32, sent: Sent) -> Option<u16> {
        let offered = tcp.ack + (u32::from(tcp.window) << scale);
        let target = self.target(Edges { ack: tcp.ack, scale }, allowance, sent);
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

    /// The edge to tell; the head of the file has the rules.
    fn target(&self, edges: Edges, allowance: u32, sent: Sent) -> SeqNum {
        let segment = sent.segment.max(1);
        let served = sent.served.max(edges.ack);
        let last = sent.max_seq.max(served);
        let first = if self.told { segment } else { FIRST * segment };
        let allowance = allowance.max(first);
        let limit = served + (allowance + SPARE * segment).max(1 << edges.scale);
        let sent = Sent { served, max_seq: last, segment };
        let missing = sent.missing(allowance);
        let whole = last + missing;
        let wanted = match self.edge() {
            Some(told) if whole.at_or_before(told) => edges.up(told),
            _ if missing == 0 => edges.up(last),
            _ => edges.whole_segments(whole, limit, sent),
        };
        let wanted = if wanted.at_or_before(limit) { wanted } else { edges.down(limit) };
        let next = if last == served { last } else { edges.ack };
        let least = edges.up(next + segment);
        let kept = self.edge().map_or(least, |told| edges.down(told.max(edges.ack)).max(least));
        wanted.max(kept)
    }

    fn edge(&self) -> Option<SeqNum> {
        self.told.then_some(self.furthest)
    }

    /// Whether a sender that has sent up to `max_seq` keeps within the edge it was told: then its backlog will not
    /// grow.
    fn obeyed(&self, max_seq: SeqNum) -> bool {
        self.edge().is_some_and(|e| max_seq.at_or_before(e + 1))
    }

    /// Whether a window ends between `before` and `after`, which were served: every 2^k bytes, where 2^k is the first
    /// power of two above the window.
    fn window_passes(&self, before: SeqNum, after: SeqNum) -> bool {
        let Some(edge) = self.edge() else { return false };
        let window = edge.distance_from(after).max(0).unsigned_abs();
        (before.0 ^ after.0) >= window.next_power_of_two()
    }

    /// Whether a sender that has sent up to `max_seq` has less than `segment` bytes left to the edge: it waits for us.
    fn holds(&self, max_seq: SeqNum, segment: u32) -> bool {
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

    /// The edge from `whole` to `limit` that is least short of whole segments of the sender, or the first from `whole`
    /// on if none is there. What is left over of a window Linux fills with a small segment, whose header costs as much
    /// as a full one's: so a nearly full one is the better one.
    fn whole_segments(self, whole: SeqNum, limit: SeqNum, sent: Sent) -> SeqNum {
        let first = self.up(whole);
        let over = (first - sent.max_seq) % sent.segment;
        let mut best = (if over == 0 { 0 } else { sent.segment - over }, first);
        for n in 1..=SPARE + 1 {
            // A thirty-second of a segment is as good as nothing.
            if best.0 <= sent.segment / 32 {
                break;
            }
            let more = whole + n.saturating_mul(sent.segment);
            let edge = self.down(more);
            if limit.before(edge) {
                break;
            }
            if first.at_or_before(edge) && more - edge < best.0 {
                best = (more - edge, edge);
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests;
