//! Any bytes as: a file of DHCP leases.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_box::fuzzing::leases(bytes));
