//! Ends on another host: the agent that runs them there, and the link to it from here.
//!
//! An end at an agent is an end like any other: a process that is told the same words ([`crate::message`]), which the agent
//! passes on over an encrypted line ([`bytegauge_wire`]). The agent lets nothing through that it was not made for: no
//! program of the user's, no file, no address but the caller's own.

mod agent;
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
mod session;
mod slots;
mod standing;
mod watch;
mod words;

pub use agent::{Agent, AgentSetup};
pub use forward::Forward;
pub use limits::Limits;
pub use link::{FarError, FarFacts, Link};
pub use words::VERSION;
