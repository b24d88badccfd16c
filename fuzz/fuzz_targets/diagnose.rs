//! Any bytes as a capture that is diagnosed.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_diagnose::fuzzing::diagnose(bytes));
