//! Single trials as the harness carries them.
#![allow(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

mod call;
mod datagrams;
mod engines;
mod options;
mod support;
mod tls;
mod trial;
