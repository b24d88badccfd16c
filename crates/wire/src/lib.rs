//! Reads IPv4, IPv6, TCP and UDP headers from bytes, changes the few fields that a middlebox may change, and reads and
//! writes captures, and writes [`qlog`].
//!
//! [`parse`] turns any bytes into a [`Header`] or a [`WireError`], and never panics; [`build`] is its inverse.
//! [`Header::look_inside`] looks into tunnels besides. A change of a passing packet updates the checksum incrementally
//! (RFC 1624) and never computes it anew, so that a packet that came in corrupt stays recognisably corrupt.

#![forbid(unsafe_code)]

mod build;
pub mod capture;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod header;
mod key;
mod layers;
mod link_layers;
mod parse;
pub mod qlog;
mod quic;
mod rewrite;
mod tunnel;
mod unopened;
mod upper;

pub use build::build;
pub use header::{Flags, Header, SackBlocks, TcpHeader, Unreachable};
pub use key::{FlowKey, Proto};
pub use parse::{WireError, parse};
pub use quic::QuicPacket;
pub use rewrite::{checksum, mark_ce, set_dscp, set_tsval, set_window, tcp_checksum};
pub use unopened::{Unopened, UnopenedCounts};

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
