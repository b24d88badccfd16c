//! One way of packets that belong to no connection: between which hosts, and on which way.

use narrows_units::{Bytes, Dscp};
use narrows_wire::{FlowKey, Header, Proto};

use crate::ids::{FlowId, HostId};
use crate::packet::{Label, PayloadKind, address};
use crate::path_split::{ClassWay, PathSplit};
use crate::world::World;

/// Packets from one host to another, from one port to another.
pub(super) struct Stream {
    key: FlowKey,
    src: HostId,
    dst: HostId,
    dscp: Dscp,
    flow: FlowId,
    /// Taker of the packets, as in [`Label::end`].
    end: u8,
    /// Class at the edge that divides the stream; `None` without such an edge.
    split: Option<PathSplit>,
}

impl Stream {
    /// Makes the stream of flow `flow`; `hosts` and `ports` name the sender first.
    pub(super) fn new(hosts: [HostId; 2], ports: [u16; 2], dscp: Dscp, flow: FlowId, end: u8) -> Self {
        let [src, dst] = hosts;
        let key = FlowKey::new(address(src), address(dst), ports[0], ports[1], Proto::UDP);
        Self { key, src, dst, dscp, flow, end, split: None }
    }

    /// The run begins.
    pub(super) fn start(&mut self, world: &mut World) {
        let route = world.net.route(self.src, self.dst);
        self.split = world.edges.datagrams(route, self.dscp);
    }

    /// Sends a packet of `len` IP bytes.
    pub(super) fn send(&mut self, world: &mut World, len: u32) {
        let mut packet = world.net.pool.take();
        let p = &mut *packet.0;
        let ClassWay { route, dscp } = match &mut self.split {
            Some(split) => split.sends(),
            None => ClassWay { route: world.net.route(self.src, self.dst), dscp: self.dscp },
        };
        p.header = Header { key: self.key, len: Bytes(u64::from(len)), dscp, ..Header::default() };
        p.label = Label {
            flow: self.flow,
            src: self.src,
            dst: self.dst,
            route,
            end: self.end,
            kind: PayloadKind::Datagram,
            ..Label::default()
        };
        world.net.send_datagram(packet);
    }
}
