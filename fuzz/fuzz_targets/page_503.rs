//! Any bytes as: a segment to port 80 that is answered in its server's place.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_box::fuzzing::page_503(bytes));
