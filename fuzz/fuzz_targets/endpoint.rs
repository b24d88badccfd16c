//! Any bytes as a story of segments, wake-ups and an application, told to an end host.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    narrows_tcp::fuzzing::endpoint(bytes);
});
