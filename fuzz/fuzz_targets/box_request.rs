//! Any bytes as: what a client says on the control socket.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_box::fuzzing::request(bytes));
