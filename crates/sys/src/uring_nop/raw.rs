//! The raw ring: mapped queues and io_uring_enter(2), without a library of rings. rustix declares the kernel's structures and
//! makes the system calls, each as one instruction.
//!
//! The tightest possible loop: entries are written in place, the tail is stored once per round, the kernel is entered
//! once, and the head is stored once. Unneeded work of a mode (user data, reading completions) is not compiled into its
//! loop.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rustix::io_uring::{
    IORING_OFF_SQ_RING, IORING_OFF_SQES, IoringEnterFlags, IoringFeatureFlags, IoringOp, IoringRegisterOp,
    IoringSqFlags, io_uring_cqe, io_uring_enter, io_uring_params, io_uring_ptr, io_uring_register,
    io_uring_rsrc_update, io_uring_setup, io_uring_sqe, io_uring_user_data,
};

use super::ledger::NopLedger;
use super::{INTERRUPTIONS_MAX, Lap, NopRing, NopSetup, SPINS_MAX, Trouble};
use crate::buffer::Mapping;
use crate::uring::Missing;

/// A ring with a ledger.
pub(super) struct Raw<L> {
    ledger: L,
    batch: u32,
    polled: bool,
    /// The descriptor for io_uring_enter(2), or its registered index with the corresponding flag.
    enter_fd: i32,
    enter_flags: IoringEnterFlags,
    tail: u32,
    head: u32,
    sq_mask: u32,
    cq_mask: u32,
    sq_head: NonNull<AtomicU32>,
    sq_tail: NonNull<AtomicU32>,
    sq_flags: NonNull<AtomicU32>,
    cq_head: NonNull<AtomicU32>,
    cq_tail: NonNull<AtomicU32>,
    sqes: NonNull<io_uring_sqe>,
    cqes: NonNull<io_uring_cqe>,
    // The pointers above point into these.
    _queues: Mapping,
    _entries: Mapping,
    _fd: OwnedFd,
}

impl<L: NopLedger> Raw<L> {
    pub(super) fn open(setup: &NopSetup, batch: u32, ledger: L) -> Result<Raw<L>, Missing> {
        let missing = |error: io::Error| Missing::of("making an io_uring", &error);
        let mut params = io_uring_params::default();
        params.flags = setup.kernel_flags();
        params.sq_thread_idle = if setup.sqpoll { super::POLL_IDLE_MS } else { 0 };
        // SAFETY: the parameters name no memory and no other ring.
        let fd = unsafe { io_uring_setup(setup.entries, &mut params) }.map_err(|error| missing(error.into()))?;
        if !params.features.contains(IoringFeatureFlags::SINGLE_MMAP | IoringFeatureFlags::NODROP) {
            return Err(Missing::NotBuilt);
        }
        let (sq, cq) = (params.sq_off, params.cq_off);
        let array_bytes = if setup.no_sqarray { 0 } else { sq.array as usize + params.sq_entries as usize * 4 };
        let queues_bytes = array_bytes.max(cq.cqes as usize + params.cq_entries as usize * size_of::<io_uring_cqe>());
        // Both queues are in one mapping (Linux 5.4), and its pages are populated.
        let map = |len_bytes, offset: u64| {
            let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
            Mapping::new(len_bytes, access, flags, Some((fd.as_fd(), offset as i64))).map_err(missing)
        };
        let queues = map(queues_bytes, IORING_OFF_SQ_RING)?;
        let entries_bytes = params.sq_entries as usize * size_of::<io_uring_sqe>();
        let entries = map(entries_bytes, IORING_OFF_SQES)?;
        if !setup.no_sqarray {
            // Entry n is always at index n, so the array of indices is written once.
            let array: NonNull<u32> = queues.values(sq.array, params.sq_entries);
            for index in 0..params.sq_entries {
                // SAFETY: `array` holds `sq_entries` indices; the kernel reads none before the tail moves.
                unsafe { array.add(index as usize).write(index) };
            }
        }
        let (mut enter_fd, mut enter_flags) = (fd.as_raw_fd(), IoringEnterFlags::empty());
        if setup.registered {
            enter_fd = register_ring_fd(fd.as_fd()).map_err(|error| Missing::of(super::REGISTERING, &error))?;
            enter_flags = IoringEnterFlags::REGISTERED_RING;
        }
        Ok(Raw {
            ledger,
            batch,
            polled: setup.sqpoll,
            enter_fd,
            enter_flags,
            tail: 0,
            head: 0,
            sq_mask: params.sq_entries - 1,
            cq_mask: params.cq_entries - 1,
            sq_head: queues.values(sq.head, 1),
            sq_tail: queues.values(sq.tail, 1),
            sq_flags: queues.values(sq.flags, 1),
            cq_head: queues.values(cq.head, 1),
            cq_tail: queues.values(cq.tail, 1),
            sqes: entries.values(0, params.sq_entries),
            cqes: queues.values(cq.cqes, params.cq_entries),
            _queues: queues,
            _entries: entries,
            _fd: fd,
        })
    }

    /// Writes a batch of entries and publishes them to the kernel.
    #[inline]
    fn fill(&mut self) {
        self.ledger.begin();
        for slot in 0..self.batch {
            let at = (self.tail.wrapping_add(slot) & self.sq_mask) as usize;
            let user_data = self.ledger.next(slot);
            // SAFETY: the index is masked to the entries of the mapping. The kernel has consumed the previous entry
            // there: each round starts after all completions of the last one were taken, or after the kernel has
            // reported them consumed (`wait_until_consumed`).
            unsafe {
                let entry = self.sqes.add(at).as_ptr();
                if L::CHECKS {
                    entry.write(nop(user_data));
                } else {
                    (&raw mut (*entry).opcode).write(IoringOp::Nop);
                    if L::SETS {
                        (&raw mut (*entry).user_data.u64_).write(user_data);
                    }
                }
            }
        }
        self.tail = self.tail.wrapping_add(self.batch);
        word(&self.sq_tail).store(self.tail, Ordering::Release);
    }

    /// Submits the batch.
    #[inline]
    fn submit(&self, lap: &mut Lap) -> Result<(), Trouble> {
        lap.submitted += u64::from(self.batch);
        if self.polled {
            return self.wake(lap);
        }
        let mut left = self.batch;
        while left > 0 {
            left -= self.enter(left, 0, IoringEnterFlags::empty(), lap)?.min(left);
        }
        Ok(())
    }

    /// Wakes the kernel's thread if it sleeps.
    fn wake(&self, lap: &mut Lap) -> Result<(), Trouble> {
        // The kernel sets the flag and then reads the tail; this code stores the tail and then reads the flag. A full
        // barrier on both sides ensures that one of them sees the other's write (io_uring_setup(2),
        // IORING_SETUP_SQPOLL).
        fence(Ordering::SeqCst);
        if self.has_flag(IoringSqFlags::NEED_WAKEUP) {
            self.enter(self.batch, 0, IoringEnterFlags::SQ_WAKEUP, lap)?;
        }
        Ok(())
    }

    /// Takes all completions of the batch.
    #[inline]
    fn take(&mut self, lap: &mut Lap) -> Result<(), Trouble> {
        let mut left = self.batch;
        let mut spins = 0;
        let mut waits = 0;
        loop {
            let ready = word(&self.cq_tail).load(Ordering::Acquire).wrapping_sub(self.head);
            if ready > left {
                return Err(Trouble::Invented { asked: left, came: ready });
            }
            if L::READS {
                self.settle(ready)?;
            }
            if ready > 0 {
                self.head = self.head.wrapping_add(ready);
                word(&self.cq_head).store(self.head, Ordering::Release);
                lap.completed += u64::from(ready);
                left -= ready;
            }
            if left == 0 {
                return Ok(());
            }
            if self.polled && spins < SPINS_MAX {
                spins += 1;
                std::hint::spin_loop();
                continue;
            }
            self.wait(left, &mut waits, lap)?;
        }
    }

    /// Waits until the kernel's thread has consumed the batch, if there is one; other rings consume it when it is submitted.
    #[cold]
    fn wait_until_consumed(&self, lap: &mut Lap) -> Result<(), Trouble> {
        let mut waits = 0;
        while self.polled && word(&self.sq_head).load(Ordering::Acquire) != self.tail {
            self.wake(lap)?;
            self.enter(0, 0, IoringEnterFlags::SQ_WAIT, lap)?;
            waits += 1;
            if waits > SPINS_MAX {
                return Err(Trouble::Refused { errno: libc::EAGAIN });
            }
        }
        Ok(())
    }

    #[inline]
    fn settle(&mut self, ready: u32) -> Result<(), Trouble> {
        for offset in 0..ready {
            let at = (self.head.wrapping_add(offset) & self.cq_mask) as usize;
            // SAFETY: the index is masked to the completions of the mapping, and the kernel's tail, loaded with
            // acquire, is past it: the kernel does not write it again until the head has moved.
            let (user_data, result) = unsafe {
                let entry = self.cqes.add(at).as_ptr();
                ((&raw const (*entry).user_data.u64_).read(), (&raw const (*entry).res).read())
            };
            self.ledger.settle(user_data, result)?;
        }
        Ok(())
    }

    #[cold]
    fn wait(&self, want: u32, waits: &mut u32, lap: &mut Lap) -> Result<(), Trouble> {
        match self.enter(0, want, IoringEnterFlags::GETEVENTS, lap) {
            Err(Trouble::Refused { errno: libc::EINTR }) if *waits < INTERRUPTIONS_MAX => {
                *waits += 1;
                Ok(())
            }
            other => other.map(drop),
        }
    }

    #[inline]
    fn enter(&self, to_submit: u32, min_complete: u32, flags: IoringEnterFlags, lap: &mut Lap) -> Result<u32, Trouble> {
        lap.enters += 1;
        // SAFETY: the descriptor, or its index in the thread that created the ring, belongs to this ring, and its
        // entries are NOPs, which reference no memory.
        let taken = unsafe {
            let fd = BorrowedFd::borrow_raw(self.enter_fd);
            io_uring_enter(fd, to_submit, min_complete, flags | self.enter_flags)
        };
        taken.map_err(|error| Trouble::Refused { errno: error.raw_os_error() })
    }

    #[inline]
    fn has_flag(&self, flag: IoringSqFlags) -> bool {
        word(&self.sq_flags).load(Ordering::Relaxed) & flag.bits() != 0
    }
}

/// A word of the queues, which the kernel writes too.
#[inline]
fn word(place: &NonNull<AtomicU32>) -> &AtomicU32 {
    // SAFETY: it points into a mapping that lives as long as the ring that holds it; both sides access it as whole
    // words.
    unsafe { place.as_ref() }
}

impl<L: NopLedger> NopRing for Raw<L> {
    fn run(&mut self, rounds: u64, takes: bool) -> Result<Lap, Trouble> {
        let mut lap = Lap::default();
        for _ in 0..rounds {
            self.fill();
            self.submit(&mut lap)?;
            if takes {
                self.take(&mut lap)?;
            } else {
                self.wait_until_consumed(&mut lap)?;
            }
        }
        lap.checked = if L::CHECKS { lap.completed } else { 0 };
        Ok(lap)
    }

    fn overflowed(&self) -> bool {
        self.has_flag(IoringSqFlags::CQ_OVERFLOW)
    }

    fn take_rest(&mut self, most: u64) -> Result<u64, Trouble> {
        let mut taken = 0;
        let mut lap = Lap::default();
        while taken < most {
            let ready = word(&self.cq_tail).load(Ordering::Acquire).wrapping_sub(self.head);
            self.head = self.head.wrapping_add(ready);
            word(&self.cq_head).store(self.head, Ordering::Release);
            taken += u64::from(ready);
            if ready == 0 {
                // Requesting completions moves overflowed ones to the queue.
                self.enter(0, 1, IoringEnterFlags::GETEVENTS, &mut lap)?;
            }
        }
        Ok(taken)
    }

    fn plant_fault(&mut self) {
        self.ledger.plant_fault();
    }

    fn completion_entries(&self) -> u32 {
        self.cq_mask + 1
    }
}

/// The whole entry of a NOP.
#[inline]
fn nop(user_data: u64) -> io_uring_sqe {
    io_uring_sqe {
        opcode: IoringOp::Nop,
        user_data: io_uring_user_data::from_u64(user_data),
        ..io_uring_sqe::default()
    }
}

/// Registers a ring's descriptor for the calling thread (Linux 5.18) and returns its index.
fn register_ring_fd(fd: BorrowedFd<'_>) -> io::Result<i32> {
    let mut update = io_uring_rsrc_update::default();
    update.offset = u32::MAX;
    update.data = io_uring_ptr::new(std::ptr::without_provenance_mut(fd.as_raw_fd() as usize));
    // SAFETY: the kernel reads and writes one `io_uring_rsrc_update` during the call.
    unsafe { io_uring_register(fd, IoringRegisterOp::RegisterRingFds, (&raw mut update).cast(), 1) }?;
    Ok(update.offset as i32)
}
