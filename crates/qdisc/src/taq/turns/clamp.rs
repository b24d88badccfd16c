//! The window clamp: a sender is told, in the acknowledgments that pass on their way back, to have no more under way
//! than its turn needs. What is never sent need not be dropped.
//!
//! The right edge of the window (RFC 9293, section 3.8.6) is lowered to what has been served plus an allowance. It is
//! never pulled back (RFC 9293, section 3.8.6.2.1, "shrinking the window" is strongly discouraged), so a packet already
//! permitted is never forbidden. The window scale (RFC 7323) must have been seen in both SYNs: a field whose unit is not
//! known is left alone. Idea: TCP rate control by ACK modification (Karandikar et al., CCR 2000), here with a queue per
//! flow and an allowance in turns.

use narrows_units::SeqNum;
use narrows_wire::TcpHeader;

/// The last right edge a sender has been told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clamp {
    edge: Option<SeqNum>,
}

impl Clamp {
    /// The window field to put into an acknowledgment `tcp` so that its right edge is at most `base + allowance`
    /// bytes, or `None` if it stays as it is. `base` is at or after the acknowledgment number.
    pub fn window(&mut self, tcp: &TcpHeader, scale: u8, base: SeqNum, allowance: u32) -> Option<u16> {
        let told = tcp.ack + (u32::from(tcp.window) << scale);
        let wanted = base + allowance;
        let wanted = self.edge.map_or(wanted, |e| e.max(wanted));
        if told.at_or_before(wanted) {
            self.edge = Some(self.edge.map_or(told, |e| e.max(told)));
            return None;
        }
        // Rounded up to the unit of the field; `told` is itself a multiple, so this cannot pass it. Rounding down would
        // make the last segment of each grant a shorter one: 1 % of the link at 500-byte packets.
        let field = (wanted - tcp.ack).div_ceil(1 << scale);
        let field = u16::try_from(field).ok().filter(|f| *f < tcp.window)?;
        self.edge = Some(tcp.ack + (u32::from(field) << scale));
        Some(field)
    }

    /// Whether a sender that has sent up to `max_seq` keeps within the edge it was told: then its backlog will not grow.
    pub fn obeyed(&self, max_seq: SeqNum) -> bool {
        self.edge.is_some_and(|e| max_seq.at_or_before(e + 1))
    }

    /// Whether a sender that has sent up to `max_seq` has less than `segment` bytes left to the edge: it waits for us.
    pub fn holds(&self, max_seq: SeqNum, segment: u32) -> bool {
        self.edge.is_some_and(|e| e.before(max_seq + segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(ack: u32, window: u16) -> TcpHeader {
        TcpHeader { ack: SeqNum(ack), window, ..TcpHeader::default() }
    }

    #[test]
    fn the_edge_by_hand() {
        // Scale 7: 128-byte units. ack 1000, window 500 -> edge 65 000. Allowed 1000 + 2896 = 3896:
        // (3896 - 1000) / 128 = 22.6, rounded up to 23 -> edge 3944.
        let mut c = Clamp::default();
        assert_eq!(c.window(&ack(1000, 500), 7, SeqNum(1000), 2896), Some(23));
        assert_eq!(c.edge, Some(SeqNum(3944)));
        // 1448 bytes are acknowledged, 1448 more served: allowed 2448 + 2896 = 5344; (5344 - 2448) / 128 -> 23.
        assert_eq!(c.window(&ack(2448, 500), 7, SeqNum(2448), 2896), Some(23));
    }

    #[test]
    fn the_edge_is_never_pulled_back() {
        let mut c = Clamp::default();
        assert_eq!(c.window(&ack(1000, 500), 7, SeqNum(1000), 6400), Some(50));
        // The allowance falls to one segment: the edge stays at 7400.
        assert_eq!(c.window(&ack(2280, 500), 7, SeqNum(2280), 1280), Some(40));
        assert_eq!(c.edge, Some(SeqNum(7400)));
    }

    #[test]
    fn a_receiver_that_offers_less_is_believed() {
        let mut c = Clamp::default();
        assert_eq!(c.window(&ack(1000, 2), 7, SeqNum(1000), 2896), None);
        assert_eq!(c.window(&ack(1000, 0), 7, SeqNum(1000), 2896), None);
    }

    #[test]
    fn the_edge_crosses_the_wrap() {
        let mut c = Clamp::default();
        let near = u32::MAX - 99;
        assert_eq!(c.window(&ack(near, 500), 0, SeqNum(near), 300), Some(300));
        assert!(c.obeyed(SeqNum(near) + 301) && !c.obeyed(SeqNum(near) + 302), "a FIN takes one more");
        assert!(c.holds(SeqNum(near) + 300, 1));
        assert!(!c.holds(SeqNum(near), 300));
    }
}
