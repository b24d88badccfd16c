//! The published text.
