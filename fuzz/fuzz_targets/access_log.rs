//! Any bytes as an access log: an error, or requests in order.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_scenario::access_log::fuzz(bytes));
