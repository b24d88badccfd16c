//! One file a command.

use std::io::{ErrorKind, Write as _};

pub mod demo;
pub mod doctor;
pub mod lab;
mod lab_progress;
mod lab_sender;
pub mod league;
mod league_table;
pub mod model;
pub mod plan;
mod plan_lines;
mod plan_map;
pub mod replay;
pub mod reproduce;
pub mod run;
pub mod senders;
pub mod sim;
mod sim_explain;
mod sim_picture;
mod sim_progress;
mod sim_table;
pub mod status;
pub mod top;

/// Prints. Whoever reads may have had enough (`| head`): that is no error.
///
/// # Errors
/// Any other reason why it cannot be written, as a full disk.
fn say(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        told => told,
    }
}
