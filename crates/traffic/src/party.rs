//! One thread's share of an end: its flows, and where connections come from.
//!
//! The blocking engine gives a connection a thread and needs none of this for a stream. Engines that carry
//! many connections in one thread ask the party for flows, hand it accepted connections, and give flows back.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::flow::Flow;
use crate::meter::Meter;

/// Opens a socket as [`Party::connect`] does, for any flow and from any thread.
pub type Opener = Arc<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>;

/// The result of a call that a party made for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// Bytes were moved.
    Some {
        /// Whether the descriptor may be ready for another such call: it was neither emptied nor filled.
        is_ready: bool,
    },
    /// The peer sends no more, or takes nothing more.
    End,
}

/// Where an engine's flows come from and where they go.
///
/// An engine may carry flows in threads or tasks of its own (`blocking`, `tokio`), so flows are `Send` and
/// own what they hold. The party is asked by one thread at a time, not always the same.
pub trait Party: Send {
    /// The workload's flow.
    type Flow: Flow + Send + 'static;

    /// Whether the bytes of its flows are moved by calls of the party ([`take`](Party::take) and [`give`](Party::give)), such as
    /// splice(2), instead of the engine's: only `epoll` has this.
    const CALLS: bool = false;

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

    /// Receives for a flow by one call, and counts it. Sets the time of a flow that is [`TIMED`](Flow::TIMED).
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` if there is nothing to receive.
    fn take(
        &mut self,
        _flow: &mut Self::Flow,
        _from: BorrowedFd<'_>,
        _meter: &mut Meter,
        _now_ns: &mut u64,
    ) -> io::Result<CallResult> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Sends for a flow by one call, and counts it. Sets the time of a flow that is [`TIMED`](Flow::TIMED).
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` if there is no room.
    fn give(
        &mut self,
        _flow: &mut Self::Flow,
        _to: BorrowedFd<'_>,
        _meter: &mut Meter,
        _now_ns: &mut u64,
    ) -> io::Result<CallResult> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A flow is done, or the time is up. Its connection comes with it if it is still open.
    fn left(&mut self, flow: Self::Flow, connection: Option<OwnedFd>);
}
