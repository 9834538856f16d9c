//! A workload's view of one connection.
//!
//! A flow states its next action and is notified of events. It does no I/O and reads no clock, so that
//! every engine can carry every workload: W workloads + E engines, not W × E.

use std::ops::Range;

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

    /// Whether flows of this kind may come in pairs ([`Party::partner`](crate::party::Party::partner)), in which each
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

    /// Most bytes of one send: a longer message goes in parts of this length.
    fn chunk(&self) -> usize {
        usize::MAX
    }

    /// `n` bytes of the message were taken, behind those that were taken before.
    fn sent(&mut self, _n: usize, _now_ns: u64) {}

    /// These bytes arrived. `false` ends the flow: they are wrong.
    fn received(&mut self, bytes: &mut [u8], now_ns: u64) -> bool;

    /// The same of bytes in memory that cannot be written. Only flows of readers take them.
    fn received_in_place(&mut self, _bytes: &[u8]) -> bool {
        false
    }

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
    fn hand_over(&mut self, _partner: &mut Self)
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
