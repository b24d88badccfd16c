//! One file a command. Without features this is the box alone, for a router; `terminal` adds `setup` and `top`,
//! `diagnose` the diagnosis of captures, `lab` experiments with real stacks, `research` the simulator and the models,
//! whose commands are those of `narrows-commands` but for `replay`.

#[cfg(feature = "diagnose")]
use std::io::{ErrorKind, Write as _};

#[cfg(feature = "lab")]
pub mod demo;
#[cfg(feature = "diagnose")]
pub mod diagnose;
pub mod doctor;
#[cfg(feature = "lab")]
pub mod lab;
pub mod packaging;
#[cfg(feature = "research")]
pub mod replay;
pub mod run;
#[cfg(feature = "lab")]
pub mod senders;
#[cfg(feature = "terminal")]
pub mod setup;
pub mod status;
#[cfg(feature = "terminal")]
pub mod top;

/// Prints. Whoever reads may have had enough (`| head`): that is no error.
///
/// # Errors
/// Any other reason why it cannot be written, as a full disk.
#[cfg(feature = "diagnose")]
fn say(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
