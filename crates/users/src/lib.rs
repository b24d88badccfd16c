//! Users of a link: how a packet's user is told.
//!
//! The side of the box tells: where packets go down to the users their destination is the user's, where they go up
//! their source ([`Side`]). A user is an IPv4 address, an IPv6 prefix (RFC 8981: a host has many addresses of one
//! prefix, and takes new ones every day; RFC 6177: a site has at least a /64), a host of a LAN with all its addresses
//! ([`UserHosts`]), or a circuit with a name, of which a file lists addresses, prefixes, MAC addresses and VLANs
//! ([`Circuits`]).
//!
//! A file of DHCP leases gives hosts names ([`Leases`]).
//!
//! No clock, no file, no socket: the text of a file comes in, and errors name its line and column.

#![forbid(unsafe_code)]

mod circuits;
mod hosts;
mod leases;
mod link;
mod newcomers;
mod prefix;
mod rows;
mod text;
mod told;
mod user;

pub use circuits::{Circuit, CircuitFile, Circuits, ParentNode, Rates, Registry};
pub use hosts::{UserHosts, UserRoute};
pub use leases::{Leases, host_name};
pub use link::{Learned, LinkAddress, Mac};
pub use newcomers::Newcomers;
pub use prefix::{Prefix, PrefixTable};
pub use rows::{CircuitError, Effect, Remark, strict};
pub use told::{Change, Told};
pub use user::{CircuitId, Side, User, UserRule};

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
