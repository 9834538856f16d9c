//! Commands to an end and its replies: plain values, the same for a thread, a process or a far host; and its channel, as the end sees
//! it.
//!
//! An end first sends `Hello`: its version of the protocol, and the addresses of its host.
//!
//! Every trial follows the same sequence. `Open` to the end that accepts, if there is one, which replies `Listening`;
//! `Open` with that address to those that connect; all reply `Ready`, a server as soon as it listens, since it serves
//! from then on. `Go` to all. The end that measures replies `Closed` at the end of its windows; the others get `Stop`.
//! All reply `Done`, `Skipped` or `Failed`.
//!
//! In a stream in both directions both ends reply `Closed`, and both get `Stop` when both have: each writes until then.
//!
//! A stream's sink measures, or its source if the sink is external; in calls the client does. A ring has no path, nor
//! has the user's program as far as is known: their ends are `Ready` at once.

use bytegauge_model::{EndReport, EndRole};
use serde::{Deserialize, Serialize};

use crate::address::{Address, Host};
use crate::setup::Setup;

/// The version of commands and replies. An end of another version is refused.
pub const PROTOCOL: u32 = 5;

/// The first message of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its [`PROTOCOL`].
    pub protocol: u32,
    /// Its addresses.
    pub host: Host,
}

impl Hello {
    /// The first message of an end of this program, on this host.
    pub fn ours() -> Hello {
        Hello { protocol: PROTOCOL, host: Host::default() }
    }
}

/// A command to an end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Prepare an end; those that connect get the address.
    Open(EndRole, Box<Setup>, Option<Address>),
    /// Begin.
    Go,
    /// The measurement is complete: stop sending, or serving.
    Stop,
    /// No more paths: the end may exit.
    Quit,
}

/// A reply of an end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The first message of an end, without a command.
    Hello(Hello),
    /// The sink has this address.
    Listening(Address),
    /// All flows are joined, pinned, and wait for `Go`.
    Ready,
    /// The sink's windows have closed; it drains the remaining data.
    Closed,
    /// The trial succeeded.
    Done(Box<EndReport>),
    /// This machine lacks a feature.
    Skipped(String),
    /// It failed; with the counts until then.
    Failed(String, Box<EndReport>),
}

impl Reply {
    /// The name of its kind.
    pub fn name(&self) -> &'static str {
        match self {
            Reply::Hello(_) => "hello",
            Reply::Listening(_) => "listening",
            Reply::Ready => "ready",
            Reply::Closed => "closed",
            Reply::Done(_) => "done",
            Reply::Skipped(_) => "skipped",
            Reply::Failed(..) => "failed",
        }
    }
}

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
