//! Any bytes as: what is told of the link's rate.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_box::fuzzing::rates(bytes));
