//! All code that touches a byte: transports, engines, the workload's flows, the ends that run them, and the user's
//! programs that touch bytes themselves.
//!
//! An end is commanded by serialisable messages ([`message`]), whether it is a thread of this process,
//! a process of its own, or an agent on another host. Transport, engine and work are
//! dispatched once per trial; the measured loop is monomorphic.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod address;
pub mod agent_callers;
pub mod call;
pub mod counter;
pub mod datagram;
pub mod end;
pub mod engine;
pub mod flow;
pub mod iperf3;
pub mod keeper;
pub mod message;
pub mod meter;
pub mod pace;
pub mod path;
pub mod pattern;
pub mod planted_fault;
pub mod program;
pub mod relay;
pub mod ring;
pub mod setup;
mod setup_levels;
pub mod stream;
pub mod tally;
pub mod tls;
pub mod transport;
pub mod wait_sampler;

pub use address::Address;
pub use end::{
    Channel, EndPool, ProgramNetworks, RemoteError, RemoteFacts, RemoteHost, StartNetwork, TrialNetwork, VisitLimits,
};
pub use message::{Command, Reply};
pub use planted_fault::{PLANTED_FAULTS, PlantedFault};
pub use setup::Setup;

use std::io;

use bytegauge_model::{Outcome, TaskReport};
use bytegauge_sys::option::OptionError;
use thiserror::Error;

use crate::pattern::Mismatch;

/// Locks a value that a thread which panicked has left whole.
pub fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

// Errors of an end, by their consequence: a skip or a failure.

/// Why an end could not do, or finish, its task.
#[derive(Debug, Error)]
pub enum EndError {
    /// The machine lacks something: the cell is skipped, not failed.
    #[error("{0}")]
    Missing(String),
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// The action, as a present participle: "connecting to tcp 127.0.0.1:4711".
        doing: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// Bytes arrived on a flow, numbered from 0, that were not sent.
    #[error("flow {0}: {1}: the path corrupts data")]
    Corrupt(usize, Mismatch),
    /// The watchdog ended the trial: the action that did not end, and the time waited, milliseconds.
    #[error("stalled: {0} was not done after {1} ms, so the watchdog ended it")]
    Stalled(String, u64),
    /// The other end closed while data was still due.
    #[error("the other end closed in the middle of the trial ({0})")]
    PeerGone(String),
    /// Completions of a ring found no room, so the kernel stores them in growing memory of its own: the number of rounds until that was
    /// noticed, and of the operations of a round.
    #[error(
        "the completion queue overflowed within {0} rounds of {1} (IORING_SQ_CQ_OVERFLOW): completions were not \
         taken as they came, so what was counted is not what the ring can do"
    )]
    Overflowed(u64, u32),
    /// The host's owner allows an end no more bytes.
    #[error("it reached the limit of bytes of its host")]
    UsedUp,
    /// Two counts of the same bytes differ.
    #[error("{0}: the counts do not match")]
    Miscounted(String),
    /// A program of the user's failed.
    #[error("{0}")]
    Program(String),
    /// The server of a user's program had no sign of being ready in time, or no connection reached it: the reason, and the facts about
    /// the server.
    #[error("{0}")]
    Unserved(String, Box<TaskReport>),
    /// A setup that no plan produces.
    #[error("{0}")]
    Impossible(String),
}

/// An option that this kernel or this user may not set.
impl From<OptionError> for EndError {
    fn from(error: OptionError) -> EndError {
        EndError::Missing(error.to_string())
    }
}

impl EndError {
    /// Wraps an `io::Error` with the action. Allocates only if there is an error: measured loops call it.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> EndError {
        move |source| EndError::Io { doing: doing.into(), source }
    }

    /// An action that was not done in time, and why.
    pub(crate) fn late(doing: impl Into<String>, why: impl Into<String>) -> EndError {
        EndError::io(doing)(io::Error::new(io::ErrorKind::TimedOut, why.into()))
    }

    /// The outcome of a trial with this error.
    pub fn outcome(&self) -> Outcome {
        match self {
            EndError::Missing(reason) => Outcome::Skipped(reason.clone()),
            other => Outcome::Failed(other.to_string()),
        }
    }
}
