//! Interface between an end host and its driver.

use narrows_units::{Duration, Ecn};
use narrows_wire::TcpHeader;

/// A TCP segment and the ECN bits of the IP packet that carries the segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The TCP header. There is no content; `payload` counts the bytes of the payload.
    pub tcp: TcpHeader,
    /// The ECN field of the IP header (RFC 3168, section 5).
    pub ecn: Ecn,
}

/// Event at an end host, for applications and probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpEvent {
    /// The handshake is complete, so data may flow.
    Established,
    /// New bytes are in order for the application.
    Delivered {
        /// Number of bytes.
        bytes: u64,
    },
    /// The peer acknowledged new data.
    Acked {
        /// Number of bytes acknowledged.
        bytes: u64,
    },
    /// A new sample of the round-trip time was taken.
    RttSample(Duration),
    /// ACKs have shown a loss, and recovery begins.
    FastRetransmit,
    /// A tail-loss probe leaves (RFC 8985, section 7).
    TailProbe,
    /// The recovery that `FastRetransmit` began has ended.
    Recovered,
    /// The retransmission timer has expired.
    Timeout {
        /// The factor of the RTO from now on: 2, 4, .. up to the cap.
        backoff: u32,
    },
    /// The window was reduced because of an ECN echo.
    EcnReduced,
    /// The peer has sent everything: the peer's FIN is in order.
    PeerClosed,
    /// The directions are both closed and acknowledged.
    Closed,
    /// The connection was given up after too many retries, or reset.
    Failed,
}

/// Takes the output of an end host, in order, while a method of [`crate::Endpoint`] runs.
pub trait Io {
    /// Sends a segment now.
    fn transmit(&mut self, segment: &Segment);
    /// Sends a segment whose header `fill` writes over an empty one. Drivers override it to have the header written
    /// in place.
    #[inline]
    fn compose(&mut self, ecn: Ecn, fill: impl FnOnce(&mut TcpHeader)) {
        let mut segment = Segment { ecn, ..Segment::default() };
        fill(&mut segment.tcp);
        self.transmit(&segment);
    }
    /// Reports an event.
    fn event(&mut self, event: TcpEvent);
}
