//! Tests of narrows-tcp from outside, a module for each subject: one program is linked once.

mod common;
mod documents;
mod edges;
mod extras;
mod golden;
mod growth;
mod linux;
mod ns2;
mod packetdrill;
mod rack;
mod repair;
mod spreading;
mod startups;
mod timers;
mod transfers;
