//! io_uring's NOPs: rings that submit and take operations which do nothing, as fast as it goes.
//!
//! Four implementations of one loop: our own ring ([`Implementation::Raw`]), the `io-uring` crate, liburing in C,
//! and liburing as a published benchmark used it, which never takes a completion. Each round submits a batch and
//! takes all its completions; a lap is as many rounds as its caller likes, so that whoever reads the clock between
//! laps costs nothing. A completion counts when it is taken. What is said of a queue that overflowed comes from the
//! kernel's flag (`IORING_SQ_CQ_OVERFLOW`): its counter holds dropped completions alone, and none is dropped.
//!
//! A ring stays in the thread that made it: that is what `IORING_SETUP_SINGLE_ISSUER` promises the kernel.

mod abi;
mod lacking;
mod ledger;
mod library;
#[cfg(liburing)]
mod liburing;
mod mapping;
mod raw;

#[cfg(test)]
mod tests;

pub use lacking::Lacking;

use std::io;

use thiserror::Error;

use ledger::{Bare, Boxed, Ledger, Unique, Wrong, Zero};
use library::Library;
use raw::Raw;

/// Who drives the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// Our own: mapped queues and system calls.
    Raw,
    /// The `io-uring` crate.
    Library,
    /// liburing, in C.
    Liburing,
    /// liburing, in C, as a published benchmark used it: completions are never taken.
    LiburingUndrained,
}

/// What goes out with each NOP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserData {
    /// Nothing.
    None,
    /// A number of its own.
    Unique,
    /// The address of an object on the heap, made when it is submitted and freed when it completes.
    Boxed,
}

/// How the ring is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Submissions that fit at once, a power of two; completions are twice as many.
    pub entries: u32,
    /// One thread submits, and work is done in its calls (`IORING_SETUP_SINGLE_ISSUER`, `_DEFER_TASKRUN`).
    pub single_issuer: bool,
    /// No interrupt for completion work (`IORING_SETUP_COOP_TASKRUN`).
    pub coop: bool,
    /// A thread of the kernel submits (`IORING_SETUP_SQPOLL`).
    pub sqpoll: bool,
    /// No array of indices (`IORING_SETUP_NO_SQARRAY`).
    pub no_sqarray: bool,
    /// The ring's descriptor is registered (`IORING_REGISTER_RING_FDS`).
    pub registered: bool,
}

impl Setup {
    fn kernel_flags(&self) -> u32 {
        [
            (self.single_issuer, abi::SETUP_SINGLE_ISSUER | abi::SETUP_DEFER_TASKRUN),
            (self.coop, abi::SETUP_COOP_TASKRUN),
            (self.sqpoll, abi::SETUP_SQPOLL),
            (self.no_sqarray, abi::SETUP_NO_SQARRAY),
        ]
        .into_iter()
        .filter_map(|(wanted, flags)| wanted.then_some(flags))
        .sum()
    }
}

/// What the loop does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// NOPs of one submission, at most as many as there are entries.
    pub batch: u32,
    /// What goes out with each.
    pub user_data: UserData,
    /// The whole entry is written, and every result and user data is compared.
    pub checked: bool,
}

/// What some rounds came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lap {
    /// NOPs handed to the kernel.
    pub submitted: u64,
    /// Completions taken.
    pub completed: u64,
    /// Completions of which result and user data were compared.
    pub checked: u64,
    /// Calls of io_uring_enter(2), or of what may make one.
    pub enters: u64,
}

/// How large the kernel made the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Submissions that fit.
    pub submissions: u32,
    /// Completions that fit.
    pub completions: u32,
}

/// Why rounds could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Trouble {
    /// A completion that does not belong to what was submitted.
    #[error("a completion came back with user data {user_data:#x} and result {result}, which was never submitted so")]
    Wrong {
        /// Its user data.
        user_data: u64,
        /// Its result.
        result: i32,
    },
    /// More completions than submissions.
    #[error("{came} completions came of {asked} that were due")]
    Invented {
        /// Those that were due.
        asked: u32,
        /// Those that were there.
        came: u32,
    },
    /// The kernel refused a call.
    #[error("io_uring_enter: {}", io::Error::from_raw_os_error(*errno))]
    Refused {
        /// Its error number.
        errno: i32,
    },
}

impl From<Wrong> for Trouble {
    fn from(Wrong { user_data, result }: Wrong) -> Trouble {
        Trouble::Wrong { user_data, result }
    }
}

/// A ring that runs rounds of NOPs.
pub trait NopRing {
    /// Runs so many rounds: each submits a batch and takes all its completions. The published loop takes none.
    ///
    /// # Errors
    ///
    /// A completion that is not what was submitted, or the kernel's refusal.
    fn run(&mut self, rounds: u64) -> Result<Lap, Trouble>;

    /// Runs so many rounds that take no completion: the queue overflows after a few.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    fn only_submit(&mut self, rounds: u64) -> Result<Lap, Trouble>;

    /// Whether completions wait in the kernel because the queue has no room for them.
    fn overflowed(&self) -> bool;

    /// Takes completions that were left, at most so many, and returns how many there were. Call it with what is
    /// due: it waits until that is there.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    fn take_rest(&mut self, most: u64) -> Result<u64, Trouble>;

    /// Plants a fault: from now on it expects other user data than it submits.
    fn misremember(&mut self);

    /// How large the kernel made the queues.
    fn shape(&self) -> Shape;
}

/// Makes a ring in the calling thread, which alone may use it.
///
/// # Errors
///
/// What this machine, or this build, lacks.
///
/// # Panics
///
/// If the batch is empty or exceeds the entries.
pub fn open(implementation: Implementation, setup: &Setup, terms: &Terms) -> Result<Box<dyn NopRing>, Lacking> {
    assert!(terms.batch >= 1 && terms.batch <= setup.entries, "a batch that fits the ring");
    let batch = terms.batch;
    match (implementation, terms.user_data, terms.checked) {
        (Implementation::Liburing, ..) => liburing(setup, terms, false),
        (Implementation::LiburingUndrained, ..) => liburing(setup, terms, true),
        (_, UserData::None, false) => ring(implementation, setup, batch, Bare),
        (_, UserData::None, true) => ring(implementation, setup, batch, Zero::default()),
        (_, UserData::Unique, false) => ring(implementation, setup, batch, Unique::<false>::new(batch)),
        (_, UserData::Unique, true) => ring(implementation, setup, batch, Unique::<true>::new(batch)),
        (_, UserData::Boxed, false) => ring(implementation, setup, batch, Boxed::<false>::new(batch)),
        (_, UserData::Boxed, true) => ring(implementation, setup, batch, Boxed::<true>::new(batch)),
    }
    .map_err(|lacking| lacking.of(setup))
}

fn ring<L: Ledger + 'static>(
    implementation: Implementation,
    setup: &Setup,
    batch: u32,
    ledger: L,
) -> Result<Box<dyn NopRing>, Lacking> {
    match implementation {
        Implementation::Library => Ok(Box::new(Library::open(setup, batch, ledger)?)),
        _ => Ok(Box::new(Raw::open(setup, batch, ledger)?)),
    }
}

#[cfg(liburing)]
fn liburing(setup: &Setup, terms: &Terms, undrained: bool) -> Result<Box<dyn NopRing>, Lacking> {
    Ok(Box::new(liburing::Liburing::open(setup, terms.batch, terms.user_data, terms.checked, undrained)?))
}

#[cfg(not(liburing))]
fn liburing(_: &Setup, _: &Terms, _: bool) -> Result<Box<dyn NopRing>, Lacking> {
    Err(Lacking::Liburing)
}

/// What the kernel's own threads have cost that submit for rings of the calling thread (SQPOLL), nanoseconds.
/// Absent without procfs. Read it before the ring goes, and they with it.
#[must_use]
pub fn helper_cpu_ns() -> Option<u64> {
    crate::uring::helper_cpu_ns()
}

/// The version of liburing that this was built with.
#[must_use]
pub fn liburing_version() -> Option<&'static str> {
    option_env!("BYTEGAUGE_LIBURING_VERSION")
}

/// A kernel's thread that finds nothing to submit sleeps after so many milliseconds.
const POLL_IDLE_MS: u32 = 2;

/// How often the completion queue is looked at before the kernel is asked to wait, where its thread submits: about
/// 50 µs, less than a wait costs if the thread has a CPU and more than it needs for a round.
const SPINS_MAX: u32 = 2_000;

/// Interrupted waits after which a round gives up: signals are how a watchdog asks for the end.
const INTERRUPTIONS_MAX: u32 = 16;

/// What is being done when a descriptor is registered.
const REGISTERING: &str = "registering a ring's descriptor";
