//! Interface between an end host and its driver.

use narrows_units::Duration;

use crate::{Datagram, Space};

/// Event at an end host, for applications and probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicEvent {
    /// The handshake is complete, so data may flow.
    Established,
    /// New bytes of the stream came, in order or not.
    Delivered {
        /// Number of new bytes.
        bytes: u64,
    },
    /// The peer acknowledged new data of the stream.
    Acked {
        /// Number of bytes.
        bytes: u64,
    },
    /// A new sample of the round-trip time was taken.
    RttSample(Duration),
    /// A packet is believed lost (RFC 9002, section 6.1).
    PacketLost {
        /// Packet number space of the packet.
        space: Space,
        /// Number of the packet.
        number: u64,
    },
    /// Losses or marks have reduced the window.
    CongestionEvent,
    /// Losses over a long time have left the least window (RFC 9002, section 7.6).
    PersistentCongestion,
    /// The probe timeout has expired.
    ProbeTimeout {
        /// The factor of the next one: 2, 4, ..
        backoff: u32,
    },
    /// The peer has closed the connection.
    PeerClosed,
    /// The connection timed out: nothing came for too long.
    IdleTimeout,
}

/// Takes the output of an end host, in order, while a method of [`crate::Endpoint`] runs.
pub trait Io {
    /// Sends a datagram now.
    fn send(&mut self, datagram: Datagram);
    /// Reports an event.
    fn event(&mut self, event: QuicEvent);
}

/// Counts of an end host since the end host was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Datagrams sent.
    pub sent: u64,
    /// Packets with stream data.
    pub data_sent: u64,
    /// Packets with stream data of which some was sent before.
    pub retransmitted: u32,
    /// Packets believed lost.
    pub lost: u32,
    /// Packets acknowledged after the sender believed them lost.
    pub spurious: u32,
    /// Probe timeouts, probe timeouts of the handshake included.
    pub ptos: u32,
    /// Probe timeouts before the handshake was complete.
    pub handshake_ptos: u32,
    /// Series of probe timeouts for packets that were acknowledged before a probe was.
    pub spurious_ptos: u32,
    /// Times the window was reduced.
    pub congestion_events: u32,
    /// The largest factor of the back-off so far.
    pub max_backoff: u32,
    /// Probes for the path's MTU.
    pub mtu_probes: u32,
}
