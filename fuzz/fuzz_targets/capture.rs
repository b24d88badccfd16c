//! Any bytes as a capture: read to its end, written anew, read again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_wire::fuzzing::capture(bytes));
