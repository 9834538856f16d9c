//! Ends on another host: the agent that runs them there, and the link to it from here.
//!
//! An end at an agent is a process like other ends and takes the same messages ([`crate::message`]), which the agent passes on
//! over an encrypted line ([`bytegauge_wire`]). The agent refuses unsupported commands: user programs, files, and other
//! addresses than the caller's own.

mod agent;
mod commands;
mod counted;
mod demand;
mod forward;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod limits;
mod link;
mod log;
mod pending;
mod post;
mod proven_listener;
mod range;
mod registry;
mod session;
mod slots;
mod visit;
mod watch;
mod words;

pub use agent::{Agent, AgentSetup};
pub use forward::Forward;
pub use limits::Limits;
pub use link::{FarError, FarFacts, Link};
pub use proven_listener::{ProvenCaller, ProvenListener};
pub use words::VERSION;
