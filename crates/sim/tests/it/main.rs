//! Tests of narrows-sim from outside, a module for each subject: one program is linked once.

mod qlog;
