//! Any bytes as: a datagram of the kernel's queues.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| narrows_netio::nfqueue::fuzz(bytes));
