//! Experiments on the sockets of a user's program: what it does with them, which options to try, and the result.
//!
//! A session changes options from outside while the program runs as it is ([`bytegauge_traffic::program`]); its blocks,
//! intervals and store are those of every session. This crate adds what a plan cannot know: a first run that is only
//! watched, the changes that can matter to such a program, and the screen of the result.
#![forbid(unsafe_code)]

mod proposed;
pub mod screen;
mod watched;

pub use proposed::{Kernel, proposed, without_meaning};
pub use watched::{Watched, watch};
