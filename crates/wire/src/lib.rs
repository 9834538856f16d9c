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
#[cfg(any(test, fuzzing))]
#[path = "tests/fuzzing.rs"]
pub mod fuzzing;
mod key;
mod line;
mod opening;

pub use key::{KEY_FILE_MAX, Key, KeyError, random};
pub use line::{Receiver, Sender, connect};
pub use opening::{FIRST_FRAME_MAX, FIRST_WORDS, MESSAGE_MAX, OpeningStep, Proven, Refusal, Responder, may_open};

use std::io;

use thiserror::Error;

// Why a line has ended.

/// Why a line has ended.
#[derive(Debug, Error)]
pub enum LineError {
    /// The other side closed the connection, or the path failed.
    #[error("the connection broke ({0})")]
    Broken(#[from] io::Error),
    /// Nothing arrived until the deadline.
    #[error("nothing arrived in time")]
    Late,
    /// The peer uses another protocol.
    #[error("there is no bytegauge agent at this address: check the address and port")]
    OtherProtocol,
    /// It uses another version.
    #[error(
        "one side uses version {theirs} of the agent's protocol and this one {ours}: use one version of bytegauge on both hosts"
    )]
    Version {
        /// Ours.
        ours: u16,
        /// The other side's.
        theirs: u16,
    },
    /// The keys differ.
    #[error("the other side does not have the same key: copy one --key-file to both hosts")]
    OtherKey,
    /// The handshake of a caller opened, but its first frame does not.
    #[error("the handshake was replayed, or changed on the way")]
    Unproven,
    /// A message is longer than accepted.
    #[error("a message of more than {max} bytes was refused")]
    TooLong {
        /// The cap.
        max: usize,
    },
    /// A frame was changed on the way, repeated, left out or never made by this program.
    #[error("the received data was changed on the way, or bytegauge did not send it: {0}")]
    Garbled(&'static str),
}
