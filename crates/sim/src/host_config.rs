//! Numbers of the two ends of a connection, and settings of their hosts.

use narrows_tcp::{Config, Endpoint, Handshake};
use narrows_units::SeqNum;

use crate::own::MakeControl;

/// Index of the end that sends the data; [`RECEIVER`] is the index of the end that takes the data.
pub(crate) const DATA: usize = 0;
pub(crate) const RECEIVER: usize = 1;

/// Port of the end that accepts connections.
pub(crate) const SERVICE: u16 = 80;

/// Settings of hosts, shared by all connections of these hosts.
#[derive(Clone, Debug)]
pub(crate) struct HostConfig {
    pub(crate) tcp: Config,
    /// Whether options count on the wire. ns-2 has headers of 40 bytes, and 10 more with timestamps.
    pub(crate) options_count: bool,
    /// Whether queues cannot read the headers.
    pub(crate) opaque: bool,
    /// QUIC, where that carries the data in TCP's place.
    pub(crate) quic: Option<Box<narrows_quic::Config>>,
    /// Whether TFRC does.
    pub(crate) tfrc: bool,
    /// Maker of the caller's own congestion control, where the settings ask for one.
    pub(crate) control: Option<MakeControl>,
}

impl HostConfig {
    /// Hosts that speak TCP, and whose headers can be read.
    pub(crate) fn of_tcp(tcp: Config) -> Self {
        let options_count = tcp.handshake != Handshake::SynIsPacketZero;
        Self { tcp, options_count, opaque: false, quic: None, tfrc: false, control: None }
    }

    /// An end of TCP with these settings. Sequence numbers start at zero: captures are read by people.
    pub(crate) fn end(&self) -> Endpoint {
        match &self.control {
            None => Endpoint::new(&self.tcp, SeqNum(0)),
            Some(maker) => Endpoint::with_control(&self.tcp, SeqNum(0), maker.make()),
        }
    }
}
