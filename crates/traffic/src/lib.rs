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
pub mod end_error;
pub mod engine;
pub mod flow;
pub mod iperf3;
pub mod keeper;
pub mod leftovers;
pub mod message;
pub mod meter;
pub mod network;
pub mod pace;
pub mod path;
pub mod pattern;
pub mod planted_fault;
pub mod relay;
pub mod remote_host;
pub mod ring;
pub mod setup;
mod setup_levels;
mod spin;
pub mod stream;
pub mod tally;
pub mod task;
pub mod tls;
pub mod transfer_limit;
pub mod transport;
pub mod wait_sampler;

pub use address::Address;
pub use end::{Channel, EndPool};
pub use end_error::EndError;
pub use message::{Command, Reply};
pub use network::{ProgramNetworks, StartNetwork, TrialNetwork};
pub use planted_fault::{PLANTED_FAULTS, PlantedFault};
pub use remote_host::{RemoteError, RemoteFacts, RemoteHost, VisitLimits};
pub use setup::Setup;

/// Locks a value that a thread which panicked has left whole.
pub fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
