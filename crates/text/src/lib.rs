//! Settings, rates and intervals as text, and lines of a terminal: the same for every output.
//!
//! Knows no document and reads no results.
#![forbid(unsafe_code)]

pub mod fit;
pub mod interval_rounding;
pub mod number;
pub mod paint;
pub mod phrase;
