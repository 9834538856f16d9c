//! Tests of this crate from outside.
#![allow(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

mod fuzzing;
