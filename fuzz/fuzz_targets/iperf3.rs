#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|input: &[u8]| bytegauge_traffic::iperf3::control(input));
