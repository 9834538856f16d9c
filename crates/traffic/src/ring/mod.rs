//! The workload `ring`: operations that do nothing, through an io_uring, as fast as it goes.
//!
//! No path, no other end: one thread makes a ring, runs rounds on it, and closes it before anything else is measured.
//! What a round is, and the rings themselves, are in `sys::nop`; here they are timed and their counts are compared.

mod carry;
mod idle;

use bytegauge_model::{Implementation, Mode, RingFlags, Spec, UserData};
use bytegauge_sys::nop::{self, MissingRing};
use serde::{Deserialize, Serialize};

use crate::fault::Fault;

pub(crate) use carry::carry;

/// What ring runs, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingSetup {
    /// Who drives the ring.
    pub implementation: Implementation,
    /// Submissions that fit.
    pub entries: u32,
    /// Operations of one submission.
    pub batch: u32,
    /// What goes out with each.
    pub user_data: UserData,
    /// How the ring is made.
    pub flags: RingFlags,
    /// What is asked of the loop.
    pub mode: Mode,
}

impl RingSetup {
    /// Resolves a cell's levels.
    ///
    /// # Errors
    /// [`Fault::Impossible`] if a level is missing or of the wrong kind: past planning, that is a bug.
    pub fn of(levels: &Spec) -> Result<RingSetup, Fault> {
        let number = |number: Option<u64>| number.and_then(|n| u32::try_from(n).ok());
        let missing = |name: &str| Fault::Impossible(format!("a ring without {name}"));
        let entries = number(levels.entries()).ok_or_else(|| missing("entries"))?;
        let batch = number(levels.submit_batch()).unwrap_or(entries);
        if batch == 0 || batch > entries {
            return Err(Fault::Impossible(format!("{batch} operations do not fit a ring of {entries}")));
        }
        Ok(RingSetup {
            implementation: levels.implementation().ok_or_else(|| missing("implementation"))?,
            entries,
            batch,
            user_data: levels.user_data().unwrap_or_default(),
            flags: levels.setup().unwrap_or_default(),
            mode: levels.mode().unwrap_or_default(),
        })
    }

    fn terms(&self) -> nop::NopTerms {
        nop::NopTerms { batch: self.batch, user_data: user_data(self.user_data), checked: self.mode == Mode::Checked }
    }
}

/// What this machine, or this build, lacks for a ring of one implementation made in one way, with the next step:
/// asked before a plan is made.
pub fn lacks(implementation: Implementation, flags: RingFlags) -> Option<String> {
    let implementation = subject(implementation)?;
    let terms = nop::NopTerms { batch: 1, user_data: nop::UserData::None, checked: false };
    // In a thread of its own: a ring belongs to whoever made it.
    let open = move || nop::open(implementation, &setup(1, flags), &terms).map(drop);
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

fn setup(entries: u32, flags: RingFlags) -> nop::NopSetup {
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

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_model::Level;

    fn levels(batch: Level) -> Spec {
        Spec::from([
            ("mode", "checked".into()),
            ("user_data", "none".into()),
            ("entries", 64.into()),
            ("submit_batch", batch),
            ("implementation", "io-uring".into()),
            ("setup", "single-issuer+registered".into()),
        ])
    }

    #[test]
    fn a_cell_resolves_and_survives_the_wire() {
        let setup = RingSetup::of(&levels(Level::auto())).unwrap();
        assert_eq!((setup.entries, setup.batch, setup.mode), (64, 64, Mode::Checked));
        assert!(setup.flags.single_issuer && setup.flags.registered && !setup.flags.sqpoll);
        let text = serde_json::to_string(&setup).unwrap();
        assert_eq!(serde_json::from_str::<RingSetup>(&text).unwrap(), setup);
    }

    #[test]
    fn a_batch_that_does_not_fit_is_impossible() {
        let error = RingSetup::of(&levels(Level::Number(65))).unwrap_err().to_string();
        assert_eq!(error, "65 operations do not fit a ring of 64");
    }
}
