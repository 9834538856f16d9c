//! The workload `ring`: operations that do nothing, through an io_uring, as fast as possible.
//!
//! There is no path and no other end: one thread creates a ring, runs rounds on it, and closes it before the next measurement.
//! Rounds and rings are defined in `sys::uring_nop`; here they are timed and their counts are compared.

mod null_loop;
mod trial;

use bytegauge_model::{Implementation, Mode, RingFlags, UserData};
use bytegauge_sys::uring_nop::{self, MissingRing};

use crate::end_error::EndError;
use crate::setup::Setup;

pub(crate) use trial::carry;

/// The work of a ring's loop in a round.
fn nop_terms(setup: &Setup) -> uring_nop::NopTerms {
    let checked = setup.mode() == Mode::Checked;
    uring_nop::NopTerms { batch: setup.submit_batch(), user_data: user_data(setup.user_data()), checked }
}

/// The requirement of a ring with this implementation and set-up that this machine, or this build, lacks, if any, with the next
/// step; checked before a plan is made.
pub fn missing_requirement(implementation: Implementation, flags: RingFlags) -> Option<String> {
    let implementation = subject(implementation)?;
    let terms = uring_nop::NopTerms { batch: 1, user_data: uring_nop::UserData::None, checked: false };
    // In a thread of its own: a ring belongs to the thread that creates it.
    let open = move || uring_nop::open(implementation, &nop_setup(1, flags), &terms).map(drop);
    match std::thread::Builder::new().spawn(open).map(std::thread::JoinHandle::join) {
        Ok(Ok(Err(lacking))) => Some(lacking.to_string()),
        // The first trial reports that no thread can be created.
        _ => None,
    }
}

/// The rings that `sys` makes; none for the loop without one.
fn subject(implementation: Implementation) -> Option<uring_nop::Implementation> {
    Some(match implementation {
        Implementation::Raw => uring_nop::Implementation::Raw,
        Implementation::IoUring => uring_nop::Implementation::Library,
        Implementation::Liburing => uring_nop::Implementation::Liburing,
        Implementation::LiburingUndrained => uring_nop::Implementation::LiburingUndrained,
        Implementation::Null => return None,
    })
}

fn nop_setup(entries: u32, flags: RingFlags) -> uring_nop::NopSetup {
    let RingFlags { single_issuer, coop, sqpoll, no_sqarray, registered } = flags;
    uring_nop::NopSetup { entries, single_issuer, coop, sqpoll, no_sqarray, registered }
}

fn user_data(kind: UserData) -> uring_nop::UserData {
    match kind {
        UserData::None => uring_nop::UserData::None,
        UserData::Unique => uring_nop::UserData::Unique,
        UserData::Boxed => uring_nop::UserData::Boxed,
    }
}

/// A missing requirement of the machine is a skip.
fn missing(lacking: &MissingRing) -> EndError {
    EndError::Missing(lacking.to_string())
}
