//! Any bytes as a scenario file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_scenario::fuzzing::scenario(bytes));
