//! A packet on its way: a box with its headers, where it comes from and goes to. Boxes are used again, so that a packet
//! costs no allocation and moving it moves eight bytes.

pub(crate) mod tfrc;

use core::net::{IpAddr, Ipv6Addr};

use narrows_scenario::calls::CallWay;
use narrows_units::{Dscp, Ecn, Instant};
use narrows_wire::{FlowKey, Header, Proto, TcpHeader};

use crate::ids::{FlowId, HostId, RouteId};
use tfrc::TfrcPacket;

/// Owner, ends and route of a packet. All packets that one end of a connection sends start from one label.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Label {
    /// Place of the connection or source that the packet belongs to.
    pub(crate) flow: FlowId,
    /// Tells a connection from an earlier one in the same place.
    pub(crate) generation: u32,
    /// Host that sent the packet.
    pub(crate) src: HostId,
    /// Host that the packet goes to.
    pub(crate) dst: HostId,
    /// Place of the packet's route.
    pub(crate) route: RouteId,
    /// Links of the route that the packet has crossed.
    pub(crate) hop: u16,
    /// End of the connection that takes it; [`DATAGRAM`] or beyond if no connection does.
    pub(crate) end: u8,
    /// Kind of payload, for statistics of waits.
    pub(crate) kind: PayloadKind,
    /// Ports of the host that the packet left and of the host that the packet goes to.
    pub(crate) ports: (u16, u16),
    /// Codepoint (DSCP) with which the packet leaves.
    pub(crate) dscp: Dscp,
}

impl Label {
    /// Whether queues cannot read what the ends say to each other. The port says it, so a label is no larger for it.
    pub(crate) const fn is_opaque(&self) -> bool {
        self.ports.0 == OPAQUE_PORT || self.ports.1 == OPAQUE_PORT
    }
}

/// Port of the accepting end where queues cannot read the transport, as with QUIC.
pub(crate) const OPAQUE_PORT: u16 = 443;

/// Contents of a packet's box. The first cache line holds what every link reads, the second what an end reads; boxes
/// are aligned to cache lines, because with ten thousand flows no part of a packet is in a near cache at its next
/// event.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Packet {
    pub(crate) label: Label,
    /// Header that queues read. A packet of a connection has its key only after [`Packet::address`].
    pub(crate) header: Header,
    /// Time at which it came to the discipline it is in, if that has to be asked.
    pub(crate) queued: Instant,
    /// Time at which its host sent it, if it belongs to no connection or to one that an edge divides.
    pub(crate) sent: Instant,
    /// Bytes its transfer has left, from the first it carries on; [`NO_END`] of what has none. What no queue on the way
    /// can read, and only the bound of [`crate::srpt`] does.
    pub(crate) left: u32,
    /// Transport header that queues cannot read; `header` has no TCP then.
    pub(crate) sealed: Option<Box<Sealed>>,
}

impl Packet {
    /// The header of TCP, which queues may not be able to read.
    #[inline(always)]
    pub(crate) fn tcp(&self) -> Option<&TcpHeader> {
        // Most packets can be read: one question for them.
        match &self.header.tcp {
            None => self.sealed.as_deref().and_then(Sealed::tcp),
            tcp => tcp.as_ref(),
        }
    }

    /// Payload for the receiver, bytes.
    #[inline(always)]
    pub(crate) fn payload(&self) -> u64 {
        match &self.header.tcp {
            Some(tcp) => tcp.payload.into(),
            None => self.sealed.as_deref().map_or(0, Sealed::payload),
        }
    }

    /// Fills in the flow's key in the header. Few callers need the key.
    pub(crate) fn address(&mut self) {
        let Label { src, dst, ports, end, .. } = self.label;
        if end < DATAGRAM {
            let proto = if self.label.is_opaque() { Proto::UDP } else { Proto::TCP };
            self.header.key = FlowKey::new(address(src), address(dst), ports.0, ports.1, proto);
        }
    }
}

const _: () = assert!(size_of::<Packet>() == 192);

/// Value of [`Packet::left`] for a transfer without end, or with at least this many bytes left.
pub(crate) const NO_END: u32 = u32::MAX;

/// Kind of a packet's payload, for statistics of waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PayloadKind {
    /// No payload.
    #[default]
    Control,
    /// Data within the first [`BULK_FROM`] bytes of a connection.
    Small,
    /// Data beyond.
    Bulk,
    /// The packet belongs to no connection.
    Datagram,
}

/// Bytes of a connection from which on its data is bulk; short transfers consist of the data before. The lab calls an
/// object large from the same size on.
pub(crate) const BULK_FROM: u32 = 20_000;

impl PayloadKind {
    /// Number of kinds.
    pub(crate) const COUNT: usize = 4;

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

/// The address of a host: 10.0.0.0/8 holds 2^24 of them. IPv4-mapped, as a [`FlowKey`] keeps it.
pub(crate) const fn address(host: HostId) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(0xffff_0a00_0000 + (host.0 & 0x00ff_ffff) as u128))
}

/// The `end` of a packet that belongs to no connection.
pub(crate) const DATAGRAM: u8 = 2;

/// The `end` of a packet of a call.
pub(crate) const fn call_end(way: CallWay) -> u8 {
    match way {
        CallWay::Down => 3,
        CallWay::Up => 4,
    }
}

/// The way of a packet of a call, by the packet's `end`; `None` for other packets.
pub(crate) const fn call_way(end: u8) -> Option<CallWay> {
    match end {
        3 => Some(CallWay::Down),
        4 => Some(CallWay::Up),
        _ => None,
    }
}

/// Transport header that only the ends can read.
#[derive(Clone, Debug)]
pub(crate) enum Sealed {
    Tcp(TcpHeader),
    Quic(narrows_quic::Datagram),
    Tfrc(TfrcPacket),
}

impl Sealed {
    fn tcp(&self) -> Option<&TcpHeader> {
        if let Self::Tcp(tcp) = self { Some(tcp) } else { None }
    }

    /// Payload for the receiver, bytes. Not in line: every packet that can be read would carry its code along.
    #[inline(never)]
    fn payload(&self) -> u64 {
        match self {
            Self::Tcp(tcp) => tcp.payload.into(),
            Self::Quic(datagram) => datagram.payload(),
            Self::Tfrc(said) => said.payload(),
        }
    }
}

/// A boxed packet, in the form that disciplines handle.
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
pub(crate) struct PacketPool {
    free: Vec<Pkt>,
    /// Boxes made and not given away: those on their way, and those that are free.
    boxes: usize,
}

/// Most boxes kept for later; beyond them memory goes back to the system.
const KEPT: usize = 1 << 16;

impl PacketPool {
    #[inline]
    pub(crate) fn take(&mut self) -> Pkt {
        match self.free.pop() {
            Some(packet) => packet,
            None => self.make(),
        }
    }
    #[inline]
    pub(crate) fn give(&mut self, packet: Pkt) {
        if self.free.len() < KEPT {
            self.free.push(packet);
        } else {
            self.boxes -= 1;
        }
    }
    #[cold]
    fn make(&mut self) -> Pkt {
        self.boxes += 1;
        Pkt(Box::default())
    }
    /// Number of boxes that were taken and not given back.
    pub(crate) fn out(&self) -> usize {
        self.boxes - self.free.len()
    }
}
