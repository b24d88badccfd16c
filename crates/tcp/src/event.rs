//! What passes between an end host and its driver.

use narrows_units::{Duration, Ecn};
use narrows_wire::TcpHeader;

/// A TCP segment and the ECN bits of the IP packet that carries it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The TCP header; `payload` counts bytes, there is no content.
    pub tcp: TcpHeader,
    /// ECN field of the IP header (RFC 3168, section 5).
    pub ecn: Ecn,
}

/// What happened at an end host, for applications and probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpEvent {
    /// The handshake is done; data may flow.
    Established,
    /// New bytes in order for the application.
    Delivered {
        /// How many.
        bytes: u64,
    },
    /// The peer acknowledged new data.
    Acked {
        /// How many bytes.
        bytes: u64,
    },
    /// A valid sample of the round-trip time.
    RttSample(Duration),
    /// Loss was inferred from ACKs; recovery begins.
    FastRetransmit,
    /// Recovery by ACKs ended.
    Recovered,
    /// The retransmission timer expired.
    Timeout {
        /// The factor on the RTO from now on: 2, 4, .. up to the cap.
        backoff: u32,
    },
    /// The window was reduced because of an ECN echo.
    EcnReduced,
    /// The peer has sent all it had (FIN in order).
    PeerClosed,
    /// Both directions are closed and acknowledged.
    Closed,
    /// Gave up: too many retries, or reset.
    Failed,
}

/// Where an end host's output goes. Methods are called in order while [`crate::Endpoint`] works.
pub trait Io {
    /// Sends a segment now.
    fn transmit(&mut self, segment: &Segment);
    /// The same, with a header that `fill` makes of an empty one: for drivers that have a place for it.
    #[inline]
    fn compose(&mut self, ecn: Ecn, fill: impl FnOnce(&mut TcpHeader)) {
        let mut segment = Segment { ecn, ..Segment::default() };
        fill(&mut segment.tcp);
        self.transmit(&segment);
    }
    /// Tells what happened.
    fn event(&mut self, event: TcpEvent);
}
