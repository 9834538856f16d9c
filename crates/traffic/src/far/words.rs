//! What is said over the line between this host and an agent. Every word comes in a [`Said`], which numbers it.

use std::collections::BTreeMap;

use bytegauge_wire::MESSAGE_MAX;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{Command, Reply};
use crate::ticket::Ticket;

/// The version of these words and of the line. An agent of another one is not spoken to.
pub const VERSION: u16 = 3;

/// The longest message that an agent takes, bytes: a command with every CPU of a large machine.
pub(super) const COMMAND_MAX: usize = 64 << 10;

/// The longest first answer of an agent, bytes. It holds the facts of its machine, which every session stores.
pub(super) const WELCOME_MAX: usize = 1 << 20;

/// The longest message that an agent sends, bytes; a report that would be longer fails its trial.
pub(super) const REPLY_MAX: usize = MESSAGE_MAX;

/// A word with its number, from 1 (0: none of those that are kept), and the last number that was heard from the other side.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Said<T>(pub(super) u64, pub(super) u64, pub(super) T);

/// What an agent is told. Ends are numbered, so that nothing is heard of one that was given up.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ToAgent {
    /// The first word: may we measure?
    Ask(Ask),
    /// Start an end; an older one leaves.
    Start(u64),
    /// Tell it something.
    Tell(u64, Box<Command>),
    /// Let it leave.
    End(u64),
    /// How much CPU time have the session's ends used?
    Used,
}

/// What a session wants.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ask {
    /// The version of the program.
    pub(super) program: String,
    /// How long it is expected to take, nanoseconds.
    pub(super) duration_ns: u64,
    /// The session to go on with, whose line broke.
    #[serde(default)]
    pub(super) session: Option<Ticket>,
}

/// What an agent answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ToHome {
    /// The session begins.
    Welcome(Box<Welcome>),
    /// Not now, or not so; or no longer. The line ends.
    Refused(String),
    /// An end said something.
    Heard(u64, Box<Reply>),
    /// An end is gone, in words.
    Gone(u64, String),
    /// CPU time that the session's ends have used so far, nanoseconds.
    Used(u64),
}

/// Who welcomes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Welcome {
    /// The version of its program.
    pub(super) program: String,
    /// Its machine, as sessions record one.
    pub(super) machine: Value,
    /// Methods of a relay that it does not have, and why.
    #[serde(default)]
    pub(super) missing_relays: BTreeMap<String, String>,
    /// What to name when the line broke and the session is to go on.
    pub(super) session: Ticket,
}
