//! The document of a session in other formats: the page, Markdown, CSV, JUnit XML, OpenMetrics, and the Go benchmark format.
//!
//! Reads the document, and single trials where a format has a line for each. Computes no statistics.
#![forbid(unsafe_code)]

pub mod csv;
pub mod go_bench;
pub mod junit;
pub mod markdown;
pub mod openmetrics;
pub mod page;
