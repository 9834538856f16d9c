//! Ends on another host: the agent that runs them there, and the link to it from here.
//!
//! An end at an agent is a process like other ends and takes the same messages ([`bytegauge_traffic::message`]), which the agent passes on
//! over an encrypted line ([`bytegauge_wire`]). The agent refuses unsupported commands: user programs, files, and other
//! addresses than the caller's own.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod agent;
mod agent_link;
#[cfg(any(test, fuzzing))]
#[path = "tests/fuzzing.rs"]
pub mod fuzzing;
mod limits;
mod log;
mod protocol;
mod session;
mod session_counts;
mod unproven;

pub use agent::{Agent, AgentSetup};
pub use agent_link::{AgentLink, FarError};
pub use limits::{Forward, Limits};
pub use protocol::VERSION;
pub use unproven::{ProvenCaller, ProvenListener};
