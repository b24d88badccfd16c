//! Experiments with real kernel TCP in namespaces this program makes.

pub mod peers;
pub mod plot;
