//! Real Linux disciplines as peers of ours.
