//! Ends of a path: command loop, flow threads and watchdog of one end, and the channels to two of them.

mod channel;
mod client;
pub(crate) mod crew;
mod datagram;
mod duty;
mod foreign;
mod gate;
mod ring;
mod serve;
mod server;
mod stream;

pub use channel::{Channel, ChannelError, Pair};
pub use duty::Body;
pub use serve::serve_stdio;
