//! Ends of a trial: the command loop, the task of each role, the threads and their watchdog, and the channels to them.

mod calls;
mod channel;
mod pool;
mod relay;
mod relay_program;
mod runner;
mod serve;
mod stream;
pub mod thread_group;

pub use crate::message::Body;
pub use channel::{Channel, ChannelError, LATE};
pub use pool::{
    EndPool, ProgramNetworks, RemoteError, RemoteFacts, RemoteHost, StartNetwork, TrialNetwork, VisitLimits,
};
pub use serve::serve_stdio;
