//! Any bytes as: what another box hands over.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_box::fuzzing::link_state(bytes));
