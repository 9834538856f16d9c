//! A workload's view of one connection.
//!
//! A flow states its next action and is notified of events. It does no I/O, so that
//! every engine can carry every workload: W workloads + E engines, not W × E.

use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::meter::Meter;

use bytegauge_model::{MessageParts, MessageWrites};

/// The next action of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Send the rest of the message that is being sent, or else the next one.
    Send,
    /// Receive into the engine's buffer.
    Receive,
    /// Send and receive, whichever the connection is ready for first. Bytes may arrive while a send is under
    /// way: between [`Flow::compose`] and the [`Flow::sent`] that reports it.
    Both,
    /// Receive; call [`Flow::want`] again at this moment of the monotonic clock, nanoseconds, if nothing arrived.
    ReceiveUntil(u64),
    /// Do nothing until this moment of the monotonic clock, nanoseconds.
    Pause(u64),
    /// Open a connection; an older one is closed already.
    Connect,
    /// Send nothing more on this connection, which the peer sees as the end of the stream; then call again.
    Finish,
    /// Close the connection; then call again.
    Close,
    /// Close the connection so that the peer sees a failure, where the transport supports it (TCP: a reset); then
    /// call again.
    Reset,
    /// Nothing more: the engine returns the flow.
    Done,
}

/// Why a flow's connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The peer sent all its data and closed.
    Eof,
    /// The peer takes no more data.
    Closed,
    /// A call failed.
    Failed {
        /// The call.
        doing: Doing,
        /// The kernel's error number (errno(3)).
        errno: i32,
    },
}

/// The action during which a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Opening a connection.
    Connecting,
    /// Sending.
    Sending,
    /// Receiving.
    Receiving,
}

/// A workload's state for one connection.
///
/// Times are nanoseconds of the monotonic clock, read by the engine once an event for flows that are
/// [`TIMED`](Flow::TIMED) and 0 for all others: where latency is not measured, the clock is not read.
pub trait Flow {
    /// Whether events carry the time.
    const TIMED: bool = false;

    /// Whether flows of this kind may come in pairs ([`Party::partner`]), in which each
    /// may wake the other one. Not every engine supports this ([`can_pair`](crate::engine::can_pair)).
    const PAIRED: bool = false;

    /// Whether each flow of a pair sends the bytes that the other one received: the engine then keeps bytes that arrive at a flow that
    /// [echoes](Flow::echoes) until its partner [returns](Flow::returns) it. Only io_uring does so.
    const FORWARDS: bool = false;

    /// The next action. Called before every call.
    fn want(&mut self, now_ns: u64) -> Want;

    /// Bytes of memory that the flow composes messages in: those of its longest one. 0 if it only receives.
    fn room(&self) -> usize {
        0
    }

    /// Writes the next message to the front of `room`, and returns its length: at least 1, at most that of the room.
    ///
    /// Called once a message. The room is [`room`](Flow::room) bytes of the memory that the engine sends from. The engine
    /// sends the message whole, in as many parts as the socket takes, before it asks for the next one; it drops the rest
    /// only with the connection. The room keeps its bytes from message to message, so a flow writes only what differs,
    /// unless the room `is_new`: then it holds anything. A flow has one room, or several where the kernel may still read
    /// the last one.
    fn compose(&mut self, _room: &mut [u8], _is_new: bool) -> usize {
        0
    }

    /// Begins the next message of [`room`](Flow::room) bytes, which the engine takes from a file instead of a room.
    fn begin_in_place(&mut self) {}

    /// The parts in which a message is sent, each by at least one send.
    fn parts(&self) -> MessageParts {
        MessageParts::WHOLE
    }

    /// How a message of several parts is sent, by engines that make a system call for each send.
    fn writes(&self) -> MessageWrites {
        MessageWrites::Separate
    }

    /// The file from which such an engine sends the parts after the first one ([`MessageWrites::sends_file`]).
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The value of `TCP_QUICKACK` that such an engine sets after each receive.
    fn quickack_again(&self) -> Option<bool> {
        None
    }

    /// `n` bytes of the message were taken, behind those that were taken before.
    fn sent(&mut self, _n: usize, _now_ns: u64) {}

    /// These bytes arrived. `false` ends the flow: they are wrong.
    fn received(&mut self, bytes: &mut [u8], now_ns: u64) -> bool;

    /// Whether the flow sends back the bytes that it received. The engine then keeps them, in order and without a copy if
    /// possible, until the flow [returns](Flow::returns) it. Never changes.
    fn echoes(&self) -> bool {
        false
    }

    /// Which of the kept bytes are to be sent back, counted from the first of them; for a flow that
    /// [forwards](Flow::FORWARDS), of those that were kept for its partner. Bytes before this range are
    /// not needed any more. A flow that wants to send sends these first, then what it composes; [`sent`](Flow::sent)
    /// reports both.
    fn returns(&self) -> Range<usize> {
        0..0
    }

    /// Until when the flow waits for room to send or for a connection, nanoseconds of the monotonic clock. A
    /// connection attempt that takes longer ends with `ETIMEDOUT`; a flow that cannot send is called again, and
    /// should then choose another action.
    fn patience_ns(&self) -> u64 {
        u64::MAX
    }

    /// Whether events of this flow since the last call concern its partner, which then states its next action again.
    /// Called after every event of a flow that is [`PAIRED`](Flow::PAIRED). A partner is called
    /// again in any case when its flow ends.
    fn wakes(&mut self) -> bool {
        false
    }

    /// Gives the partner its data. Called before the partner is called again because this flow
    /// [wakes](Flow::wakes) it, and before this flow ends. So two flows of a pair need not share anything.
    fn give_to_partner(&mut self, _partner: &mut Self)
    where
        Self: Sized,
    {
    }

    /// The connection is established.
    fn connected(&mut self, _now_ns: u64) {}

    /// The connection ended although the flow did not end it. The engine calls [`want`](Flow::want) again and
    /// closes the connection, with one exception: a peer that only shut down its writing side ([`ConnectionEnd::Eof`])
    /// can still receive, so the connection stays as long as the flow still sends, or pauses while its
    /// partner may still bring it data to send; a flow with a partner that is done takes its connection
    /// along. Receiving from it again ends it a second
    /// time.
    fn ended(&mut self, _end: ConnectionEnd, _now_ns: u64) {}
}

// One thread's share of an end: its flows, and where connections come from.
//
// The blocking engine gives a connection a thread and needs none of this for a stream. Engines that carry
// many connections in one thread ask the party for flows, hand it accepted connections, and give flows back.

/// Opens a socket as [`Party::connect`] does, for any flow and from any thread.
pub type Opener = Arc<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>;

/// The result of a call for a flow, by the party or by its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// Bytes were moved.
    Some {
        /// Whether the descriptor may be ready for another such call: it was neither emptied nor filled.
        is_ready: bool,
    },
    /// The peer sends no more, or takes nothing more.
    End,
    /// The flow refuses the bytes that it received, and leaves.
    Refused,
}

/// Where an engine's flows come from and where they go.
///
/// An engine may carry flows in threads or tasks of its own (`blocking`, `tokio`), so flows are `Send` and
/// own what they hold. The party is asked by one thread at a time, not always the same.
pub trait Party: Send {
    /// The workload's flow.
    type Flow: Flow + Send + 'static;

    /// Whether the bytes of its flows are moved by calls of the party ([`transfer`](Party::transfer)), such as splice(2), instead of
    /// the engine's: only `epoll` has this.
    const CALLS: bool = false;

    /// The next flow that the engine begins with, and its connection if it is joined already. `None`: that
    /// was all.
    fn first(&mut self) -> Option<(Self::Flow, Option<OwnedFd>)> {
        None
    }

    /// A connection was accepted: sets the options that belong on it and gives it a flow. `None`: the engine
    /// closes it.
    fn accepted(&mut self, _connection: BorrowedFd<'_>, _now_ns: u64) -> Option<Self::Flow> {
        None
    }

    /// A socket that does not block and on which connect(2) has been called for this flow. The engine waits
    /// until it can be written and then asks for its error.
    ///
    /// # Errors
    /// The error of socket(2), bind(2) or connect(2), except `EINPROGRESS`.
    fn connect(&mut self, _flow: &mut Self::Flow) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

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

    /// Receives or sends for a flow by one call, and counts it. Sets the time of a flow that is [`TIMED`](Flow::TIMED).
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` if there is nothing to receive, or no room.
    fn transfer(
        &mut self,
        _doing: Doing,
        _flow: &mut Self::Flow,
        _connection: BorrowedFd<'_>,
        _meter: &mut Meter,
        _now_ns: &mut u64,
    ) -> io::Result<CallResult> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A flow is done, or the time is up. Its connection comes with it if it is still open.
    fn left(&mut self, flow: Self::Flow, connection: Option<OwnedFd>);
}
