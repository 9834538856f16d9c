//! Streams that load the path of calls while these are measured.
//!
//! They run in both directions over connections of their own, from before the first call until after the last one, and are
//! measured in a window of the same length. A trial whose load moved nothing fails: its calls were made on an idle path.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytegauge_model::{EndRole, Outcome};
use bytegauge_traffic::end::LATE;
use bytegauge_traffic::{EndPool, Setup};

use super::answers::Answers;
use super::checks::check_counts;
use super::script::{Script, WaitTimes};

/// The ends of a load that are open.
pub(super) struct PathLoad {
    setup: Setup,
    script: Script,
}

impl PathLoad {
    /// Opens the ends of the load of a trial; `None` without a load.
    pub(super) fn open(setup: &Setup, pool: &mut EndPool, patience: Duration) -> Result<Option<PathLoad>, Outcome> {
        let Some(setup) = setup.load().map_err(|fault| fault.outcome())? else { return Ok(None) };
        let script = Script::of(&setup);
        script.open(&setup, pool, patience).map_err(named)?;
        Ok(Some(PathLoad { setup, script }))
    }

    /// Its ends, in the order in which they are started.
    pub(super) fn roles(&self) -> impl Iterator<Item = EndRole> {
        self.script.roles()
    }

    /// Ends the load after the calls and adds its counts to theirs: the outcome of the trial, and whether the ends of the load can be
    /// used again. After calls that failed early, its window may be far from over: its ends are given up.
    pub(super) fn end(
        self,
        pool: &mut EndPool,
        patience: Duration,
        calls: &mut Answers,
        outcome: Outcome,
    ) -> (Outcome, bool) {
        if outcome != Outcome::Measured {
            return (outcome, false);
        }
        let PathLoad { setup, script } = self;
        let Some(load) =
            script.collect(pool, WaitTimes { window_ns: 0, due: LATE, patience }, &AtomicBool::new(false), &mut |_| {})
        else {
            return (outcome, false);
        };
        let of_load = load.trouble().unwrap_or_else(|| check_counts(&setup, &load));
        calls.by_role.extend(load.by_role);
        (named(of_load), true)
    }
}

/// The outcome of a trial of calls by that of its load.
fn named(of_load: Outcome) -> Outcome {
    let text = |reason: String| format!("the load of the path: {reason}");
    match of_load {
        Outcome::Measured => Outcome::Measured,
        Outcome::Skipped(reason) => Outcome::Skipped(text(reason)),
        Outcome::Failed(reason) => Outcome::Failed(text(reason)),
        Outcome::NothingMoved(reason) => Outcome::NothingMoved(text(reason)),
    }
}
