//! One file a command.

pub mod demo;
pub mod doctor;
pub mod lab;
pub mod run;
pub mod status;
pub mod top;
