//! How the tests of this folder carry one trial.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use bytegauge_harness::trial::{TrialResult, measure};
use bytegauge_model::Ends;
use bytegauge_traffic::{EndPool, Setup};

/// One trial; with a longer window where a busy machine kept an end from running in this one.
pub fn run(setup: &Setup) -> TrialResult {
    run_until(setup, |_| true)
}

/// One trial; with a longer window where a busy machine kept it from showing what the test is about.
pub fn run_until(setup: &Setup, shows: impl Fn(&TrialResult) -> bool) -> TrialResult {
    let mut setup = setup.clone();
    loop {
        let mut pool = EndPool::new(Ends::Threads, Path::new("unused"));
        let measured = measure(&mut pool, &setup, &AtomicBool::new(false)).unwrap();
        if (!is_short(&measured) && shows(&measured)) || setup.window_ns > 2_000_000_000 {
            return measured;
        }
        setup.window_ns *= 4;
    }
}

/// Whether a busy machine kept an end from running in the window.
pub fn is_short(measured: &TrialResult) -> bool {
    measured.outcome.reason().is_some_and(|reason| reason.contains("use a longer --trial-time"))
}

/// Whether no engine was kept from its mode: on a busy machine nothing may be there at once, which some modes need to show
/// themselves, and on a quiet one nothing may have to wait.
pub fn in_mode(measured: &TrialResult) -> bool {
    measured.outcome.reason().is_none_or(|reason| !reason.contains("did not run in its mode"))
}
