//! Why a line has ended.

use std::io;

use thiserror::Error;

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
