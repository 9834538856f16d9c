//! Stores of their own, written, broken, exported, imported and read back.
#![forbid(unsafe_code)]

mod durability;
mod export;
mod faults;
mod import;
mod migration;
mod round_trip;
mod support;
