//! Tests of narrows-lab from outside, a module for each subject: one program is linked once.

mod peer;
mod queue_peer;
mod row;
