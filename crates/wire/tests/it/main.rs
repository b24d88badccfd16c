//! Tests of narrows-wire from outside, a module for each subject: one program is linked once.

mod tshark;
