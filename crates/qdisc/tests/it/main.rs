//! Tests of narrows-qdisc from outside, a module for each subject: one program is linked once.

mod documents;
mod floods;
mod harness;
mod properties;
mod users;
