//! Another host on which ends of a trial run, over a line that this crate does not know: a session at an agent.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::Value;

use crate::message::{Command, Reply};
use crate::setup::Setup;

/// Why a host cannot be used, with the next step.
pub type RemoteError = Box<dyn std::error::Error + Send + Sync>;

/// A host's description of itself.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RemoteFacts {
    /// The version of its program.
    pub program: String,
    /// Its machine, as sessions record one.
    pub machine: Value,
    /// Relay methods that it lacks, with the reason.
    pub missing_relays: BTreeMap<String, String>,
}

/// One session at the agent of another host. It runs one end at a time.
pub trait RemoteHost: Debug + Send + Sync {
    /// The agent's address.
    fn agent(&self) -> SocketAddr;

    /// The address of this host as seen by the other one; loopback while the line is broken.
    fn near(&self) -> IpAddr;

    /// The host's description of itself when the line was established.
    fn facts(&self) -> Option<Arc<RemoteFacts>>;

    /// Whether the session runs and the agent answers in it. A broken line is re-established first, if possible.
    fn answers(&self) -> bool {
        self.used_ns().is_some()
    }

    /// CPU time that the session's ends there have used so far, nanoseconds; `None` if the agent does not answer.
    fn used_ns(&self) -> Option<u64>;

    /// Why an end's replies stopped.
    fn lost(&self) -> String;

    /// Closes the session and begins another one, within `patience`.
    ///
    /// # Errors
    /// No agent answers, the keys or the versions differ, or the agent is busy.
    fn reopen(&self, patience: Duration) -> Result<(), RemoteError>;

    /// Starts an end there: its number, and the channel of its replies.
    ///
    /// # Errors
    /// If the line broke and cannot be re-established.
    fn start(&self) -> Result<(u64, mpsc::Receiver<Reply>), RemoteError>;

    /// Sends a command to an end. `false` if the line is over.
    fn tell(&self, end: u64, command: Command) -> bool;

    /// Lets an end leave.
    fn finish(&self, end: u64);
}

/// Limits that this host's owner sets for trials that another host asks it to measure.
pub trait VisitLimits: Debug + Send + Sync {
    /// Checks such a trial before it is measured.
    ///
    /// # Errors
    /// The reason for a refusal.
    fn allow_visit(&self, setup: &Setup) -> Result<(), String>;
}
