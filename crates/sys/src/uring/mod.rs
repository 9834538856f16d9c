//! io_uring for engines: rings that own every byte they hand to the kernel.
//!
//! A [`Ring`] owns its queues, the buffers of its operations and its pools of provided buffers, and
//! lends bytes only while the kernel does not use them. Every operation has a place in a table until
//! its last completion, so that every queued operation is reaped. A ring that is dropped cancels the operations
//! in flight and waits for them; memory that the kernel does not release in time is leaked, never
//! freed while in use.
//!
//! Operations take borrowed descriptors. The kernel looks a descriptor up when it takes the
//! submission, which is at the next [`Ring::wait`] or, with a submission thread, some time later:
//! close descriptors by [`Ring::close`], which keeps its place in the order, or after a wait.
//! Descriptors must be blocking: for one with `O_NONBLOCK` the kernel fails an operation with
//! `EAGAIN` instead of waiting (io_uring/io_uring.c, `REQ_F_NOWAIT`).
//!
//! Signals are handed back ([`Wait::Interrupted`]); nothing is retried here.

mod feature;
mod lending;
mod memory;
mod op;
mod pool;
mod queue;

#[cfg(all(test, miri))]
mod miri;
#[cfg(test)]
mod tests;

pub use feature::{Feature, Missing, probe};
pub use memory::{BufferId, MESSAGE_ROOM, MessageId, Parcel};
pub use op::{Completion, Errno, OpId, OpResult, RingCounts, Wait};
pub use pool::{PoolId, Taken};

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, OwnedFd};

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, squeue};
use rustix::thread::gettid;

use crate::clock::monotonic_ns;
use crate::epoll::Ready;
use memory::Buffers;
use op::{Op, OpKind, Ops, Uses};
use pool::Pool;

/// How long a ring that is dropped waits for what is in flight.
const SETTLE_NS: u64 = 1_000_000_000;

/// The notification of a zero-copy send reports that the bytes were copied after all
/// (`IORING_NOTIF_USAGE_ZC_COPIED`, include/uapi/linux/io_uring.h).
const NOTIFIED_COPIED: u32 = 1 << 31;

/// How large a ring is and who takes its submissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSetup {
    /// Submissions that fit at once; more are kept back until there is room.
    pub entries: u32,
    /// Completions that fit at once. Be generous: an overflow is slow.
    pub completions: u32,
    /// A kernel thread takes submissions, and sleeps after this number of idle milliseconds.
    pub poll_idle_ms: Option<u32>,
}

/// An io_uring with its memory. Stays in the thread that made it: the kernel may then leave out locks
/// and interrupts (`IORING_SETUP_SINGLE_ISSUER`, `IORING_SETUP_DEFER_TASKRUN`).
pub struct Ring {
    io: IoUring,
    ops: Ops,
    /// Submissions for which the queue had no room.
    backlog: VecDeque<squeue::Entry>,
    buffers: ManuallyDrop<Buffers>,
    pools: ManuallyDrop<Vec<Pool>>,
    /// Templates of multishot receives of messages; the kernel reads them when it takes the operation.
    template: ManuallyDrop<Box<libc::msghdr>>,
    counts: RingCounts,
    /// Whether sends ask the kernel not to copy.
    zero_copy: bool,
    enter_flags: EnterFlags,
}

impl Ring {
    /// Makes a ring with the best flags that this kernel knows.
    ///
    /// # Errors
    ///
    /// The feature that this machine lacks.
    pub fn open(setup: &RingSetup) -> Result<Ring, Missing> {
        let io = newest_first(setup).map_err(|error| Missing::of("making an io_uring", &error))?;
        let mut enter_flags = EnterFlags::GETEVENTS;
        if io.params().is_feature_no_iowait() {
            // Waiting for a peer is idleness, not a disk's fault.
            enter_flags |= EnterFlags::NO_IOWAIT;
        }
        Ok(Ring {
            io,
            ops: Ops::default(),
            backlog: VecDeque::new(),
            buffers: ManuallyDrop::default(),
            pools: ManuallyDrop::default(),
            template: ManuallyDrop::new(Box::new(memory::template())),
            counts: RingCounts::default(),
            zero_copy: false,
            enter_flags,
        })
    }

    /// Totals since the ring was made.
    pub fn counts(&self) -> RingCounts {
        self.counts
    }

    /// Operations that have not completed for the last time.
    pub fn in_flight(&self) -> usize {
        self.ops.in_flight()
    }

    /// Submits what is queued and waits until `want` completions are there, at most so long.
    ///
    /// With a submission thread it returns without a system call if completions are there already.
    ///
    /// # Errors
    ///
    /// Whatever io_uring_enter(2) returns that is neither a time-out, a signal nor a full queue.
    #[inline]
    pub fn wait(&mut self, want: u32, timeout_ns: Option<u64>) -> io::Result<Wait> {
        if !self.backlog.is_empty() {
            self.feed();
        }
        let queue = self.io.submission();
        let (queued, overflowed, asleep) = (queue.len() as u32, queue.cq_overflow(), queue.need_wakeup());
        drop(queue);
        self.counts.overflows += u64::from(overflowed);
        let mut flags = self.enter_flags;
        if self.io.params().is_setup_sqpoll() {
            if asleep {
                flags |= EnterFlags::SQ_WAKEUP;
            } else if !overflowed && (want == 0 || !self.io.completion().is_empty()) {
                return Ok(Wait::Ready);
            }
        }
        self.counts.system_calls += 1;
        let done = match timeout_ns {
            None => {
                // SAFETY: no argument is passed, so the kernel reads no memory but the queue's.
                unsafe { self.io.submitter().enter::<libc::sigset_t>(queued, want, flags.bits(), None) }
            }
            // The kernel reads the limit from memory, which takes a part of the time of a short operation.
            Some(ns) => {
                let span = Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32);
                let (args, flags) = (SubmitArgs::new().timespec(&span), flags | EnterFlags::EXT_ARG);
                // SAFETY: with EXT_ARG the kernel reads one io_uring_getevents_arg, which SubmitArgs is, and
                // the Timespec behind it; both live through the call.
                unsafe { self.io.submitter().enter(queued, want, flags.bits(), Some(&args)) }
            }
        };
        match done {
            Ok(_) => Ok(Wait::Ready),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME) => Ok(Wait::TimedOut),
                Some(libc::EINTR) => Ok(Wait::Interrupted),
                // No memory for more requests, or completions must be taken first.
                Some(libc::EAGAIN | libc::EBUSY) => Ok(Wait::Ready),
                _ => Err(error),
            },
        }
    }

    /// Takes the next completion, if one is there.
    #[inline]
    pub fn reap(&mut self) -> Option<Completion> {
        let entry = self.io.completion().next()?;
        self.counts.completions += 1;
        Some(self.complete(OpId::of_user_data(entry.user_data()), entry.result(), entry.flags()))
    }

    /// Pairs a completion with its operation, and takes back what that has used.
    #[inline]
    fn complete(&mut self, id: OpId, result: i32, flags: u32) -> Completion {
        let op = *self.ops.find(id).expect("a completion belongs to an operation in flight");
        let more = cqueue::more(flags);
        if !more {
            self.ops.remove(id);
            match op.uses {
                Uses::Buffer(buffer) => self.buffers.take_back(buffer),
                Uses::Lent(pool, buffer) => self.pool(pool).release(buffer),
                Uses::MessageLent(message, pool, buffer) => {
                    self.buffers.take_back(message.0);
                    self.pool(pool).release(buffer);
                }
                Uses::Pool(_) | Uses::Nothing => {}
            }
        }
        let event = self.event(op, result, flags);
        Completion { token: op.token, more, event }
    }

    #[inline]
    fn event(&mut self, op: Op, result: i32, flags: u32) -> OpResult {
        if op.kind == OpKind::Send && cqueue::notif(flags) {
            return OpResult::Released { copied: result as u32 & NOTIFIED_COPIED != 0 };
        }
        let count = if result < 0 { Err(Errno::from_raw_os_error(result.wrapping_neg())) } else { Ok(result as usize) };
        let first = cqueue::buffer_select(flags);
        match op.kind {
            // SAFETY: the result of an accept is a descriptor that nothing else owns yet.
            OpKind::Accept => OpResult::Accepted(count.map(|_| unsafe { OwnedFd::from_raw_fd(result) })),
            OpKind::Poll => OpResult::Polled(count.map(|found| Ready::from_bits_retain(found as u32))),
            OpKind::Cancel => OpResult::Cancelled(count.map(drop)),
            OpKind::Close => OpResult::Closed(count.map(drop)),
            OpKind::Receive | OpKind::ReceiveBundles => {
                let taken = match (op.uses, first, count) {
                    // A bundle of nothing names a buffer that the kernel keeps (`io_bundle_nbufs`).
                    (_, _, Err(_) | Ok(0)) if op.kind == OpKind::ReceiveBundles => None,
                    (Uses::Pool(id), Some(first), _) => Some(self.pool(id).lend(id, first, count.unwrap_or(0))),
                    _ => None,
                };
                OpResult::Received { moved: count, taken }
            }
            OpKind::Send => OpResult::Sent(count),
        }
    }

    /// Calls everything off that is in flight and waits for it, a second at most. Completions are
    /// thrown away. Returns whether nothing is in flight any more.
    pub fn settle(&mut self) -> bool {
        for id in self.ops.names() {
            self.cancel(id);
        }
        let deadline_ns = monotonic_ns() + SETTLE_NS;
        while self.in_flight() > 0 {
            let left_ns = deadline_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 || self.wait(1, Some(left_ns)).is_err() {
                return false;
            }
            while self.reap().is_some() {}
        }
        true
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.settle() {
            // The kernel may still write there: the memory outlives the ring.
            return;
        }
        // SAFETY: dropped once, here, and not used afterwards. Nothing is in flight, so the kernel
        // uses neither the buffers nor, without an operation to pick from them, the pools.
        unsafe {
            ManuallyDrop::drop(&mut self.buffers);
            ManuallyDrop::drop(&mut self.pools);
            ManuallyDrop::drop(&mut self.template);
        }
    }
}

/// CPU time of the kernel's own threads that work for rings of the calling thread (SQPOLL, io-wq), nanoseconds. Absent
/// without procfs. Read it before the ring is dropped, which ends these threads.
pub fn helper_cpu_ns() -> Option<u64> {
    feature::cpu_ns(gettid().as_raw_pid())
}

/// Tries the flags of recent kernels first.
fn newest_first(setup: &RingSetup) -> io::Result<IoUring> {
    let polled = setup.poll_idle_ms.is_some();
    for age in 0.. {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_cqsize(setup.completions.max(setup.entries.next_power_of_two()));
        if let Some(idle_ms) = setup.poll_idle_ms {
            builder.setup_sqpoll(idle_ms);
        }
        // Linux 6.6: submissions without an array of indices.
        if age < 1 {
            builder.setup_no_sqarray();
        }
        // Linux 6.1; a submission thread excludes the last.
        if age < 2 {
            builder.setup_submit_all().setup_single_issuer();
            if !polled {
                builder.setup_defer_taskrun();
            }
        }
        match builder.build(setup.entries) {
            Ok(io) => return Ok(io),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && age < 2 => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("the loop ends by returning")
}
