//! Tests of narrows-senders from outside, a module for each subject: one program is linked once.

mod live;
