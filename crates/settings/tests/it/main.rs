//! Tests of narrows-settings from outside, a module for each subject: one program is linked once.

mod keys;
