//! A packet of a connection, with what is known of it when it passes the point of capture.

use core::num::NonZeroU16;

use narrows_units::Instant;
use narrows_wire::TcpHeader;

use crate::passing::{Others, Passing, Place};

/// A packet of the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) at: Instant,
    pub(crate) frame: u64,
    pub(crate) tcp: &'a TcpHeader,
    /// Time at which the packet would have passed without a queue before the capture, if the sender's clock tells; else
    /// the time at which it did.
    pub(crate) sent: Instant,
    /// Identification of the IPv4 packet.
    pub(crate) ident: Option<NonZeroU16>,
    /// Packets of all connections that pass, the packet itself included.
    pub(crate) passing: &'a Passing,
    /// Places of each end's latest packets before this one among all that pass, for [`Seen::others`].
    pub(crate) passed: [Option<Place>; 2],
}

impl Seen<'_> {
    /// Number of packets of other connections since `since`, in the direction of the packets from end `from`.
    pub(crate) fn others(&self, from: u8, since: Instant) -> Option<Others> {
        let from = usize::from(from);
        self.passing.others(from, self.passed[from], since, self.at)
    }
}
