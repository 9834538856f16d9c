//! Ends of a trial: the command loop, the task of each role, the threads and their watchdog, and the channels to them.

mod channel;
mod client;
mod command;
pub(crate) mod crew;
mod datagram;
mod duty;
mod external;
mod gate;
mod peer;
mod relay;
mod relay_charge;
mod relay_program;
mod relay_running;
mod ring;
mod serve;
mod server;
mod stream;

pub use channel::{Cast, Channel, ChannelError};
pub use peer::Body;
pub use serve::serve_stdio;
