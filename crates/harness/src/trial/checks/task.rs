//! Checks that a run of a program has a rate. The end itself has judged how it ended.

use bytegauge_model::{EndRole, Outcome};

use crate::trial::answers::Answers;

/// Whether there is a rate.
pub(in crate::trial) fn check_counts(answers: &Answers) -> Outcome {
    let rate = answers.report(EndRole::Command).and_then(|end| end.task.as_ref()).map(|task| task.rate);
    match rate {
        Some(rate) if rate.is_finite() && rate > 0.0 => Outcome::Measured,
        _ => Outcome::Failed("the run gave no number".into()),
    }
}
