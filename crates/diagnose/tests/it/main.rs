//! Tests of narrows-diagnose from outside, a module for each subject: one program is linked once.

mod scoreboard;
mod tcprs;
mod vantage;
