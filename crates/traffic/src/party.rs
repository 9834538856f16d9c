//! One thread's share of an end: its flows, and where connections come from.
//!
//! The blocking engine gives a connection a thread and needs none of this for a stream. Engines that carry
//! many connections in one thread ask the party for flows, hand it accepted connections, and give flows back.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::flow::Flow;

/// Opens a socket as [`Party::connect`] does, for any flow and from any thread.
pub type Opener = Arc<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>;

/// Where an engine's flows come from and where they go.
///
/// An engine may carry flows in threads or tasks of its own (`blocking`, `tokio`), so flows are `Send` and
/// own what they hold. The party is asked by one thread at a time, not always the same.
pub trait Party: Send {
    /// The workload's flow.
    type Flow: Flow + Send + 'static;

    /// The next flow that the engine begins with, and its connection if it is joined already. `None`: that
    /// was all.
    fn first(&mut self) -> Option<(Self::Flow, Option<OwnedFd>)>;

    /// A connection was accepted: sets the options that belong on it and gives it a flow. `None`: the engine
    /// closes it.
    fn accepted(&mut self, connection: BorrowedFd<'_>, now_ns: u64) -> Option<Self::Flow>;

    /// A socket that does not block and on which connect(2) has been called for this flow. The engine waits
    /// until it can be written and then asks for its error.
    ///
    /// # Errors
    /// The error of socket(2), bind(2) or connect(2), except `EINPROGRESS`.
    fn connect(&mut self, flow: &mut Self::Flow) -> io::Result<OwnedFd>;

    /// Opens all but the first connection of each flow, if the party need not be asked for them. Flows with threads of
    /// their own then connect at the same time, while [`connect`](Party::connect) is for one thread at a time.
    fn opener(&self) -> Option<Opener> {
        None
    }

    /// The flow that is paired with one that the engine was just given, and its connection if it is joined already.
    /// Asked only of flows that are [`PAIRED`](crate::flow::Flow::PAIRED).
    fn partner(&mut self, _flow: &mut Self::Flow) -> Option<(Self::Flow, Option<OwnedFd>)> {
        None
    }

    /// A flow is done, or the time is up. Its connection comes with it if it is still open.
    fn left(&mut self, flow: Self::Flow, connection: Option<OwnedFd>);
}
