//! One file a command.

pub mod demo;
pub mod doctor;
pub mod lab;
mod lab_progress;
pub mod replay;
pub mod run;
pub mod status;
pub mod top;
