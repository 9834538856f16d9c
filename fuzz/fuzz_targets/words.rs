#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| bytegauge_agent::fuzzing::words(input));
