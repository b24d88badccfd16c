//! Tests of narrows-quic from outside, a module for each subject: one program is linked once.

mod quinn;
mod random;
