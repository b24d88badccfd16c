//! Any bytes as: a file of circuits.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_box::fuzzing::circuits(bytes));
