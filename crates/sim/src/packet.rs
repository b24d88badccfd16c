//! A packet on its way: a box with its headers, where it comes from and goes to. Boxes are used again, so that a packet
//! costs no allocation and moving it moves eight bytes.

use narrows_units::{Dscp, Ecn, Instant};
use narrows_wire::{Header, TcpHeader};

/// What a box holds. What every link reads lies in its first cache line, and boxes begin with one: with ten thousand
/// flows nothing of a packet is in a near cache when its next event comes.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Packet {
    /// Place of the connection or source it belongs to.
    pub(crate) flow: u32,
    /// Tells a connection from an earlier one in the same place.
    pub(crate) generation: u32,
    /// Host it left.
    pub(crate) src: u32,
    /// Host it goes to.
    pub(crate) dst: u32,
    /// Place of its route.
    pub(crate) route: u32,
    /// Links of the route it has crossed.
    pub(crate) hop: u16,
    /// Which end of the connection takes it; [`DATAGRAM`] if no connection does.
    pub(crate) end: u8,
    /// What it carries, if it belongs to a connection.
    pub(crate) kind: Kind,
    /// When it came to the queue it is in.
    pub(crate) queued: Instant,
    /// When its host sent it.
    pub(crate) sent: Instant,
    pub(crate) header: Header,
}

const _: () = assert!(size_of::<Packet>() == 192);

/// What a segment carries, for those who measure how long it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No payload.
    #[default]
    Control,
    /// Data within the first [`BULK_FROM`] bytes of a connection.
    Small,
    /// Data beyond.
    Bulk,
}

/// Data beyond so many bytes of a connection is bulk; what comes before it is what short transfers consist of. It is from
/// this size on that the lab calls an object large.
pub(crate) const BULK_FROM: u32 = 20_000;

impl Kind {
    /// Sequence numbers start at zero. After 4 GB they do so again, which moves some 14 packets of three million.
    pub(crate) const fn of(tcp: &TcpHeader) -> Self {
        if tcp.payload == 0 {
            Self::Control
        } else if tcp.seq.0 < BULK_FROM {
            Self::Small
        } else {
            Self::Bulk
        }
    }
}

/// The `end` of a packet that belongs to no connection.
pub(crate) const DATAGRAM: u8 = 2;

/// A boxed packet, as disciplines see it.
#[derive(Debug)]
pub(crate) struct Pkt(pub(crate) Box<Packet>);

impl narrows_qdisc::Packet for Pkt {
    fn header(&self) -> &Header {
        &self.0.header
    }
    fn mark_ce(&mut self) -> bool {
        let capable = self.0.header.ecn.is_capable();
        if capable {
            self.0.header.ecn = Ecn::Ce;
        }
        capable
    }
    fn set_window(&mut self, window: u16) -> bool {
        self.0.header.tcp.as_mut().is_some_and(|t| {
            t.window = window;
            true
        })
    }
    fn set_tsval(&mut self, tsval: u32) -> bool {
        self.0.header.tcp.as_mut().and_then(|t| t.timestamps.as_mut()).is_some_and(|t| {
            t.0 = tsval;
            true
        })
    }
    fn set_dscp(&mut self, dscp: Dscp) -> bool {
        self.0.header.dscp = dscp;
        true
    }
}

/// Boxes that wait to be used again.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: Vec<Pkt>,
    /// Boxes on their way: what was taken and not given back.
    pub(crate) out: usize,
}

/// Most boxes kept for later; beyond them memory goes back to the system.
const KEPT: usize = 1 << 16;

impl Pool {
    pub(crate) fn take(&mut self) -> Pkt {
        self.out += 1;
        self.free.pop().unwrap_or_else(|| Pkt(Box::default()))
    }
    #[inline]
    pub(crate) fn give(&mut self, packet: Pkt) {
        self.out -= 1;
        if self.free.len() < KEPT {
            self.free.push(packet);
        }
    }
}
