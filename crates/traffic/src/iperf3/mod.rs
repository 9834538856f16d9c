//! iperf3's control protocol: a client that uses any iperf3 server as its peer.
//!
//! [`message`] has the messages, [`client`] the steps of the control connection, over any socket, so that tests and the fuzzer play the
//! server. All facts come from traces of iperf 3.12 and from its public manual.
//!
//! A test has one control connection over TCP. It begins with a cookie of the client. The server then sends states of
//! one byte; parameters and results are JSON texts, each after its length in four bytes. The client opens the data
//! connections to the same port. A TCP connection of data begins with the cookie; a UDP socket exchanges a greeting.

pub mod client;
pub mod message;
mod session;

pub(crate) use session::Iperf3Session;
pub use session::reach;

/// The port at which an iperf3 server listens by default.
pub const PORT: u16 = 5201;

/// The largest number of data connections that iperf3 opens in one direction of a test.
pub const STREAMS_MAX: usize = 128;
