//! Tests that may see every crate, a module for each subject: one program is linked once.

mod claims;
mod experiments;
mod live_flow;
mod parity;
mod replay;
mod trust;
