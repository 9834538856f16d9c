//! The document of a session in other formats: the page, Markdown, CSV, JUnit XML, OpenMetrics, the Go benchmark format, a few lines
//! among those of other sessions, and a listing of intervals.
//!
//! Reads the document, and single trials where a format has a line for each. Computes no statistics.
#![forbid(unsafe_code)]

pub mod brief;
pub mod csv;
pub mod go_bench;
pub mod junit;
pub mod markdown;
pub mod openmetrics;
pub mod over_time;
pub mod page;
