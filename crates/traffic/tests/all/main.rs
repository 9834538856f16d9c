//! Engines and ends with plain peers and with each other.
//!
//! One binary, so that dependencies are linked once.
#![forbid(unsafe_code)]
// Tests start threads of their own.
#![allow(clippy::disallowed_methods)]
// Tests print why they were skipped, and what they saw.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod call;
mod call_datagram;
mod call_trouble;
mod calls;
mod engines;
mod engines_arrivals;
mod engines_busy;
mod engines_calls;
mod engines_exhausted;
mod engines_memory;
mod engines_relay;
mod engines_storm;
mod far_calls;
mod far_datagrams;
mod iperf3_control;
mod relays;
mod support;
