//! Transfers that applications ask for, and the news they hear of them.

use narrows_units::{Dscp, Instant};

use crate::ids::HostId;
use crate::tls::TlsSizes;

/// Request of an application: data to carry from one host to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// The host with the data.
    pub(crate) from: HostId,
    /// Host that receives the transfer.
    pub(crate) to: HostId,
    /// Size of the object; `u64::MAX` for a flow that does not end.
    pub(crate) size: u64,
    /// Bytes before the object: payload that is not part of the object's size.
    pub(crate) header: u64,
    /// Bytes of the receiver's request before any data, if the receiver opens; 0 for data at once.
    pub(crate) request: u32,
    /// TLS over TCP, in which case the receiver opens; `None` without TLS.
    pub(crate) tls: Option<TlsSizes>,
    /// Whether the receiver opens the connection (as a browser does) or the sender (as ns-2's agents do).
    pub(crate) receiver_opens: bool,
    /// Whether the sender closes after the last byte.
    pub(crate) close: bool,
    /// Settings of both ends, [`DATA`](crate::host_config::DATA) first.
    pub(crate) config: [u16; 2],
    /// The codepoint of the transfer's packets.
    pub(crate) dscp: Dscp,
    /// Class in results.
    pub(crate) class: u16,
    /// Number of the user that the transfer belongs to, counted through all classes.
    pub(crate) user: u32,
    /// Time at which the first connection for it was opened, if that was an earlier one.
    pub(crate) first_attempt: Option<Instant>,
    /// Number of connections for the transfer that failed.
    pub(crate) retries: u32,
    /// Number that the application gave the transfer.
    pub(crate) tag: u32,
}

/// Event in the life of a transfer, reported to the transfer's application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// The receiver has all data.
    Delivered,
    /// The sender has an acknowledgment of all data.
    Acked,
    /// The connection is closed at both ends: the connection may be retired.
    Closed,
    /// The connection failed after too many retries.
    Failed,
}
