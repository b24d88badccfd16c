//! Reads IPv4, IPv6, TCP and UDP headers from bytes, rewrites the few fields a middlebox may touch, writes whole
//! packets for captures, and reads those.
//!
//! [`parse`] turns any bytes into a [`Header`] or a [`WireError`]; it never panics and never reads past the slice;
//! [`build`] is the way back. Checksums of packets that pass are changed incrementally (RFC 1624), never
//! recomputed: a packet that came in broken goes out broken, so corruption is not hidden.

#![forbid(unsafe_code)]

mod build;
pub mod capture;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod header;
mod key;
mod parse;
mod rewrite;

pub use build::build;
pub use header::{Flags, Header, SackBlocks, TcpHeader};
pub use key::{FlowKey, Proto};
pub use parse::{WireError, parse};
pub use rewrite::{checksum, mark_ce, set_dscp, set_tsval, set_window, tcp_checksum};
