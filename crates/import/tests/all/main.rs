//! Tests of imports: tables of other programs, and wrong ones.
#![allow(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

mod tables;
