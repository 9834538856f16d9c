//! Checks of a ring's counts. The end itself has checked that all submissions completed.

use bytegauge_model::{EndRole, Implementation, Outcome};
use bytegauge_traffic::Setup;

use crate::trial::answers::Answers;

/// Whether anything was counted: completions, or the submissions of a loop that takes none.
pub(in crate::trial) fn check_counts(setup: &Setup, answers: &Answers) -> Outcome {
    let counted = answers.report(EndRole::Ring).and_then(|end| Some((end.window_ns, end.calls, end.ring.as_deref()?)));
    let Some((window_ns, completed, ring)) = counted else {
        return Outcome::Failed("the ring reported nothing".into());
    };
    let units = if setup.implementation() == Implementation::LiburingUndrained { ring.submitted } else { completed };
    if units == 0 || window_ns == 0 {
        return Outcome::NothingMoved(
            "nothing was completed within the window (the thread was kept from running): use a longer --trial-time"
                .into(),
        );
    }
    Outcome::Measured
}
