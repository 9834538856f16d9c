//! Queues operations: one function an operation. Nothing is submitted before [`Ring::wait`].

use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use io_uring::types::{CancelBuilder, Fd};
use io_uring::{EnterFlags, opcode, squeue};

use super::op::{Op, OpId, OpKind, Uses};
use super::{BufferId, MESSAGE_ROOM, MessageId, PoolId, Ring, Taken};
use crate::datagram::{PeerAddress, SlotTarget};
use crate::epoll::Ready;

/// Ask the notification of a zero-copy send whether the bytes were copied
/// (`IORING_SEND_ZC_REPORT_USAGE`, include/uapi/linux/io_uring.h).
const REPORT_USAGE: u16 = 1 << 3;

impl Ring {
    /// Accepts a connection, as a blocking descriptor that is closed on exec; or, `multishot`, connections on and on (Linux 5.19).
    pub fn accept(&mut self, token: u64, listener: BorrowedFd<'_>, multishot: bool) -> OpId {
        let (listener, null) = (fd(listener), std::ptr::null_mut());
        let entry = match multishot {
            false => opcode::Accept::new(listener, null, null.cast()).flags(libc::SOCK_CLOEXEC).build(),
            true => opcode::AcceptMulti::new(listener).flags(libc::SOCK_CLOEXEC).build(),
        };
        self.queue(OpKind::Accept, token, Uses::Nothing, entry)
    }

    /// Tells what a descriptor is ready for: once, or, if changes are asked for ([`Ready::ET`]), at every one of them
    /// (Linux 5.13). Keeps the descriptor's file alive: [`cancel`](Ring::cancel) it before closing.
    pub fn poll(&mut self, token: u64, descriptor: BorrowedFd<'_>, ready: Ready) -> OpId {
        let wanted = (ready - Ready::ET).bits();
        let entry = opcode::PollAdd::new(fd(descriptor), wanted).multi(ready.intersects(Ready::ET)).build();
        self.queue(OpKind::Poll, token, Uses::Nothing, entry)
    }

    /// Receives once, into a part of a buffer of the ring.
    ///
    /// # Panics
    ///
    /// If another operation uses the buffer, or it is shorter.
    #[inline]
    pub fn receive(&mut self, token: u64, socket: BorrowedFd<'_>, buffer: BufferId, part: &Range<usize>) -> OpId {
        let start = self.buffers.lend_to_receive(buffer, part);
        let entry = opcode::Recv::new(fd(socket), start, part.len() as u32).build();
        self.queue(OpKind::Receive, token, Uses::Buffer(buffer), entry)
    }

    /// Receives on and on, each time into one buffer of a pool (Linux 6.0), or, in `bundles`, into as many as there are bytes
    /// for (Linux 6.10). Ends with `ENOBUFS` when the pool is empty.
    #[inline]
    pub fn receive_multishot(&mut self, token: u64, socket: BorrowedFd<'_>, pool: PoolId, bundles: bool) -> OpId {
        let (kind, entry) = match bundles {
            false => (OpKind::Receive, opcode::RecvMulti::new(fd(socket), pool.0).build()),
            true => (OpKind::ReceiveBundles, opcode::RecvMultiBundle::new(fd(socket), pool.0).build()),
        };
        self.queue(kind, token, Uses::Pool(pool), entry)
    }

    /// Sends a part of a buffer, which other sends may use as well. Never queue two sends of one socket: they may change
    /// places.
    ///
    /// # Panics
    ///
    /// If a receive uses the buffer, or it is shorter.
    #[inline]
    pub fn send(&mut self, token: u64, socket: BorrowedFd<'_>, buffer: BufferId, part: &Range<usize>) -> OpId {
        let start = self.buffers.lend_to_send(buffer, part);
        self.queue_send(token, socket, Uses::Buffer(buffer), (start, part.len()))
    }

    /// Sends the front of a part of what was received, from where it is: as much of it as one buffer holds. Returns how
    /// much that is. The bytes may be given back before the send is over.
    ///
    /// # Panics
    ///
    /// If there is no such part.
    #[inline]
    pub fn send_taken(
        &mut self,
        token: u64,
        socket: BorrowedFd<'_>,
        taken: &Taken,
        part: &Range<usize>,
    ) -> (OpId, usize) {
        let pool = self.pool(taken.pool);
        let (buffer, start, len) = pool.front(taken, part);
        pool.hold(buffer);
        (self.queue_send(token, socket, Uses::Lent(taken.pool, buffer), (start, len)), len)
    }

    /// Has later sends of buffers ask the kernel not to copy, or copy again. A send without a copy completes twice: the
    /// buffer is in use until the second time.
    ///
    /// Never with a submission thread. The second completion comes when the socket lets go of the bytes, and
    /// nothing calls it off. When a process ends, its submission thread waits for all that is in flight
    /// (`io_uring_cancel_generic(true, sqd)` in io_uring/cancel.c) before it lets go of the descriptor table that
    /// it shares, so sockets whose peer takes no more are not closed, and the wait has no end. Since the thread
    /// has a signal pending, the interruptible wait spins: an unkillable thread takes a whole CPU until
    /// `ss --kill` destroys the socket (seen on Linux 6.18; an end by SIGKILL suffices, so no handler helps).
    /// Without a submission thread the exit waits only for what refers to rings, and closes the sockets.
    ///
    /// # Panics
    ///
    /// If the ring has a submission thread: [`Ring::require`] tells.
    pub fn set_zero_copy(&mut self, zero_copy: bool) {
        assert!(!zero_copy || !self.io.params().is_setup_sqpoll(), "no zero-copy send by a submission thread");
        self.zero_copy = zero_copy;
    }

    #[inline]
    fn queue_send(&mut self, token: u64, socket: BorrowedFd<'_>, uses: Uses, bytes: (*const u8, usize)) -> OpId {
        let (socket, len) = (fd(socket), bytes.1 as u32);
        let entry = if self.zero_copy {
            opcode::SendZc::new(socket, bytes.0, len).zc_flags(REPORT_USAGE).build()
        } else {
            // Without MSG_WAITALL a full socket ends the send, and the rest costs another submission (io_send, io_uring/net.c).
            opcode::Send::new(socket, bytes.0, len).flags(libc::MSG_WAITALL).build()
        };
        self.queue(OpKind::Send, token, uses, entry)
    }

    /// Receives one message, with its address and the kernel's report on it: [`Ring::arrived`]. Several may be in flight on one
    /// socket. The reported number of moved bytes is the message's whole length, including bytes that were cut off.
    ///
    /// # Panics
    ///
    /// If another operation uses the message.
    #[inline]
    pub fn receive_message(&mut self, token: u64, socket: BorrowedFd<'_>, message: MessageId) -> OpId {
        let header = self.buffers.lend_message_to_receive(message);
        let entry = opcode::RecvMsg::new(fd(socket), header).flags(libc::MSG_TRUNC as u32).build();
        self.queue(OpKind::Receive, token, Uses::Buffer(message.0), entry)
    }

    /// Receives messages on and on, each into one buffer of a pool, whose buffers are [`super::MESSAGE_ROOM`]
    /// longer than a message (Linux 6.0): [`Ring::parcel`] reads them. Ends with `ENOBUFS` when the pool is empty,
    /// and after a message of no bytes.
    #[inline]
    pub fn receive_messages(&mut self, token: u64, socket: BorrowedFd<'_>, pool: PoolId) -> OpId {
        let template: *const libc::msghdr = &**self.template;
        let entry = opcode::RecvMsgMulti::new(fd(socket), template, pool.0).flags(libc::MSG_TRUNC as u32).build();
        self.queue(OpKind::Receive, token, Uses::Pool(pool), entry)
    }

    /// Sends a message. Those of one socket leave in the order in which they were queued, unless one has to wait
    /// for room: others may then overtake it.
    ///
    /// # Panics
    ///
    /// If another operation uses the message, or it is shorter.
    #[inline]
    pub fn send_message(&mut self, token: u64, socket: BorrowedFd<'_>, message: MessageId, to: SlotTarget<'_>) -> OpId {
        let header = self.buffers.lend_message_to_send(message, None, to);
        let entry = opcode::SendMsg::new(fd(socket), header).build();
        self.queue(OpKind::Send, token, Uses::Buffer(message.0), entry)
    }

    /// Sends the first `len` bytes of a message from [`Ring::receive_messages`] to `peer`, without copying them. `message`
    /// only carries the header and the address; its own bytes are not sent. The received message may be given back before
    /// the send is over.
    ///
    /// # Panics
    ///
    /// If another operation uses the message, or fewer bytes were received.
    #[inline]
    pub fn send_parcel(
        &mut self,
        token: u64,
        socket: BorrowedFd<'_>,
        message: MessageId,
        (taken, len): (&Taken, usize),
        peer: &PeerAddress,
    ) -> OpId {
        let pool = self.pool(taken.pool);
        let (buffer, start, held) = pool.front(taken, &(MESSAGE_ROOM..MESSAGE_ROOM + len));
        assert!(held == len, "as many bytes as were received");
        pool.hold(buffer);
        let header = self.buffers.lend_message_to_send(message, Some(start), SlotTarget { len, peer: Some(peer) });
        let entry = opcode::SendMsg::new(fd(socket), header).build();
        self.queue(OpKind::Send, token, Uses::MessageLent(message, taken.pool, buffer), entry)
    }

    /// Calls an operation off. The operation itself completes too, with `ECANCELED` if it was not
    /// over.
    pub fn cancel(&mut self, op: OpId) -> OpId {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::user_data(op.user_data())).build();
        self.queue(OpKind::Cancel, 0, Uses::Nothing, entry)
    }

    /// Closes a descriptor once the kernel has taken everything that was queued before. Operations in
    /// flight keep the socket alive: cancel them first.
    pub fn close(&mut self, token: u64, descriptor: OwnedFd) -> OpId {
        let entry = opcode::Close::new(Fd(descriptor.into_raw_fd())).build();
        self.queue(OpKind::Close, token, Uses::Nothing, entry)
    }

    #[inline]
    fn queue(&mut self, kind: OpKind, token: u64, uses: Uses, entry: squeue::Entry) -> OpId {
        let id = self.ops.add(Op { kind, token, uses });
        let entry = entry.user_data(id.user_data());
        if !self.backlog.is_empty() || !self.push(&entry) {
            self.backlog.push_back(entry);
            self.feed();
        }
        id
    }

    #[inline]
    fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the memory an entry names is a buffer, a message or a pool of this ring, marked as in use
        // until the operation's last completion was reaped; the ring frees none of it before, or
        // leaks it.
        unsafe { self.io.submission().push(entry).is_ok() }
    }

    /// Moves kept-back entries into the queue, submitting to make room.
    #[cold]
    pub(super) fn feed(&mut self) {
        while let Some(entry) = self.backlog.pop_front() {
            if self.push(&entry) {
                continue;
            }
            let queued = self.io.submission().len();
            let made_room = self.make_room() && self.io.submission().len() < queued;
            self.backlog.push_front(entry);
            if !made_room {
                return;
            }
        }
    }

    /// Whether the kernel was asked to take what is queued. Its refusal (no memory, completions to be
    /// taken first) is temporary, so the backlog waits.
    fn make_room(&mut self) -> bool {
        let queue = self.io.submission();
        let (queued, asleep) = (queue.len() as u32, queue.need_wakeup());
        drop(queue);
        let mut flags = EnterFlags::empty();
        if self.io.params().is_setup_sqpoll() {
            flags |= EnterFlags::SQ_WAIT;
            if asleep {
                flags |= EnterFlags::SQ_WAKEUP;
            }
        }
        self.counts.system_calls += 1;
        // SAFETY: no argument is passed, so the kernel reads no memory but the queue's.
        unsafe { self.io.submitter().enter::<libc::sigset_t>(queued, 0, flags.bits(), None).is_ok() }
    }
}

fn fd(borrowed: BorrowedFd<'_>) -> Fd {
    Fd(borrowed.as_raw_fd())
}
