//! What a run of a program must have come to. How it ended, the end has judged itself.

use bytegauge_model::{EndRole, Outcome};

use super::Answers;

/// Whether there is a rate.
pub(super) fn judge(answers: &Answers) -> Outcome {
    let rate = answers.report(EndRole::Command).and_then(|end| end.task.as_ref()).map(|task| task.rate);
    match rate {
        Some(rate) if rate.is_finite() && rate > 0.0 => Outcome::Measured,
        _ => Outcome::Failed("the run came to no number".into()),
    }
}
