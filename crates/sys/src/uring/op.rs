//! The operations that the kernel works on: the token of the requester, and the memory that each uses.
//!
//! An operation's user data is its place in this table and a count of how often the place was used,
//! so that a completion that belongs to nothing is noticed and never mistaken for another one.

use std::os::fd::OwnedFd;

use super::memory::{BufferId, MessageId};
use super::pool::PoolId;
use crate::epoll::Ready;
use crate::uring::pool::Taken;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpKind {
    Accept,
    Poll,
    Receive,
    ReceiveBundles,
    Send,
    Cancel,
    Close,
}

/// Memory that an operation uses until its last completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uses {
    Nothing,
    Buffer(BufferId),
    /// Any buffers of a pool that are offered.
    Pool(PoolId),
    /// A buffer of a pool in which bytes were received.
    Lent(PoolId, u16),
    /// A message, whose bytes are in a buffer of a pool.
    MessageLent(MessageId, PoolId, u16),
}

/// Names an operation that was queued; [`super::Ring::cancel`] takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpId {
    index: u32,
    turn: u32,
}

impl OpId {
    #[inline]
    pub(super) fn user_data(self) -> u64 {
        u64::from(self.turn) << 32 | u64::from(self.index)
    }

    #[inline]
    pub(super) fn of_user_data(data: u64) -> OpId {
        OpId { index: data as u32, turn: (data >> 32) as u32 }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) kind: OpKind,
    pub(super) token: u64,
    pub(super) uses: Uses,
}

/// All operations in flight.
#[derive(Debug, Default)]
pub(super) struct Ops {
    places: Vec<OpSlot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct OpSlot {
    turn: u32,
    op: Option<Op>,
}

impl Ops {
    #[inline]
    pub(super) fn add(&mut self, op: Op) -> OpId {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.op = Some(op);
            return OpId { index, turn: place.turn };
        }
        let index = self.places.len() as u32;
        self.places.push(OpSlot { turn: 0, op: Some(op) });
        OpId { index, turn: 0 }
    }

    /// The operation of this name, if it is still in flight.
    #[inline]
    pub(super) fn find(&self, id: OpId) -> Option<&Op> {
        self.places.get(id.index as usize).filter(|place| place.turn == id.turn)?.op.as_ref()
    }

    /// The operation's last completion came.
    #[inline]
    pub(super) fn remove(&mut self, id: OpId) {
        let place = &mut self.places[id.index as usize];
        if place.turn == id.turn && place.op.take().is_some() {
            place.turn = place.turn.wrapping_add(1);
            self.free.push(id.index);
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The names of all operations in flight.
    pub(super) fn names(&self) -> Vec<OpId> {
        let places = (0u32..).zip(&self.places);
        places.filter(|(_, place)| place.op.is_some()).map(|(index, place)| OpId { index, turn: place.turn }).collect()
    }
}

// The kernel's report that an operation, or a part of one, is done.

/// An error number of the kernel (errno(3)), without the weight of [`std::io::Error`].
pub use rustix::io::Errno;

/// One completion.
#[derive(Debug)]
pub struct Completion {
    /// The token of the operation.
    pub token: u64,
    /// Whether the same operation will complete again.
    pub more: bool,
    /// The result.
    pub event: OpResult,
}

/// The result of an operation.
#[derive(Debug)]
pub enum OpResult {
    /// A connection was accepted.
    Accepted(Result<OwnedFd, Errno>),
    /// The events for which a poll found a descriptor ready.
    Polled(Result<Ready, Errno>),
    /// Bytes arrived; 0 is the end of the stream.
    Received {
        /// How many.
        moved: Result<usize, Errno>,
        /// Where they are, if the operation took from a pool.
        taken: Option<Taken>,
    },
    /// How many bytes were taken by the socket.
    Sent(Result<usize, Errno>),
    /// The socket needs the bytes of a zero-copy send no longer.
    Released {
        /// Whether the kernel copied them after all.
        copied: bool,
    },
    /// An operation was called off. `ENOENT`: it was over already. `EALREADY`: it is too late, but it
    /// will end.
    Cancelled(Result<(), Errno>),
    /// A descriptor was closed.
    Closed(Result<(), Errno>),
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Completions may be there.
    Ready,
    /// The time was up.
    TimedOut,
    /// A signal came: look at the flags.
    Interrupted,
}

/// Totals since the ring was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// io_uring_enter(2) calls.
    pub system_calls: u64,
    /// Completions taken.
    pub completions: u64,
    /// Times the completion queue was found to have overflowed (`IORING_SQ_CQ_OVERFLOW`): the kernel
    /// then stores completions in memory of its own, which is slow, but loses none.
    pub overflows: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_used_twice() {
        let mut ops = Ops::default();
        let op = Op { kind: OpKind::Poll, token: 7, uses: Uses::Nothing };
        let first = ops.add(op);
        assert_eq!(OpId::of_user_data(first.user_data()), first);
        ops.remove(first);
        let second = ops.add(op);
        assert_ne!(first, second);
        assert!(ops.find(first).is_none() && ops.find(second).is_some());
        ops.remove(first);
        assert_eq!(ops.in_flight(), 1);
        ops.remove(second);
        assert_eq!((ops.in_flight(), ops.names().len()), (0, 0));
    }
}
