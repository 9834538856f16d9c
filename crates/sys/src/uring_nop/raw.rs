//! The raw ring: mapped queues and io_uring_enter(2), without a library.
//!
//! The tightest possible loop: entries are written in place, the tail is stored once per round, the kernel is entered
//! once, and the head is stored once. Unneeded work of a mode (user data, reading completions) is not compiled into its
//! loop.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use linux_raw_sys::io_uring::{
    IORING_ENTER_GETEVENTS, IORING_ENTER_REGISTERED_RING, IORING_ENTER_SQ_WAIT, IORING_ENTER_SQ_WAKEUP,
    IORING_FEAT_NODROP, IORING_FEAT_SINGLE_MMAP, IORING_OFF_SQ_RING, IORING_OFF_SQES, IORING_SQ_CQ_OVERFLOW,
    IORING_SQ_NEED_WAKEUP, io_uring_cqe, io_uring_op, io_uring_params, io_uring_register_op, io_uring_rsrc_update,
    io_uring_sqe,
};

use super::ledger::NopLedger;
use super::{INTERRUPTIONS_MAX, Lap, NopRing, NopSetup, SPINS_MAX, Shape, Trouble};
use crate::buffer::Mapping;
use crate::errno;
use crate::uring::Missing;

/// A ring with a ledger.
pub(super) struct Raw<L> {
    ledger: L,
    batch: u32,
    polled: bool,
    shape: Shape,
    /// The descriptor for io_uring_enter(2), or its registered index with the corresponding flag.
    enter_fd: i32,
    enter_flags: u32,
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
        let idle_ms = if setup.sqpoll { super::POLL_IDLE_MS } else { 0 };
        let mut params = parameters(setup.kernel_flags(), idle_ms);
        let fd = open_ring(setup.entries, &mut params).map_err(missing)?;
        if params.features & IORING_FEAT_SINGLE_MMAP == 0 || params.features & IORING_FEAT_NODROP == 0 {
            return Err(Missing::NotBuilt);
        }
        let (sq, cq) = (params.sq_off, params.cq_off);
        let array_bytes = if setup.no_sqarray { 0 } else { sq.array as usize + params.sq_entries as usize * 4 };
        let queues_bytes = array_bytes.max(cq.cqes as usize + params.cq_entries as usize * size_of::<io_uring_cqe>());
        // Both queues are in one mapping (Linux 5.4), and its pages are populated.
        let map = |len_bytes, offset: u32| {
            let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
            Mapping::new(len_bytes, access, flags, Some((fd.as_fd(), offset))).map_err(missing)
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
        let (mut enter_fd, mut enter_flags) = (fd.as_raw_fd(), 0);
        if setup.registered {
            enter_fd = register_ring_fd(fd.as_fd()).map_err(|error| Missing::of(super::REGISTERING, &error))?;
            enter_flags = IORING_ENTER_REGISTERED_RING;
        }
        Ok(Raw {
            ledger,
            batch,
            polled: setup.sqpoll,
            shape: Shape { submissions: params.sq_entries, completions: params.cq_entries },
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
            // reported them consumed (`only_submit`).
            unsafe {
                let entry = self.sqes.add(at).as_ptr();
                if L::CHECKS {
                    entry.write(nop(user_data));
                } else {
                    (&raw mut (*entry).opcode).write(OP_NOP);
                    if L::SETS {
                        (&raw mut (*entry).user_data).write(user_data);
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
            left -= self.enter(left, 0, 0, lap)?.min(left);
        }
        Ok(())
    }

    /// Wakes the kernel's thread if it sleeps.
    fn wake(&self, lap: &mut Lap) -> Result<(), Trouble> {
        // The kernel sets the flag and then reads the tail; this code stores the tail and then reads the flag. A full
        // barrier on both sides ensures that one of them sees the other's write (io_uring_setup(2),
        // IORING_SETUP_SQPOLL).
        fence(Ordering::SeqCst);
        if word(&self.sq_flags).load(Ordering::Relaxed) & IORING_SQ_NEED_WAKEUP != 0 {
            self.enter(self.batch, 0, IORING_ENTER_SQ_WAKEUP, lap)?;
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

    #[inline]
    fn settle(&mut self, ready: u32) -> Result<(), Trouble> {
        for offset in 0..ready {
            let at = (self.head.wrapping_add(offset) & self.cq_mask) as usize;
            // SAFETY: the index is masked to the completions of the mapping, and the kernel's tail, loaded with
            // acquire, is past it: the kernel does not write it again until the head has moved.
            let (user_data, result) = unsafe {
                let entry = self.cqes.add(at).as_ptr();
                ((&raw const (*entry).user_data).read(), (&raw const (*entry).res).read())
            };
            self.ledger.settle(user_data, result)?;
        }
        Ok(())
    }

    #[cold]
    fn wait(&self, want: u32, waits: &mut u32, lap: &mut Lap) -> Result<(), Trouble> {
        match self.enter(0, want, IORING_ENTER_GETEVENTS, lap) {
            Err(Trouble::Refused { errno: libc::EINTR }) if *waits < INTERRUPTIONS_MAX => {
                *waits += 1;
                Ok(())
            }
            other => other.map(drop),
        }
    }

    #[inline]
    fn enter(&self, to_submit: u32, min_complete: u32, flags: u32, lap: &mut Lap) -> Result<u32, Trouble> {
        lap.enters += 1;
        // SAFETY: the descriptor, or its index in the thread that created the ring, belongs to this ring, and its
        // entries are NOPs, which reference no memory.
        let taken = unsafe { enter(self.enter_fd, to_submit, min_complete, flags | self.enter_flags) };
        u32::try_from(taken).map_err(|_| Trouble::Refused { errno: -taken })
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
    fn run(&mut self, rounds: u64) -> Result<Lap, Trouble> {
        let mut lap = Lap::default();
        for _ in 0..rounds {
            self.fill();
            self.submit(&mut lap)?;
            self.take(&mut lap)?;
        }
        lap.checked = if L::CHECKS { lap.completed } else { 0 };
        Ok(lap)
    }

    fn only_submit(&mut self, rounds: u64) -> Result<Lap, Trouble> {
        let mut lap = Lap::default();
        for _ in 0..rounds {
            self.fill();
            self.submit(&mut lap)?;
            let mut waits = 0;
            while self.polled && word(&self.sq_head).load(Ordering::Acquire) != self.tail {
                self.wake(&mut lap)?;
                self.enter(0, 0, IORING_ENTER_SQ_WAIT, &mut lap)?;
                waits += 1;
                if waits > SPINS_MAX {
                    return Err(Trouble::Refused { errno: libc::EAGAIN });
                }
            }
        }
        Ok(lap)
    }

    fn overflowed(&self) -> bool {
        word(&self.sq_flags).load(Ordering::Relaxed) & IORING_SQ_CQ_OVERFLOW != 0
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
                self.enter(0, 1, IORING_ENTER_GETEVENTS, &mut lap)?;
            }
        }
        Ok(taken)
    }

    fn plant_fault(&mut self) {
        self.ledger.plant_fault();
    }

    fn shape(&self) -> Shape {
        self.shape
    }
}

// The system calls of a ring, with the kernel's own structures (io_uring_setup(2), io_uring_enter(2), io_uring_register(2)).
//
// The raw ring does not depend on a library with which it is compared: only the declarations of the kernel's headers come from
// elsewhere.

pub(super) const OP_NOP: u8 = io_uring_op::IORING_OP_NOP as u8;

/// Parameters of a ring.
pub(super) fn parameters(flags: u32, sq_thread_idle_ms: u32) -> io_uring_params {
    // SAFETY: integers alone, of which zero is a value.
    let empty = unsafe { std::mem::zeroed() };
    io_uring_params { flags, sq_thread_idle: sq_thread_idle_ms, ..empty }
}

/// The whole entry of a NOP.
#[inline]
pub(super) fn nop(user_data: u64) -> io_uring_sqe {
    // SAFETY: integers and unions of integers, of which zero is a value.
    let empty = unsafe { std::mem::zeroed() };
    io_uring_sqe { opcode: OP_NOP, user_data, ..empty }
}

/// io_uring_setup(2).
pub(super) fn open_ring(entries: u32, params: &mut io_uring_params) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads and writes one `io_uring_params` during the call, and makes a descriptor.
    unsafe {
        let made = libc::syscall(libc::SYS_io_uring_setup, entries, std::ptr::from_mut(params));
        errno::descriptor(made as libc::c_int)
    }
}

/// Registers a ring's descriptor for the calling thread (Linux 5.18) and returns its index.
pub(super) fn register_ring_fd(fd: BorrowedFd<'_>) -> io::Result<i32> {
    let mut update = io_uring_rsrc_update { offset: u32::MAX, resv: 0, data: fd.as_raw_fd() as u64 };
    let (fd, update_at) = (fd.as_raw_fd(), std::ptr::from_mut(&mut update));
    let operation = io_uring_register_op::IORING_REGISTER_RING_FDS as u32;
    // SAFETY: the kernel reads and writes one `io_uring_rsrc_update` during the call.
    let done = unsafe { libc::syscall(libc::SYS_io_uring_register, fd, operation, update_at, 1) };
    errno::of(done as libc::c_int).map(|_| update.offset as i32)
}

/// io_uring_enter(2) without a signal mask: returns the number of submissions taken, or a negative error number.
///
/// Uses the instruction directly where possible: with one NOP per call, a variadic function and `errno` would be
/// measurable.
///
/// # Safety
///
/// `fd` must belong to a ring, or be the index of a registered one, whose queued entries reference no memory.
#[inline]
pub(super) unsafe fn enter(fd: i32, to_submit: u32, min_complete: u32, flags: u32) -> i32 {
    #[cfg(target_arch = "x86_64")]
    {
        let result: i64;
        // SAFETY: a system call with six arguments in its registers. The kernel preserves all others except rcx and r11
        // (syscall(2)), and touches only the ring's memory, which the compiler does not assume unchanged (no `nomem`).
        unsafe {
            std::arch::asm!(
                "syscall",
                inlateout("rax") libc::SYS_io_uring_enter => result,
                in("rdi") i64::from(fd),
                in("rsi") u64::from(to_submit),
                in("rdx") u64::from(min_complete),
                in("r10") u64::from(flags),
                in("r8") 0_u64,
                in("r9") 0_u64,
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack),
            );
        }
        result as i32
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let none = std::ptr::null::<libc::sigset_t>();
        // SAFETY: the call passes no pointer that the kernel would follow.
        let result =
            unsafe { libc::syscall(libc::SYS_io_uring_enter, fd, to_submit, min_complete, flags, none, 0_usize) };
        if result < 0 { -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) } else { result as i32 }
    }
}
