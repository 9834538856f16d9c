#![no_main]
#![forbid(unsafe_code)]

#[allow(dead_code, reason = "a target runs one of the three that the module has")]
#[path = "../../crates/agent/tests/all/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::agent(input));
