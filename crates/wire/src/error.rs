//! Why a line is no more.

use std::io;

use thiserror::Error;

/// Why a line is no more.
#[derive(Debug, Error)]
pub enum LineError {
    /// The other side hung up, or the path failed.
    #[error("the connection broke ({0})")]
    Broken(#[from] io::Error),
    /// Nothing came until the deadline.
    #[error("nothing came in time")]
    Late,
    /// What answered is something else.
    #[error("what answers there is no bytegauge agent: check the address and port")]
    Stranger,
    /// It speaks another version.
    #[error(
        "one side speaks version {theirs} of the far host's language and this one {ours}: use one version of bytegauge on both hosts"
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
    /// A caller whose handshake opened, and whose first frame does not.
    #[error("its handshake was recorded and sent again, or changed on the way")]
    Unproven,
    /// A message is longer than is taken.
    #[error("a message of more than {max} bytes was refused")]
    TooLong {
        /// The cap.
        max: usize,
    },
    /// A frame was changed on the way, repeated, left out or never made by our program.
    #[error("what came is not what was sent, or was not made by this program: {0}")]
    Garbled(&'static str),
}
