//! Class of a connection or flow of datagrams that an edge divides: the way its packets take, and counts of those that
//! arrived.

use narrows_units::{Dscp, Instant};

use crate::ids::RouteId;
use crate::packet::Packet;

/// Way of a class: the route of the class's packets and their codepoint.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassWay {
    pub(crate) route: RouteId,
    pub(crate) dscp: Dscp,
}

/// State of a connection or flow of datagrams that an edge splits.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathSplit {
    /// Whether the place belongs to a connection that is split, of this generation.
    live: bool,
    generation: u32,
    /// Packets of data it may still send in its class; then it is of the other.
    left: u32,
    now: ClassWay,
    then: ClassWay,
    first: ClassWay,
    /// Whether the first class is recognised by its route, else by its codepoint.
    by_route: bool,
    /// When the packet sent last of those that arrived left its host, and what it carried: a host sends several at
    /// once, in their order.
    latest: (Instant, u32),
}

impl PathSplit {
    /// Makes a split whose packets of data are of `class`, 0 or 1, and after `left` of them of the second class. The
    /// classes have these `ways`.
    pub(crate) fn new(ways: [ClassWay; 2], class: usize, left: u32) -> Self {
        Self {
            live: true,
            generation: 0,
            left,
            now: ways[class],
            then: ways[1],
            first: ways[0],
            by_route: ways[0].route != ways[1].route,
            latest: (Instant::ZERO, 0),
        }
    }

    /// Gives the split to the connection with `generation`.
    pub(crate) fn of_generation(self, generation: u32) -> Self {
        Self { generation, ..self }
    }

    /// Tells whether the place belongs to a connection that is split.
    pub(crate) const fn is_live(&self) -> bool {
        self.live
    }

    /// Way of the packets that the connection sends now.
    pub(crate) const fn way(&self) -> ClassWay {
        self.now
    }

    /// Counts a packet of data that is about to be sent, and returns the packet's way.
    pub(crate) fn sends(&mut self) -> ClassWay {
        if self.left == 0 {
            return self.then;
        }
        if self.left < u32::MAX {
            self.left -= 1;
        }
        self.now
    }

    /// Counts a packet of data that has reached the receiver's host: in all, of the first class, and out of order.
    pub(crate) fn arrived(&mut self, packet: &Packet, seen: &mut Arrivals) {
        let Some(tcp) = packet.header.tcp.filter(|t| t.payload > 0) else { return };
        if !self.live || self.generation != packet.label.generation {
            return;
        }
        let (sent, known) = ((packet.sent, tcp.seq.0), self.latest);
        seen.data += 1;
        seen.first_class += u64::from(if self.by_route {
            packet.label.route == self.first.route
        } else {
            packet.header.dscp == self.first.dscp
        });
        seen.reordered += u64::from(sent < known);
        self.latest = known.max(sent);
    }
}

/// Counts of packets that arrived on split connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    pub(crate) data: u64,
    pub(crate) first_class: u64,
    pub(crate) reordered: u64,
}
