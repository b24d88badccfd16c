//! Tests of narrows-box from outside, a module for each subject: one program is linked once.

mod live_box;
