//! Commands of the box in a network namespace with two interfaces and a default route.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod log;
mod place;
mod setup;
