//! Tests of narrows-explore from outside.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod presets;
mod questions;
