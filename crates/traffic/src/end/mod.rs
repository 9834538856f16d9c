//! Ends of a path: command loop, flow threads and watchdog of one end, and the channels to two of them.

mod channel;
mod flows;
mod gate;
mod serve;

pub use channel::{Channel, ChannelError, Pair};
pub use serve::serve_stdio;
