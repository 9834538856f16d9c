//! The workload `call`: a client sends requests, a server replies, over connections that persist or not.
//!
//! The client (the source of a path) measures; the server (the sink) serves until it is stopped.

mod admission;
mod client;
mod client_counts;
pub(crate) mod datagram;
mod message_bytes;
mod party;
mod recorder;
mod schedule;
mod server;
mod server_worker;
mod socket;

pub use client::{Client, ClientFlow};
pub use client_counts::{ClientCounts, Times};
pub use message_bytes::{Terms, reply_file};
pub use party::{ClientShare, Clients, Samples, Servers};
pub use recorder::DecodedHistogram;
pub use schedule::{Arrival, Offered};
pub use server::ServerFlow;
pub use server_worker::{ServerShared, WorkerCounts};
pub use socket::{Connector, listen};

pub use admission::memory_at_most;
pub(crate) use client::carry as carry_alone;
