//! Tests of narrows-diagnose from outside, a module for each subject: one program is linked once.

#[cfg(feature = "files")]
mod dresses;
mod qlog;
mod scoreboard;
mod tcprs;
mod vantage;
