//! The commands that need no box, one file each: arguments in, text out. The program `narrows` has them beside its
//! others, and the Python package brings them along. Feature `diagnose` is the diagnosis of captures, `research` the
//! simulator and the models.

#![forbid(unsafe_code)]

use std::io::{ErrorKind, Write as _};

#[cfg(feature = "diagnose")]
pub mod diagnose;
#[cfg(feature = "research")]
pub mod league;
#[cfg(feature = "research")]
pub mod model;
#[cfg(feature = "research")]
pub mod plan;
#[cfg(all(feature = "diagnose", feature = "research"))]
mod program;
#[cfg(feature = "research")]
pub mod reproduce;
#[cfg(feature = "research")]
pub mod sim;

#[cfg(all(feature = "diagnose", feature = "research"))]
pub use program::main;

/// Status of a command that was asked for what cannot be.
pub const WRONG: u8 = 2;

/// Prints. Whoever reads may have had enough (`| head`): that is no error.
///
/// # Errors
/// Any other reason why it cannot be written, as a full disk.
fn say(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
