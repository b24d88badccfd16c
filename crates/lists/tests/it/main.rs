//! Tests of narrows-lists from outside, a module for each subject: one program is linked once.

mod models;
