//! The workload `ring`: operations that do nothing, through an io_uring, as fast as it goes.
//!
//! No path, no other end: one thread makes a ring, runs rounds on it, and closes it before anything else is measured.
//! What a round is, and the rings themselves, are in `sys::nop`; here they are timed and their counts are compared.

mod carry;
mod idle;

use bytegauge_model::{Implementation, Mode, RingFlags, UserData};
use bytegauge_sys::nop::{self, MissingRing};

use crate::fault::Fault;
use crate::setup::Setup;

pub(crate) use carry::carry;

/// What the loop of a ring does in a round.
fn nop_terms(setup: &Setup) -> nop::NopTerms {
    let checked = setup.mode() == Mode::Checked;
    nop::NopTerms { batch: setup.submit_batch(), user_data: user_data(setup.user_data()), checked }
}

/// What this machine, or this build, lacks for a ring of one implementation made in one way, with the next step:
/// asked before a plan is made.
pub fn lacks(implementation: Implementation, flags: RingFlags) -> Option<String> {
    let implementation = subject(implementation)?;
    let terms = nop::NopTerms { batch: 1, user_data: nop::UserData::None, checked: false };
    // In a thread of its own: a ring belongs to whoever made it.
    let open = move || nop::open(implementation, &nop_setup(1, flags), &terms).map(drop);
    match std::thread::Builder::new().spawn(open).map(std::thread::JoinHandle::join) {
        Ok(Ok(Err(lacking))) => Some(lacking.to_string()),
        // The first trial says that no thread can be made.
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

/// A machine that lacks something is a skip.
fn missing(lacking: &MissingRing) -> Fault {
    Fault::Missing(lacking.to_string())
}
