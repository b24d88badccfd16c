//! Any bytes as a packet: read, rewritten, read again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_flow::fuzzing::parse(bytes));
