//! Single trials as the harness carries them.
#![allow(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

mod call;
mod datagrams;
mod engines;
#[path = "../../../traffic/tests/all/support/faulty_server.rs"]
mod faulty_server;
mod options;
mod support;
mod tls;
mod trial;
