//! The `io-uring` crate's ring, used as in its documentation, without additional work.

use io_uring::{EnterFlags, IoUring, Submitter, opcode, squeue};

use super::ledger::NopLedger;
use super::{INTERRUPTIONS_MAX, Lap, NopRing, NopSetup, SPINS_MAX, Trouble};
use crate::uring::Missing;

/// A ring with a ledger.
pub(super) struct Library<L> {
    io: IoUring,
    ledger: L,
    batch: u32,
    polled: bool,
    registered: bool,
}

impl<L: NopLedger> Library<L> {
    pub(super) fn open(setup: &NopSetup, batch: u32, ledger: L) -> Result<Library<L>, Missing> {
        let mut builder = IoUring::builder();
        if setup.single_issuer {
            builder.setup_single_issuer().setup_defer_taskrun();
        }
        if setup.coop {
            builder.setup_coop_taskrun();
        }
        if setup.sqpoll {
            builder.setup_sqpoll(super::POLL_IDLE_MS);
        }
        if setup.no_sqarray {
            builder.setup_no_sqarray();
        }
        let io = builder.build(setup.entries).map_err(|error| Missing::of("making an io_uring", &error))?;
        if setup.registered {
            let registered = register(&mut io.submitter(), true);
            registered.map_err(|error| Missing::of(super::REGISTERING, &error))?;
        }
        Ok(Library { io, ledger, batch, polled: setup.sqpoll, registered: setup.registered })
    }
}

/// Registers the descriptor, and unregisters it after a mere test.
fn register(submitter: &mut Submitter<'_>, only_tried: bool) -> std::io::Result<()> {
    submitter.register_ring_fd()?;
    if only_tried { submitter.unregister_ring_fd() } else { Ok(()) }
}

#[inline]
fn push(
    entries: &mut squeue::SubmissionQueue<'_>,
    entry: &squeue::Entry,
    submitter: &Submitter<'_>,
    polled: bool,
    lap: &mut Lap,
) -> Result<(), Trouble> {
    // SAFETY: a NOP references no memory.
    while unsafe { entries.push(entry) }.is_err() {
        if !polled {
            // The kernel takes all submissions before it returns.
            return Err(Trouble::Refused { errno: libc::ENOSPC });
        }
        lap.enters += 1;
        submitter.squeue_wait().map_err(refused)?;
        entries.sync();
    }
    Ok(())
}

#[cold]
fn wait(submitter: &Submitter<'_>, want: u32, waits: u32, lap: &mut Lap) -> Result<(), Trouble> {
    lap.enters += 1;
    // SAFETY: no argument is passed, so the kernel reads only the queues.
    let waited = unsafe { submitter.enter::<libc::sigset_t>(0, want, EnterFlags::GETEVENTS.bits(), None) };
    match waited {
        Err(error) if error.raw_os_error() == Some(libc::EINTR) && waits < INTERRUPTIONS_MAX => Ok(()),
        other => other.map(drop).map_err(refused),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a mapper of errors takes them")]
fn refused(error: std::io::Error) -> Trouble {
    Trouble::Refused { errno: error.raw_os_error().unwrap_or(libc::EIO) }
}

impl<L: NopLedger> NopRing for Library<L> {
    // With the ring split into its parts, the fastest use of the crate. Only the submitting part uses a registered
    // descriptor, so it is registered for each lap.
    fn run(&mut self, rounds: u64, takes: bool) -> Result<Lap, Trouble> {
        let Library { io, ledger, batch, polled, registered } = self;
        let (mut submitter, mut entries, mut completions) = io.split();
        if *registered {
            register(&mut submitter, false).map_err(refused)?;
        }
        let mut lap = Lap::default();
        for _ in 0..rounds {
            ledger.begin();
            for slot in 0..*batch {
                let user_data = ledger.next(slot);
                let entry = opcode::Nop::new().build();
                let entry = if L::SETS { entry.user_data(user_data) } else { entry };
                push(&mut entries, &entry, &submitter, *polled, &mut lap)?;
            }
            entries.sync();
            lap.submitted += u64::from(*batch);
            let mut left = *batch;
            if !*polled {
                while left > 0 {
                    lap.enters += 1;
                    left -= (submitter.submit().map_err(refused)? as u32).min(left);
                }
                left = *batch;
                entries.sync();
            } else if entries.need_wakeup() {
                lap.enters += 1;
                submitter.submit().map_err(refused)?;
            }
            let (mut spins, mut waits) = (0, 0);
            while takes && left > 0 {
                completions.sync();
                let ready = completions.len() as u32;
                if ready > left {
                    return Err(Trouble::Invented { asked: left, came: ready });
                }
                for completion in completions.by_ref() {
                    if L::READS {
                        ledger.settle(completion.user_data(), completion.result())?;
                    }
                }
                // Stores the head of the completion queue.
                completions.sync();
                lap.completed += u64::from(ready);
                left -= ready;
                if left > 0 && *polled && spins < SPINS_MAX {
                    spins += 1;
                    std::hint::spin_loop();
                } else if left > 0 && completions.is_empty() {
                    waits += 1;
                    wait(&submitter, left, waits, &mut lap)?;
                }
            }
        }
        if *registered {
            submitter.unregister_ring_fd().map_err(refused)?;
        }
        lap.checked = if L::CHECKS { lap.completed } else { 0 };
        Ok(lap)
    }

    fn overflowed(&self) -> bool {
        // SAFETY: the queue is read and not changed; the ring is borrowed from its only owner, so no other code uses
        // it.
        unsafe { self.io.submission_shared() }.cq_overflow()
    }

    fn take_rest(&mut self, most: u64) -> Result<u64, Trouble> {
        let (submitter, _, mut completions) = self.io.split();
        let (mut taken, mut lap) = (0, Lap::default());
        while taken < most {
            completions.sync();
            let ready = completions.by_ref().count() as u64;
            completions.sync();
            taken += ready;
            if ready == 0 {
                wait(&submitter, 1, 0, &mut lap)?;
            }
        }
        Ok(taken)
    }

    fn plant_fault(&mut self) {
        self.ledger.plant_fault();
    }

    fn completion_entries(&self) -> u32 {
        self.io.params().cq_entries()
    }
}
