#![no_main]
#![forbid(unsafe_code)]

#[allow(dead_code, reason = "a target runs one of the two that the module has")]
#[path = "../../crates/mesh/tests/all/fuzzing.rs"]
mod fuzzing;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzzing::coordinator(input));
