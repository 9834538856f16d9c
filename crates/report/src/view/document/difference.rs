//! The comparison of two subjects: the one type of `ab`, `compare`, `--against` and several sessions.

use bytegauge_stats::compare::{Comparison, ComparisonResult};
use schemars::JsonSchema;
use serde::Serialize;

/// How much longer the second subject takes than the first for the same work, and the result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SubjectDifference {
    /// The mean or median difference, as a share of the time of the faster one: 0.5 is one and a half times as long, −0.5 is
    /// the same for the first subject. `null` without a comparison.
    pub longer: Option<f64>,
    /// Lower end of its interval; `null` with too few blocks or sessions.
    pub lower: Option<f64>,
    /// Upper end.
    pub upper: Option<f64>,
    /// `worse`: the second takes longer by more than the margin. `better`: the first does. `equivalent`: neither does.
    /// `open`: none of these is significant.
    #[schemars(extend("enum" = ["worse", "better", "equivalent", "open"]))]
    pub verdict: &'static str,
}

impl SubjectDifference {
    /// The difference of a comparison, with its result.
    pub fn of(comparison: Option<&Comparison>, result: ComparisonResult) -> SubjectDifference {
        let share = |ln: f64| finite(longer(ln));
        SubjectDifference {
            longer: comparison.and_then(|comparison| share(comparison.difference)),
            lower: comparison.and_then(|comparison| share(comparison.lower)),
            upper: comparison.and_then(|comparison| share(comparison.upper)),
            verdict: name(result),
        }
    }
}

/// The name of a result.
pub fn name(result: ComparisonResult) -> &'static str {
    match result {
        ComparisonResult::Worse => "worse",
        ComparisonResult::Better => "better",
        ComparisonResult::Equivalent => "equivalent",
        ComparisonResult::Inconclusive => "open",
    }
}

/// A logarithm of costs as a share of the time of the faster one, with the sign of the slower one.
pub fn longer(ln: f64) -> f64 {
    if ln >= 0.0 { ln.exp_m1() } else { -(-ln).exp_m1() }
}

/// How much more time a difference of logarithms is, as a share; `None` for an interval without an end.
pub fn share(ln: f64) -> Option<f64> {
    finite(ln.exp_m1())
}

fn finite(share: f64) -> Option<f64> {
    Some(share).filter(|share| share.is_finite())
}
