//! Tests of narrows-reproduce from outside, a module for each subject: one program is linked once.

mod catalogue;
