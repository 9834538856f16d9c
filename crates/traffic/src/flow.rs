//! A workload's view of one connection.
//!
//! A flow says what it wants next and is told what happened. It does no I/O and reads no clock, so that
//! every engine can carry every workload: W workloads + E engines, not W × E.

use std::ops::Range;

/// What a flow wants to happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Send the rest of the message that is being sent, or else the next one.
    Send,
    /// Receive into the engine's buffer.
    Receive,
    /// Send and receive, whichever the connection is ready for first. Bytes may arrive while a send is under
    /// way: between [`Flow::compose`] and the [`Flow::sent`] that reports it.
    Both,
    /// Receive; ask again at this moment of the monotonic clock, nanoseconds, if nothing came.
    ReceiveUntil(u64),
    /// Do nothing until this moment of the monotonic clock, nanoseconds.
    Pause(u64),
    /// Open a connection; an older one is closed already.
    Connect,
    /// Send nothing any more on this connection, which the peer sees as the end of what it receives; then ask again.
    Finish,
    /// Close the connection; then ask again.
    Close,
    /// Close the connection so that the peer is told of a failure, where the transport knows how (TCP: a reset); then
    /// ask again.
    Reset,
    /// Nothing any more: the engine gives the flow back.
    Done,
}

/// Why a flow's connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer sent everything it had to send and closed.
    Eof,
    /// The peer takes no more data.
    Closed,
    /// A call failed.
    Failed {
        /// Which call.
        doing: Doing,
        /// The kernel's error number (errno(3)).
        errno: i32,
    },
}

/// What was being done when a call failed.
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

    /// Whether flows of this kind may come in pairs ([`Party::partner`](crate::party::Party::partner)), of which each
    /// may have the other one asked again. Not every engine can ([`can_pair`](crate::engine::can_pair)).
    const PAIRED: bool = false;

    /// Whether each flow of a pair sends what the other one received: the engine then keeps what arrives at a flow that
    /// [echoes](Flow::echoes) until its partner [returns](Flow::returns) it. Only io_uring does so.
    const FORWARDS: bool = false;

    /// What to do next. Asked before every call.
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

    /// Most bytes of one send: a longer message goes in parts of this length.
    fn chunk(&self) -> usize {
        usize::MAX
    }

    /// `n` bytes of the message were taken, behind those that were taken before.
    fn sent(&mut self, _n: usize, _now_ns: u64) {}

    /// These bytes arrived. `false` ends the flow: something is wrong with them.
    fn received(&mut self, bytes: &mut [u8], now_ns: u64) -> bool;

    /// Whether the flow sends back what it received. The engine then keeps what arrives, in order and if it can where it
    /// is, until the flow [returns](Flow::returns) it. Never changes.
    fn echoes(&self) -> bool {
        false
    }

    /// Which of the bytes that were kept are to be sent back, counted from the first of them; of a flow that
    /// [forwards](Flow::FORWARDS) those that were kept for its partner. Those before this range are
    /// not needed any more. A flow that wants to send sends these first, then what it composes; [`sent`](Flow::sent)
    /// reports both.
    fn returns(&self) -> Range<usize> {
        0..0
    }

    /// Until when the flow waits for room to send or for a connection, nanoseconds of the monotonic clock. A
    /// connection attempt that takes longer ends with `ETIMEDOUT`; a flow that cannot send is asked again, and
    /// then had better want something else.
    fn patience_ns(&self) -> u64 {
        u64::MAX
    }

    /// Whether what was told to this flow since the last time concerns its partner, which is then asked again what it
    /// wants. Asked after everything that happened to a flow that is [`PAIRED`](Flow::PAIRED). A partner is asked
    /// again in any case when its flow leaves.
    fn wakes(&mut self) -> bool {
        false
    }

    /// Gives the partner what concerns it. Called before the partner is asked again because this flow
    /// [wakes](Flow::wakes) it, and before this flow leaves. So two flows of a pair need not share anything.
    fn hand_over(&mut self, _partner: &mut Self)
    where
        Self: Sized,
    {
    }

    /// The connection that was wanted is there.
    fn connected(&mut self, _now_ns: u64) {}

    /// The connection came to an end that the flow did not ask for. The engine asks again what is wanted and
    /// closes the connection, with one exception: a peer that only shut down its writing side ([`End::Eof`])
    /// can still be sent to, so the connection stays for as long as the flow goes on wanting to send, or, where its
    /// partner may still bring it something to send, pauses; a flow with a partner that is done takes its connection
    /// along. Wanting to receive from it once more ends it a second
    /// time.
    fn ended(&mut self, _end: End, _now_ns: u64) {}
}
