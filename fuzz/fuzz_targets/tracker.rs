//! Any bytes as a story of packets, told to two trackers that must agree.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_flow::fuzzing::tracker(bytes));
