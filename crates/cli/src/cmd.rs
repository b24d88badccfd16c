//! One file a command. Without features this is the box alone, for a router; `lab` adds experiments with real stacks,
//! `research` the simulator and the models.

#[cfg(feature = "research")]
use std::io::{ErrorKind, Write as _};

#[cfg(feature = "lab")]
pub mod demo;
pub mod doctor;
#[cfg(feature = "lab")]
pub mod lab;
#[cfg(feature = "research")]
pub mod league;
#[cfg(feature = "research")]
pub mod model;
pub mod packaging;
#[cfg(feature = "research")]
pub mod plan;
#[cfg(feature = "research")]
pub mod replay;
#[cfg(feature = "research")]
pub mod reproduce;
pub mod run;
#[cfg(feature = "lab")]
pub mod senders;
#[cfg(feature = "research")]
pub mod sim;
pub mod status;
pub mod top;

/// Prints. Whoever reads may have had enough (`| head`): that is no error.
///
/// # Errors
/// Any other reason why it cannot be written, as a full disk.
#[cfg(feature = "research")]
fn say(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
