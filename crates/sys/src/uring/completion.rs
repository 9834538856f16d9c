//! The kernel's report that an operation, or a part of one, is done.

use std::io;
use std::os::fd::OwnedFd;

use super::pool::Taken;
use crate::epoll::Ready;

/// An error number of the kernel (errno(3)), without the weight of [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// The pool had no buffer left (`ENOBUFS`).
    pub const NO_BUFFER: Errno = Errno(libc::ENOBUFS);
    /// The operation was called off (`ECANCELED`).
    pub const CANCELLED: Errno = Errno(libc::ECANCELED);
    /// A signal came (`EINTR`): nothing happened.
    pub const INTERRUPTED: Errno = Errno(libc::EINTR);
    /// Not possible with this kind of socket (`EOPNOTSUPP`).
    pub const UNSUPPORTED: Errno = Errno(libc::EOPNOTSUPP);
    /// A pipe or a file where a socket is needed (`ENOTSOCK`).
    pub const NOT_A_SOCKET: Errno = Errno(libc::ENOTSOCK);
    /// No memory, or no more may be locked (`ENOMEM`).
    pub const NO_MEMORY: Errno = Errno(libc::ENOMEM);
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.0)
    }
}

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
    /// Nothing, as was asked; with the kernel's result.
    Nop(i32),
    /// A connection was accepted.
    Accepted(Result<OwnedFd, Errno>),
    /// A socket can be written, or has an error to tell.
    Writable(Result<(), Errno>),
    /// The events for which a poll found a descriptor ready.
    Polled(Result<Ready, Errno>),
    /// Bytes arrived; 0 is the end of the stream.
    Received {
        /// How many.
        moved: Result<usize, Errno>,
        /// Where they are, if the operation took from a pool.
        taken: Option<Taken>,
    },
    /// Bytes were taken by the socket.
    Sent {
        /// How many.
        moved: Result<usize, Errno>,
        /// From how many pieces of a queue; 0 if it took none.
        buffers: u16,
        /// Bytes of the last of these pieces that were not sent: [`super::Ring::empty_queue`] returns them.
        /// If there are none, what a bundle left is still offered, and another one sends it.
        lost: usize,
    },
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
    /// Operations queued.
    pub queued: u64,
    /// Completions taken.
    pub completions: u64,
    /// Times the completion queue was found to have overflowed (`IORING_SQ_CQ_OVERFLOW`): the kernel
    /// then stores completions in memory of its own, which is slow, but loses none.
    pub overflows: u64,
}
