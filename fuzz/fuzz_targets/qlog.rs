//! Any bytes as a sender's qlog, beside a captured connection.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_diagnose::fuzzing::qlog(bytes));
