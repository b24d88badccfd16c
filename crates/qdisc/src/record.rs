//! The smallest packet.

use narrows_units::{Dscp, Ecn};
use narrows_wire::Header;

use crate::Packet;

/// A header and a number: what replays and tests queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Number that the driver gave the packet.
    pub id: u64,
    /// The headers.
    pub header: Header,
}

impl Packet for Record {
    fn header(&self) -> &Header {
        &self.header
    }
    fn mark_ce(&mut self) -> bool {
        let capable = self.header.ecn.is_capable();
        if capable {
            self.header.ecn = Ecn::Ce;
        }
        capable
    }
    fn set_window(&mut self, window: u16) -> bool {
        let own = !self.header.key.is_in_tunnel();
        self.header.tcp.as_mut().filter(|_| own).is_some_and(|t| {
            t.window = window;
            true
        })
    }
    fn set_tsval(&mut self, tsval: u32) -> bool {
        let own = !self.header.key.is_in_tunnel();
        self.header.tcp.as_mut().filter(|_| own).and_then(|t| t.timestamps.as_mut()).is_some_and(|t| {
            t.0 = tsval;
            true
        })
    }
    fn set_dscp(&mut self, dscp: Dscp) -> bool {
        self.header.dscp = dscp;
        true
    }
}
