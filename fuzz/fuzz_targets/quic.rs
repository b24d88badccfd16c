//! Any bytes as a story of a path between two QUIC end hosts.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    narrows_quic::fuzzing::connection(bytes);
});
