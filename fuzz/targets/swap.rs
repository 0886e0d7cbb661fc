#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| outlast_fuzz::swap(data));
