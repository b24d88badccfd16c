//! The box as an operator meets it: a process between namespaces, with real kernel TCP through it. No test asserts
//! timing; what is asserted is that nothing is lost, reordered or left behind.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

mod auto;
mod check;
mod circuits;
mod clamp;
mod disciplines;
mod faults;
mod flood;
mod floods;
mod hangs;
mod http;
mod killed;
mod links;
mod merged;
mod notes;
mod overrun;
mod page;
mod process;
mod prometheus;
mod radius;
mod room;
mod sight;
mod soak;
mod stolen;
mod tagged;
mod traffic;
mod uncharged;
mod upgrade;
mod users;
mod world;
mod xdp;
