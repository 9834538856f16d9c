//! io_uring's NOPs: rings that submit and complete operations without work, as fast as possible.
//!
//! Four implementations of one loop: the raw ring ([`Implementation::Raw`]), the `io-uring` crate, liburing in C, and
//! liburing as a published benchmark used it, which never takes a completion. Each round submits a batch and takes all
//! its completions. A lap has any number of rounds, so that reading the clock between laps takes no time inside them. A
//! completion counts when it is taken. Overflow of the queue is read from the kernel's flag (`IORING_SQ_CQ_OVERFLOW`):
//! the kernel's counter contains only dropped completions, and none is dropped.
//!
//! A ring stays in the thread that created it, as `IORING_SETUP_SINGLE_ISSUER` requires.

mod io_uring_crate;
mod ledger;
#[cfg(liburing)]
mod liburing;
mod raw;
#[cfg(test)]
mod tests;

use std::io;

use io_uring_crate::Library;
use ledger::{Boxed, NopLedger, Plain, Unique};
use raw::Raw;
use rustix::io_uring::IoringSetupFlags;
use thiserror::Error;

use crate::uring::Missing;

/// The implementation of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// Mapped queues and system calls, without a library.
    Raw,
    /// The `io-uring` crate.
    Library,
    /// liburing, in C.
    Liburing,
    /// liburing, in C, as a published benchmark used it: completions are never taken.
    LiburingUndrained,
}

/// The user data of each NOP, by the numbers of c/nops.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserData {
    /// Nothing.
    None = 0,
    /// A unique number.
    Unique,
    /// The address of a heap object, allocated at submission and freed at completion.
    Boxed,
}

/// Settings of the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NopSetup {
    /// The number of submission entries, a power of two; completion entries are twice as many.
    pub entries: u32,
    /// One thread submits, and completion work runs in its calls (`IORING_SETUP_SINGLE_ISSUER`, `_DEFER_TASKRUN`).
    pub single_issuer: bool,
    /// No interrupt for completion work (`IORING_SETUP_COOP_TASKRUN`).
    pub coop: bool,
    /// A kernel thread submits (`IORING_SETUP_SQPOLL`).
    pub sqpoll: bool,
    /// No array of indices (`IORING_SETUP_NO_SQARRAY`).
    pub no_sqarray: bool,
    /// The ring's descriptor is registered (`IORING_REGISTER_RING_FDS`).
    pub registered: bool,
}

impl NopSetup {
    fn kernel_flags(&self) -> IoringSetupFlags {
        self.parts().map(|(.., flags, _)| *flags).collect()
    }

    /// The parts that are asked for.
    fn parts(&self) -> impl Iterator<Item = &'static SetupPart> {
        PARTS.iter().filter(|(asked, ..)| asked(self))
    }
}

/// One part of a set-up: whether it is asked for, its name, its flags, and the kernel release that added it
/// (io_uring_setup(2), io_uring_register(2)).
type SetupPart = (fn(&NopSetup) -> bool, &'static str, IoringSetupFlags, &'static str);

const SINGLE_ISSUER: IoringSetupFlags = IoringSetupFlags::SINGLE_ISSUER.union(IoringSetupFlags::DEFER_TASKRUN);

const PARTS: &[SetupPart] = &[
    (|setup| setup.single_issuer, "single-issuer", SINGLE_ISSUER, "6.1"),
    (|setup| setup.coop, "coop", IoringSetupFlags::COOP_TASKRUN, "5.19"),
    (|setup| setup.sqpoll, "sqpoll", IoringSetupFlags::SQPOLL, "5.13, without single-issuer and coop"),
    (|setup| setup.no_sqarray, "no-sqarray", IoringSetupFlags::NO_SQARRAY, "6.6"),
    (|setup| setup.registered, "registered", IoringSetupFlags::empty(), "5.18"),
];

/// Settings of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NopTerms {
    /// NOPs per submission, at most the number of entries.
    pub batch: u32,
    /// The user data of each.
    pub user_data: UserData,
    /// The whole entry is written, and every result and user data is compared.
    pub checked: bool,
}

/// The result of some rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lap {
    /// NOPs handed to the kernel.
    pub submitted: u64,
    /// Completions taken.
    pub completed: u64,
    /// Completions whose result and user data were compared.
    pub checked: u64,
    /// Calls of io_uring_enter(2), or of functions that may call it.
    pub enters: u64,
}

/// Why rounds failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Trouble {
    /// A completion that does not match a submission.
    #[error("a completion has user data {user_data:#x} and result {result}, which does not match a submission")]
    Wrong {
        /// Its user data.
        user_data: u64,
        /// Its result.
        result: i32,
    },
    /// More completions than submissions.
    #[error("{came} completions arrived where {asked} were due")]
    Invented {
        /// The number that was due.
        asked: u32,
        /// The number that arrived.
        came: u32,
    },
    /// The kernel refused a call.
    #[error("io_uring_enter: {}", io::Error::from_raw_os_error(*errno))]
    Refused {
        /// Its error number.
        errno: i32,
    },
}

/// A ring that runs rounds of NOPs.
pub trait NopRing {
    /// Runs `rounds` rounds: each submits a batch and, if `takes`, takes all its completions. Without, and in the published
    /// loop, the queue overflows after a few rounds.
    ///
    /// # Errors
    ///
    /// A completion that does not match its submission, or the kernel's error.
    fn run(&mut self, rounds: u64, takes: bool) -> Result<Lap, Trouble>;

    /// Whether completions wait in the kernel because the queue has no room for them.
    fn overflowed(&self) -> bool;

    /// Takes remaining completions, at most `most`, and returns their number. Pass the number that is due: it waits for
    /// all of them.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    fn take_rest(&mut self, most: u64) -> Result<u64, Trouble>;

    /// Plants a fault: from now on the expected user data differs from the submitted one.
    fn plant_fault(&mut self);

    /// The number of completion entries.
    fn completion_entries(&self) -> u32;
}

/// Creates a ring in the calling thread, which alone may use it.
///
/// # Errors
///
/// The missing requirement of this machine or this build.
///
/// # Panics
///
/// If the batch is empty or exceeds the entries.
pub fn open(
    implementation: Implementation,
    setup: &NopSetup,
    terms: &NopTerms,
) -> Result<Box<dyn NopRing>, MissingRing> {
    assert!(terms.batch >= 1 && terms.batch <= setup.entries, "the batch must fit the ring");
    let batch = terms.batch;
    match (implementation, terms.user_data, terms.checked) {
        (Implementation::Liburing, ..) => liburing(setup, terms, false),
        (Implementation::LiburingUndrained, ..) => liburing(setup, terms, true),
        (_, UserData::None, false) => ring(implementation, setup, batch, Plain::<false>::default()),
        (_, UserData::None, true) => ring(implementation, setup, batch, Plain::<true>::default()),
        (_, UserData::Unique, false) => ring(implementation, setup, batch, Unique::<false>::new(batch)),
        (_, UserData::Unique, true) => ring(implementation, setup, batch, Unique::<true>::new(batch)),
        (_, UserData::Boxed, false) => ring(implementation, setup, batch, Boxed::<false>::new(batch)),
        (_, UserData::Boxed, true) => ring(implementation, setup, batch, Boxed::<true>::new(batch)),
    }
    .map_err(|lacking| lacking.of(setup))
}

fn ring<L: NopLedger + 'static>(
    implementation: Implementation,
    setup: &NopSetup,
    batch: u32,
    ledger: L,
) -> Result<Box<dyn NopRing>, MissingRing> {
    match implementation {
        Implementation::Library => Ok(Box::new(Library::open(setup, batch, ledger)?)),
        _ => Ok(Box::new(Raw::open(setup, batch, ledger)?)),
    }
}

#[cfg(liburing)]
fn liburing(setup: &NopSetup, terms: &NopTerms, undrained: bool) -> Result<Box<dyn NopRing>, MissingRing> {
    Ok(Box::new(liburing::Liburing::open(setup, terms.batch, terms.user_data, terms.checked, undrained)?))
}

#[cfg(not(liburing))]
fn liburing(_: &NopSetup, _: &NopTerms, _: bool) -> Result<Box<dyn NopRing>, MissingRing> {
    Err(MissingRing::Liburing)
}

/// The version of liburing with which this was built.
pub fn liburing_version() -> Option<&'static str> {
    option_env!("BYTEGAUGE_LIBURING_VERSION")
}

/// An SQPOLL thread that finds no submission sleeps after this number of milliseconds.
const POLL_IDLE_MS: u32 = 2;

/// How often the completion queue is polled before waiting in the kernel, with SQPOLL: about 50 µs. This is shorter
/// than a wait if the thread has a CPU, and longer than the thread needs for a round.
const SPINS_MAX: u32 = 2_000;

/// Interrupted waits after which a round gives up: a watchdog uses signals to request the end.
const INTERRUPTIONS_MAX: u32 = 16;

/// The operation in error messages about registering a descriptor.
const REGISTERING: &str = "registering a ring's descriptor";

// Reasons why a ring of NOPs is not available, each with the next step. Callers skip the measurement.

/// A missing requirement of this machine or this build.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MissingRing {
    /// The program was built without liburing.
    #[error(
        "this program was built without liburing: install its headers (Debian: apt-get install liburing-dev \
         pkg-config) and build it again, or leave out --implementation liburing"
    )]
    Liburing,
    /// The library is too old for a set-up.
    #[error(
        "liburing {} does not support IORING_SETUP_NO_SQARRAY and would write to invalid memory: build with liburing 2.5 or \
         newer, or leave out --setup no-sqarray with it",
        liburing_version().unwrap_or("here")
    )]
    LiburingWithoutNoSqarray,
    /// The kernel does not support a set-up, or not in this combination.
    #[error("the kernel refuses the set-up {setup} ({needs}): use a newer kernel, or leave it out of --setup")]
    SetupRefused {
        /// The parts of the set-up.
        setup: String,
        /// The requirement of each part.
        needs: String,
    },
    /// io_uring is not available.
    #[error(transparent)]
    Uring(#[from] Missing),
}

impl MissingRing {
    /// The kernel returns `EINVAL` for unknown flags; the set-up is the reason then.
    pub(super) fn of(self, setup: &NopSetup) -> MissingRing {
        let asked = || setup.parts().map(|(_, name, _, since)| (*name, format!("{name} needs Linux {since}")));
        match self {
            MissingRing::Uring(Missing::Refused { errno: libc::EINVAL, .. }) if asked().next().is_some() => {
                let (names, needs): (Vec<_>, Vec<_>) = asked().unzip();
                MissingRing::SetupRefused { setup: names.join("+"), needs: needs.join(", ") }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod missing_tests {
    use super::*;

    fn check(missing: Missing, setup: &NopSetup, expected: &str) {
        let message = MissingRing::from(missing).of(setup).to_string();
        assert!(message.contains(expected) && !message.contains("--engine"), "{message}");
    }

    #[test]
    fn every_refusal_has_its_own_next_step() {
        let plain = NopSetup { entries: 8, ..NopSetup::default() };
        let invalid = || Missing::Refused { doing: "making an io_uring", errno: libc::EINVAL };
        check(Missing::SwitchedOff(2), &plain, "run `sysctl kernel.io_uring_disabled=0` as root");
        check(Missing::Filtered, &plain, "a container or sandbox filters it");
        check(Missing::NoDescriptor, &plain, "ulimit -n");
        check(invalid(), &plain, "making an io_uring: Invalid argument");
        let young = NopSetup { no_sqarray: true, single_issuer: true, ..plain };
        check(
            invalid(),
            &young,
            "the set-up single-issuer+no-sqarray (single-issuer needs Linux 6.1, no-sqarray needs",
        );
        let message = MissingRing::Liburing.to_string();
        assert!(message.contains("apt-get install liburing-dev"), "{message}");
    }
}
