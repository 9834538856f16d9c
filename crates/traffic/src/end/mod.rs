//! Ends of a trial: the command loop, the task of each role, the threads and their watchdog, and the channels to them.

mod channel;
mod client;
mod datagram;
mod external;
mod gate;
mod peer;
pub mod plan;
mod pool;
mod program;
mod relay;
mod relay_charge;
mod relay_program;
mod relay_running;
mod ring;
mod runner;
mod serve;
mod server;
mod stream;
pub mod thread_group;

pub use channel::{Channel, ChannelError};
pub use peer::Body;
pub use pool::EndPool;
pub use serve::serve_stdio;
