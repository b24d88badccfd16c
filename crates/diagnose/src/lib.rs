//! Finds the stalls of the TCP connections in a capture, and their causes.
//!
//! An [`Analyzer`] is told of packets, in the order of their times, and gives a [`FlowReport`] for each TCP connection:
//! its stalls with cause and evidence, what its ends sent again and what made them, and where on the path the capture
//! was taken. [`Overall`] sums up what that means, and [`page`] says it in words.
//!
//! A stall is a time without progress above 200 ms and two round trips, while something is under way or asked for.
//! Progress is new data, an acknowledgment of some, or a duplicate one; a retransmission is not.
//!
//! No clock, and no files but by the feature `files`: packets come in as arguments. Memory is bounded by the
//! connections that are open.

#![forbid(unsafe_code)]

mod acks;
mod analyzer;
mod clock;
mod connection;
mod connections;
mod copies;
mod counts;
mod deviation;
pub mod evidence;
#[cfg(feature = "files")]
pub mod files;
mod findings;
mod frames;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod judge;
mod order;
mod outstanding;
mod overall;
mod passing;
mod qlog;
mod quic;
mod report;
mod seen;
mod sender;
mod spin;
mod spread;
mod tables;
#[cfg(test)]
mod tests;
mod timer;
mod timing;
pub mod tolerances;
mod trace;
mod trips;
mod why;
mod window;
mod words;

pub use analyzer::{Analyzer, AnalyzerLimits};
pub use copies::Copies;
pub use counts::Counts;
pub use findings::{Cause, Certainty, End, Event, Place, QuicCause, Repair, Stall};
pub use frames::Frames;
pub use order::Ordered;
pub use overall::{CauseShare, Overall};
pub use passing::Others;
pub use qlog::{QlogFile, SenderLog, SenderWord};
pub use quic::{QlogSums, QuicAnalyzer, QuicReport, QuicStall};
pub use report::{DirectionReport, FlowReport, Vantage};
pub use tables::{ColumnTable, ColumnValues, Tables};
pub use trace::{Acked, Sent, Trace, Way};
pub use why::{Subject, Why};
pub use words::{flow_page, page, quic_page, why_page};
