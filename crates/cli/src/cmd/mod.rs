//! One file a command.

pub mod demo;
pub mod doctor;
pub mod lab;
mod lab_progress;
pub mod model;
pub mod plan;
mod plan_lines;
mod plan_map;
pub mod replay;
pub mod run;
pub mod senders;
pub mod sim;
mod sim_explain;
mod sim_picture;
mod sim_progress;
mod sim_table;
pub mod status;
pub mod top;
