//! The workload `call`: a client sends requests, a server replies, over connections that persist or not.
//!
//! The client (the source of a path) measures; the server (the sink) serves until it is stopped.

mod admission;
mod arrival;
mod classify;
mod client;
mod client_counts;
pub(crate) mod datagram;
mod decoded_histogram;
mod message_bytes;
mod null_client;
mod overwritten;
mod party;
mod pending;
mod recorder;
mod request_work;
mod sample;
mod server;
mod server_worker;
mod socket;

pub use arrival::{Arrival, Offered};
pub use client::{Client, ClientFlow};
pub use client_counts::{ClientCounts, Times, Trouble};
pub use decoded_histogram::DecodedHistogram;
pub use message_bytes::Terms;
pub use party::{Clients, Servers, Waiting};
pub use recorder::Recorder;
pub use sample::Samples;
pub use server::ServerFlow;
pub use server_worker::ServerShared;
pub use socket::{Connector, listen};

pub use admission::memory_at_most;
pub(crate) use null_client::carry as carry_alone;
pub(crate) use socket::{announced, open, sock_addr, unbound};
