//! Tests of imports: tables of other programs, and wrong ones.
#![forbid(unsafe_code)]

mod tables;
