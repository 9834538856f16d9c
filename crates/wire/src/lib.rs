//! A line between two that hold one key: authenticated both ways, encrypted, framed, and bounded before anything is
//! believed.
//!
//! Knows nothing of what is said over it but that it is JSON. What it never does: allocate by a length that a stranger
//! named, wait without a deadline before the other side has shown that it has the key, or say anything to whoever has
//! not.
#![forbid(unsafe_code)]

mod key;
mod line;

pub use key::{Key, KeyError, random};
pub use line::{FIRST_WORDS, LineError, MESSAGE_MAX, Receiver, Sender, accept, connect, may_open};
