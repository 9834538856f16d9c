//! Single trials as the harness carries them.
#![forbid(unsafe_code)]

mod call;
mod datagrams;
mod engines;
mod fd_table;
mod support;
mod tls;
mod trial;
