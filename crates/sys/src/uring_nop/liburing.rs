//! liburing's ring, driven by C (c/nops.c); present if the library was installed at build time.

use std::ptr::NonNull;

use super::{INTERRUPTIONS_MAX, Lap, MissingRing, NopRing, NopSetup, SPINS_MAX, Trouble, UserData};
use crate::uring::Missing;

/// `struct nops`, which only C accesses.
#[repr(C)]
struct Nops {
    _opaque: [u8; 0],
}

/// `struct lap`.
#[repr(C)]
#[derive(Default)]
struct RawLap {
    submitted: u64,
    completed: u64,
    enters: u64,
    wrong_user_data: u64,
    wrong_result: i32,
    error: i32,
    asked: u32,
    came: u32,
}

/// Return values of the loops.
const OK: i32 = 0;
const WRONG: i32 = 2;
const INVENTED: i32 = 3;

unsafe extern "C" {
    fn bytegauge_nops_know_no_sqarray() -> i32;
    fn bytegauge_nops_open(
        entries: u32,
        flags: u32,
        idle_ms: u32,
        registered: i32,
        batch: u32,
        user_data: i32,
        checked: i32,
        error: *mut i32,
    ) -> *mut Nops;
    fn bytegauge_nops_close(nops: *mut Nops);
    fn bytegauge_nops_run(
        nops: *mut Nops,
        rounds: u64,
        spins_max: u32,
        interruptions_max: u32,
        lap: *mut RawLap,
    ) -> i32;
    fn bytegauge_nops_only_submit(nops: *mut Nops, rounds: u64, lap: *mut RawLap) -> i32;
    fn bytegauge_nops_overflowed(nops: *mut Nops) -> i32;
    fn bytegauge_nops_take_rest(nops: *mut Nops, most: u64, error: *mut i32) -> u64;
    fn bytegauge_nops_misremember(nops: *mut Nops);
    fn bytegauge_nops_completion_entries(nops: *mut Nops) -> u32;
}

/// A ring of liburing. Closed when dropped.
pub(super) struct Liburing {
    nops: NonNull<Nops>,
    checked: bool,
    /// Whether completions are never taken, as in the published loop.
    undrained: bool,
}

impl Liburing {
    pub(super) fn open(
        setup: &NopSetup,
        batch: u32,
        user_data: UserData,
        checked: bool,
        undrained: bool,
    ) -> Result<Liburing, MissingRing> {
        // SAFETY: reads a constant.
        if setup.no_sqarray && unsafe { bytegauge_nops_know_no_sqarray() } == 0 {
            // The old library would write indices to an array that does not exist.
            return Err(MissingRing::LiburingWithoutNoSqarray);
        }
        let idle_ms = if setup.sqpoll { super::POLL_IDLE_MS } else { 0 };
        let (flags, registered) = (setup.kernel_flags().bits(), i32::from(setup.registered));
        let mut error = 0;
        // SAFETY: plain values, and a place for the error that outlives the call.
        let nops = unsafe {
            let checked = i32::from(checked);
            bytegauge_nops_open(
                setup.entries,
                flags,
                idle_ms,
                registered,
                batch,
                user_data as i32,
                checked,
                &raw mut error,
            )
        };
        let refused = || Missing::of("making an io_uring", &std::io::Error::from_raw_os_error(error));
        let nops = NonNull::new(nops).ok_or_else(refused)?;
        Ok(Liburing { nops, checked, undrained })
    }
}

impl NopRing for Liburing {
    fn run(&mut self, rounds: u64, takes: bool) -> Result<Lap, Trouble> {
        let (nops, mut lap) = (self.nops.as_ptr(), RawLap::default());
        // SAFETY: the ring was opened and is not closed yet; `lap` outlives the call.
        let status = unsafe {
            if takes && !self.undrained {
                bytegauge_nops_run(nops, rounds, SPINS_MAX, INTERRUPTIONS_MAX, &raw mut lap)
            } else {
                bytegauge_nops_only_submit(nops, rounds, &raw mut lap)
            }
        };
        let RawLap { submitted, completed, enters, .. } = lap;
        let checked = if self.checked { completed } else { 0 };
        match status {
            OK => Ok(Lap { submitted, completed, checked, enters }),
            WRONG => Err(Trouble::Wrong { user_data: lap.wrong_user_data, result: lap.wrong_result }),
            INVENTED => Err(Trouble::Invented { asked: lap.asked, came: lap.came }),
            _ => Err(Trouble::Refused { errno: lap.error }),
        }
    }

    fn overflowed(&self) -> bool {
        // SAFETY: as in `run`.
        unsafe { bytegauge_nops_overflowed(self.nops.as_ptr()) != 0 }
    }

    fn take_rest(&mut self, most: u64) -> Result<u64, Trouble> {
        let mut error = 0;
        // SAFETY: as in `run`.
        let taken = unsafe { bytegauge_nops_take_rest(self.nops.as_ptr(), most, &raw mut error) };
        if error == 0 { Ok(taken) } else { Err(Trouble::Refused { errno: error }) }
    }

    fn plant_fault(&mut self) {
        // SAFETY: as in `run`.
        unsafe { bytegauge_nops_misremember(self.nops.as_ptr()) };
    }

    fn completion_entries(&self) -> u32 {
        // SAFETY: as in `run`.
        unsafe { bytegauge_nops_completion_entries(self.nops.as_ptr()) }
    }
}

impl Drop for Liburing {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once, here.
        unsafe { bytegauge_nops_close(self.nops.as_ptr()) };
    }
}
