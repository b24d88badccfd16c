//! Contents of packets of TFRC (RFC 5348).

use narrows_units::{Duration, Instant};

/// Fields of a data packet (RFC 5348, section 3.2.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    pub(crate) seq: u64,
    /// Payload, bytes.
    pub(crate) size: u32,
    pub(crate) sent: Instant,
    /// The sender's round trip, zero before the sender has an estimate.
    pub(crate) rtt: Duration,
}

/// Fields of a feedback packet (RFC 5348, section 3.2.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feedback {
    /// Time at which the latest packet was sent that had come, and for how long that has been kept.
    pub(crate) of: Instant,
    pub(crate) delay: Duration,
    /// Bytes a second that came, X_recv.
    pub(crate) received: f64,
    /// Loss events a packet, p.
    pub(crate) loss: f64,
}

/// A packet of TFRC.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TfrcPacket {
    Data(Data),
    Feedback(Feedback),
}

impl TfrcPacket {
    /// Payload, bytes.
    pub(crate) fn payload(&self) -> u64 {
        if let Self::Data(data) = self { data.size.into() } else { 0 }
    }
}
