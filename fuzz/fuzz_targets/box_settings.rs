//! Any bytes as: a settings file of the box.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_box::fuzzing::settings(bytes));
