//! Ends of a path: command loop, flow threads and watchdog of one end, and the channels to two of them.

mod call;
mod channel;
pub(crate) mod crew;
mod datagrams;
mod flows;
mod foreign;
mod gate;
mod ring;
mod serve;
mod streams;

pub use channel::{Channel, ChannelError, Pair};
pub use flows::Body;
pub use serve::serve_stdio;
