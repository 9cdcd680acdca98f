//! The portmapper, under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| leasehold_fuzz::portmap::run(input));
