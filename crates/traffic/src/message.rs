//! What an end is told and what it answers: plain values, the same for a thread, a process or a far host.
//!
//! An end first says `Hello`: which version of these words it speaks, and where its host can be reached.
//!
//! Every trial goes the same way. `Open` to the end that is connected to, if there is one, which answers `Listening`;
//! `Open` with that address to those that connect; all answer `Ready`, a server as soon as it listens, since it serves
//! from then on. `Go` to all. The end that measures says `Closed` when its windows have; the others are told to `Stop`.
//! All answer `Done`, `Skipped` or `Failed`.
//!
//! Of a stream that goes both ways at once both ends say `Closed`, and both are told to `Stop` when both have: each writes until then.
//!
//! A stream's sink measures, or its source where the sink is not ours; of calls the client does. A ring has no path, nor
//! has a program of the user's that we know of: their ends are `Ready` at once.

use bytegauge_model::{EndReport, EndRole};
use serde::{Deserialize, Serialize};

use crate::address::{Address, Host};
use crate::setup::Setup;

/// The version of what ends are told and answer. An end of another one is not spoken to.
pub const PROTOCOL: u32 = 4;

/// What an end says before it is told anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The [`PROTOCOL`] that it speaks.
    pub protocol: u32,
    /// Where it can be reached.
    pub host: Host,
}

impl Hello {
    /// What an end of this program says, on this host.
    pub fn ours() -> Hello {
        Hello { protocol: PROTOCOL, host: Host::default() }
    }
}

/// What an end is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Prepare an end; those that connect are told where.
    Open(EndRole, Box<Setup>, Option<Address>),
    /// Begin.
    Go,
    /// The end that measures has what it wanted: send, or serve, no more.
    Stop,
    /// No more paths: the end may leave.
    Quit,
}

/// What an end answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The first word of an end, to nothing.
    Hello(Hello),
    /// The sink can be reached here.
    Listening(Address),
    /// All flows are joined, pinned, and wait for `Go`.
    Ready,
    /// The sink's windows have closed; it drains what is on its way.
    Closed,
    /// The trial went as it should.
    Done(Box<EndReport>),
    /// This machine cannot do it.
    Skipped(String),
    /// It went wrong; what was counted until then.
    Failed(String, Box<EndReport>),
}
