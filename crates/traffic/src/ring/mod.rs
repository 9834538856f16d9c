//! The workload `ring`: operations that do nothing, through an io_uring, as fast as possible.
//!
//! There is no path and no other end: one thread creates a ring, runs rounds on it, and closes it before the next measurement.
//! Rounds and rings are defined in `sys::nop`; here they are timed and their counts are compared.

mod carry;
mod idle;

use bytegauge_model::{Implementation, Mode, RingFlags, UserData};
use bytegauge_sys::nop::{self, MissingRing};

use crate::end_error::EndError;
use crate::setup::Setup;

pub(crate) use carry::carry;

/// The work of a ring's loop in a round.
fn nop_terms(setup: &Setup) -> nop::NopTerms {
    let checked = setup.mode() == Mode::Checked;
    nop::NopTerms { batch: setup.submit_batch(), user_data: user_data(setup.user_data()), checked }
}

/// The requirement of a ring with this implementation and set-up that this machine, or this build, lacks, if any, with the next
/// step; checked before a plan is made.
pub fn missing_requirement(implementation: Implementation, flags: RingFlags) -> Option<String> {
    let implementation = subject(implementation)?;
    let terms = nop::NopTerms { batch: 1, user_data: nop::UserData::None, checked: false };
    // In a thread of its own: a ring belongs to the thread that creates it.
    let open = move || nop::open(implementation, &nop_setup(1, flags), &terms).map(drop);
    match std::thread::Builder::new().spawn(open).map(std::thread::JoinHandle::join) {
        Ok(Ok(Err(lacking))) => Some(lacking.to_string()),
        // The first trial reports that no thread can be created.
        _ => None,
    }
}

/// The rings that `sys` makes; none for the loop without one.
fn subject(implementation: Implementation) -> Option<nop::Implementation> {
    Some(match implementation {
        Implementation::Raw => nop::Implementation::Raw,
        Implementation::IoUring => nop::Implementation::Library,
        Implementation::Liburing => nop::Implementation::Liburing,
        Implementation::LiburingUndrained => nop::Implementation::LiburingUndrained,
        Implementation::Null => return None,
    })
}

fn nop_setup(entries: u32, flags: RingFlags) -> nop::NopSetup {
    let RingFlags { single_issuer, coop, sqpoll, no_sqarray, registered } = flags;
    nop::NopSetup { entries, single_issuer, coop, sqpoll, no_sqarray, registered }
}

fn user_data(kind: UserData) -> nop::UserData {
    match kind {
        UserData::None => nop::UserData::None,
        UserData::Unique => nop::UserData::Unique,
        UserData::Boxed => nop::UserData::Boxed,
    }
}

/// A missing requirement of the machine is a skip.
fn missing(lacking: &MissingRing) -> EndError {
    EndError::Missing(lacking.to_string())
}
