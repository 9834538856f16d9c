//! Whom an end hears, and what it is made of.

use crate::message::{Command, Reply};

/// Where commands come from and replies go to.
pub trait Peer {
    /// The next command; `None` when nobody commands any more.
    fn command(&mut self) -> Option<Command>;
    /// Answers. `false` when nobody listens any more.
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
