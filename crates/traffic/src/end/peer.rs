//! The channel of an end, as the end sees it, and whether it is a thread or a process.

use crate::message::{Command, Reply};

/// The source of commands and the receiver of replies.
pub trait Peer {
    /// The next command; `None` if the channel is closed.
    fn command(&mut self) -> Option<Command>;
    /// Sends a reply. `false` if the channel is closed.
    fn reply(&mut self, reply: Reply) -> bool;
}

/// Whether an end runs as a thread or as a process of its own; a planted death differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A thread of the measuring process.
    Thread,
    /// A process.
    Process,
}
