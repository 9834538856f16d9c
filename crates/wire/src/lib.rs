//! A line between two hosts that hold one key: authenticated both ways, encrypted, framed, and bounded before anything is
//! believed.
//!
//! Uses messages only as JSON values. Never allocates by a length that an unproven peer announced
//! beyond [`FIRST_FRAME_MAX`], and never gives a caller a line before it has proved that it holds the key and is alive.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

#[cfg(any(test, fuzzing))]
#[path = "tests/cheap.rs"]
mod cheap;
mod error;
mod frame;
#[cfg(any(test, fuzzing))]
#[path = "tests/fuzzing.rs"]
pub mod fuzzing;
mod key;
mod line;
mod opening;

pub use error::LineError;
pub use frame::MESSAGE_MAX;
pub use key::{KEY_FILE_MAX, Key, KeyError, random};
pub use line::{Receiver, Sender, connect};
pub use opening::{FIRST_FRAME_MAX, FIRST_WORDS, OpeningStep, Proven, Refusal, Responder, may_open};
