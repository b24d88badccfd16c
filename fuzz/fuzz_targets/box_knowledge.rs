//! Any bytes as: what a discipline of another box knew of its flows.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_box::fuzzing::knowledge(bytes));
