//! The window clamp: a sender is told, in the acknowledgments that pass on their way back, to have no more under way
//! than its turn needs. What is never sent need not be dropped.
//!
//! The right edge of the window (RFC 9293, section 3.8.6) is lowered to what has been served plus an permitted. It is
//! never pulled back (RFC 9293, section 3.8.6.2.1, "shrinking the window" is strongly discouraged), so a packet already
//! permitted is never forbidden. The window scale (RFC 7323) must have been seen in both SYNs: a field whose unit is
//! not known is left alone. Idea: TCP rate control by ACK modification (Karandikar et al., CCR 2000), here with a queue
//! per flow and an allowance in rounds.

use narrows_units::SeqNum;
use narrows_wire::TcpHeader;

/// What is known of a sender's segments: they end at `max_seq` plus multiples of `segment` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// The sequence number after the last data seen.
    pub max_seq: SeqNum,
    /// Payload of a full segment.
    pub segment: u32,
}

/// The last right edge a sender has been told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clamp {
    edge: Option<SeqNum>,
}

impl Clamp {
    /// The window field to put into an acknowledgment `tcp` so that its right edge is at `wanted` or a few segments
    /// beyond, or `None` if it stays as it is. `wanted` is at or after the acknowledgment number.
    pub fn window(&mut self, tcp: &TcpHeader, scale: u8, wanted: SeqNum, grid: Grid) -> Option<u16> {
        let told = tcp.ack + (u32::from(tcp.window) << scale);
        let up = |edge: SeqNum| tcp.ack + ((edge - tcp.ack).div_ceil(1 << scale) << scale);
        let target = match self.edge {
            Some(e) if wanted.at_or_before(e) => up(e),
            Some(e) => up(e).max(whole_segments(tcp.ack, scale, wanted, grid)),
            None => whole_segments(tcp.ack, scale, wanted, grid),
        };
        if told.at_or_before(target) {
            self.edge = Some(self.edge.map_or(told, |e| e.max(told)));
            return None;
        }
        let field = u16::try_from((target - tcp.ack) >> scale).ok().filter(|f| *f < tcp.window)?;
        self.edge = Some(target);
        Some(field)
    }

    /// Whether a sender that has sent up to `max_seq` keeps within the edge it was told: then its backlog will not
    /// grow.
    pub fn obeyed(&self, max_seq: SeqNum) -> bool {
        self.edge.is_some_and(|e| max_seq.at_or_before(e + 1))
    }

    /// Whether a sender that has sent up to `max_seq` has less than `segment` bytes left to the edge: it waits for us.
    pub fn holds(&self, max_seq: SeqNum, segment: u32) -> bool {
        self.edge.is_some_and(|e| e.before(max_seq + segment))
    }
}

/// An edge at or after `wanted` that is a multiple of the field's unit from `ack`, and as little as may be short of
/// whole segments of the sender: what is left over of a window is filled with a small segment, whose header costs as
/// much as a full one's. Linux does so when more than one segment fits. With 448 bytes in units of 128 every second
/// multiple fits.
fn whole_segments(ack: SeqNum, scale: u8, wanted: SeqNum, grid: Grid) -> SeqNum {
    let (sent, segment) = (grid.max_seq.max(ack), grid.segment.max(1));
    if wanted.at_or_before(sent) {
        return ack + ((wanted - ack).div_ceil(1 << scale) << scale);
    }
    let fewest = (wanted - sent).div_ceil(segment);
    let edge = |n: u32| sent + n.saturating_mul(segment);
    let short = |n: u32| (edge(n) - ack) & ((1 << scale) - 1);
    let mut best = fewest;
    // A few segments more at the most, and as many as make a unit; a thirty-second of one is as good as nothing.
    for n in fewest..fewest + 4 + (1 << scale) / segment {
        if short(best) <= segment / 32 {
            break;
        }
        if short(n) < short(best) {
            best = n;
        }
    }
    edge(best) + 0u32.wrapping_sub(short(best))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(ack: u32, window: u16) -> TcpHeader {
        TcpHeader { ack: SeqNum(ack), window, ..TcpHeader::default() }
    }

    fn grid(max_seq: u32, segment: u32) -> Grid {
        Grid { max_seq: SeqNum(max_seq), segment }
    }

    #[test]
    fn the_edge_by_hand() {
        // Scale 7: units of 128. Nothing sent yet, two segments wanted: 2 * 1448 = 22 units and 80 bytes, 3 * 1448 = 33
        // and 120, 4 * 1448 = 45 and 32, less than 1448 / 32: the edge is 45 units on, at 6760.
        let mut c = Clamp::default();
        assert_eq!(c.window(&ack(1000, 500), 7, SeqNum(1000 + 2896), grid(1000, 1448)), Some(45));
        assert_eq!(c.edge, Some(SeqNum(6760)));
        // Four segments have come, one is acknowledged and served: what is wanted has been granted. (6760 - 2448) / 128
        // is 33.7: the field says 34, the edge is at 6800, less than a segment beyond what was sent.
        assert_eq!(c.window(&ack(2448, 500), 7, SeqNum(2448 + 2896), grid(6792, 1448)), Some(34));
        assert_eq!(c.edge, Some(SeqNum(6800)));
    }

    #[test]
    fn segments_that_fit_the_unit_are_granted_whole() {
        // 448 = 3.5 units: two fit, and from there on every second one.
        let mut c = Clamp::default();
        assert_eq!(c.window(&ack(0, 500), 7, SeqNum(448), grid(0, 448)), Some(7));
        assert_eq!(c.window(&ack(896, 500), 7, SeqNum(896 + 1344), grid(896, 448)), Some(14));
        // Scale 10: 7 * 448 is 64 more than three units; nothing from two segments on comes as close.
        let mut c = Clamp::default();
        assert_eq!(c.window(&ack(0, 60), 10, SeqNum(896), grid(0, 448)), Some(3));
        // Scale 0: any edge can be told.
        let mut c = Clamp::default();
        assert_eq!(c.window(&ack(0, 60_000), 0, SeqNum(1448), grid(0, 1448)), Some(1448));
    }

    #[test]
    fn the_edge_is_never_pulled_back() {
        let mut c = Clamp::default();
        assert_eq!(c.window(&ack(1000, 500), 7, SeqNum(7400), grid(1000, 1280)), Some(50));
        // The allowance falls to one segment: the edge stays at 7400.
        assert_eq!(c.window(&ack(2280, 500), 7, SeqNum(3560), grid(7400, 1280)), Some(40));
        assert_eq!(c.edge, Some(SeqNum(7400)));
    }

    #[test]
    fn a_receiver_that_offers_less_is_believed() {
        let mut c = Clamp::default();
        assert_eq!(c.window(&ack(1000, 2), 7, SeqNum(3896), grid(1000, 1448)), None);
        assert_eq!(c.window(&ack(1000, 0), 7, SeqNum(3896), grid(1000, 1448)), None);
    }

    #[test]
    fn the_edge_crosses_the_wrap() {
        let mut c = Clamp::default();
        let near = u32::MAX - 99;
        assert_eq!(c.window(&ack(near, 500), 0, SeqNum(near) + 300, grid(near, 100)), Some(300));
        assert!(c.obeyed(SeqNum(near) + 301) && !c.obeyed(SeqNum(near) + 302), "a FIN takes one more");
        assert!(c.holds(SeqNum(near) + 300, 1));
        assert!(!c.holds(SeqNum(near), 300));
    }
}
