//! Probes: what is counted while the world runs.

use narrows_tcp::Event as TcpEvent;
use narrows_units::Instant;

use crate::connection::{Connection, DATA};
use crate::packet::Packet;
use crate::world::World;

/// All that is counted.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// Time-outs of data senders.
    pub(crate) timeouts: u64,
}

impl Probes {
    pub(crate) fn opened(&mut self, _place: u32, _connection: &Connection) {}

    /// An end told something; `connection` is as it was before the transfer's own counts are changed.
    pub(crate) fn told(
        &mut self,
        _now: Instant,
        _place: u32,
        end: usize,
        event: TcpEvent,
        _connection: &Connection,
    ) {
        if end == DATA && matches!(event, TcpEvent::Timeout { .. }) {
            self.timeouts += 1;
        }
    }

    pub(crate) fn datagram(&mut self, _now: Instant, _packet: &Packet) {}

    pub(crate) fn retired(&mut self, _now: Instant, _place: u32, _connection: &Connection) {}
}

impl World {
    /// A probe looks at the world.
    pub(crate) fn probe(&mut self, _probe: u32) {}
}
