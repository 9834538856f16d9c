#![no_main]
#![forbid(unsafe_code)]

#[path = "../../crates/traffic/tests/all/iperf3_control.rs"]
mod iperf3_control;

libfuzzer_sys::fuzz_target!(|input: &[u8]| drop(iperf3_control::control(input)));
