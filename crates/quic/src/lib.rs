//! A QUIC end host without sockets, clock and cryptography (RFC 9000, 9001 and 9002): datagrams and instants go in;
//! datagrams, events and a wake-up time come out.
//!
//! What is there: the handshake with padded Initials and the limit against amplification, packet number spaces, ACK
//! frames with ranges and delays, loss detection by packet and time threshold, the probe timeout, persistent
//! congestion, NewReno and CUBIC, pacing, ECN, connection close, idle timeout, and a search for the path's MTU. One
//! stream each way carries bytes that have a number but no content. What TLS would say is a number of bytes too
//! ([`Handshake`]).
//!
//! What is left out: flow control (windows of today's stacks are beyond what a thin link holds), migration, Retry,
//! 0-RTT, key updates, ECN validation, and the packet numbers that stacks skip against optimistic acknowledgments.
//!
//! Congestion avoidance is that of `narrows-tcp`: one copy of NewReno and CUBIC serves both. Congestion control counts
//! in packets and in floats that only add, multiply and divide, so a run gives the same bytes on every machine; all
//! else here is whole numbers.

#![forbid(unsafe_code)]

mod acks;
mod config;
mod congestion;
mod endpoint;
mod event;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod mtu;
mod pacing;
mod packet;
mod ranges;
mod rtt;
mod space;
mod stream;

pub use config::{Config, Fit, Handshake, MtuSearch, Preset, Probe};
pub use endpoint::{Endpoint, Role};
pub use event::{EndpointCounters, Io, QuicEvent};
pub use packet::{Ack, Datagram, EcnCounts, Frame, FramedPacket, Space};
pub use ranges::RangeSet;

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
