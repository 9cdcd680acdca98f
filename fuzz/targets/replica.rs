//! The program of metaservers, under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| leasehold_fuzz::replica::run(input));
