//! What an end host and its driver exchange.

use narrows_units::Duration;

use crate::Datagram;

/// What has happened at an end host, for applications and probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicEvent {
    /// The handshake is complete, so data may flow.
    Established,
    /// New bytes of the stream came, in order or not.
    Delivered {
        /// How many.
        bytes: u64,
    },
    /// The peer acknowledged new data of the stream.
    Acked {
        /// How many bytes.
        bytes: u64,
    },
    /// There is a new sample of the round-trip time.
    RttSample(Duration),
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
    /// Nothing came for too long.
    IdleTimeout,
}

/// Takes the output of an end host, in order, while a method of [`crate::Endpoint`] runs.
pub trait Io {
    /// Sends a datagram now.
    fn send(&mut self, datagram: Datagram);
    /// Reports an event.
    fn event(&mut self, event: QuicEvent);
}

/// What an end host has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Datagrams sent.
    pub sent: u64,
    /// Packets with stream data, and how many of them carry some that was sent before.
    pub data_sent: u64,
    /// See `data_sent`.
    pub retransmitted: u32,
    /// Packets believed lost.
    pub lost: u32,
    /// Packets acknowledged after they were believed lost.
    pub spurious: u32,
    /// Probe timeouts, those of the handshake among them.
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
