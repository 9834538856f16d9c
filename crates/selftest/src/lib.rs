//! Tests the product itself: the statistics on trials whose truth is known, and the harness against itself.
//!
//! [`sim`] generates trials with known truth, [`verify`] tests every claim of the statistics with them, and [`harness_check`] measures
//! known slowdowns on this machine. `bytegauge doctor --selftest` prints the rows; no measurement uses them.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod harness_check;
pub mod sim;
pub mod verify;
