//! The box as an operator meets it: a process between namespaces, with real kernel TCP through it. No test asserts
//! timing; what is asserted is that nothing is lost, reordered or left behind.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

mod check;
mod clamp;
mod disciplines;
mod faults;
mod hangs;
mod http;
mod page;
mod traffic;
mod users;
mod world;
