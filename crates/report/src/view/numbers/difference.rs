//! The comparison of two subjects: the one type of `ab`, `compare`, `--against` and several sessions.

use std::collections::BTreeMap;

use bytegauge_model::CellId;
use bytegauge_stats::compare::{Comparison, Verdict};
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
    /// `worse`: the second takes longer by more than the margin. `better`: it takes less time, perhaps by more than the margin.
    /// `equivalent`: it does not take longer by more than the margin. `open`: none of these is significant.
    pub verdict: Verdict,
}

impl SubjectDifference {
    /// The difference of a comparison, with its result.
    pub fn of(comparison: Option<&Comparison>, verdict: Verdict) -> SubjectDifference {
        let share = |ln: f64| finite(longer(ln));
        SubjectDifference {
            longer: comparison.and_then(|comparison| share(comparison.difference)),
            lower: comparison.and_then(|comparison| share(comparison.lower)),
            upper: comparison.and_then(|comparison| share(comparison.upper)),
            verdict,
        }
    }
}

/// A logarithm of costs as a share of the time of the faster one, with the sign of the slower one.
pub fn longer(ln: f64) -> f64 {
    if ln >= 0.0 { ln.exp_m1() } else { -(-ln).exp_m1() }
}

/// The share by which time changed: half the time is 50 % less, and the reverse is 100 % longer.
pub fn of_time(longer: f64) -> f64 {
    if longer < 0.0 { longer / (1.0 - longer) } else { longer }
}

/// How much more time a difference of logarithms is, as a share; `None` for an interval without an end.
pub fn share(ln: f64) -> Option<f64> {
    finite(ln.exp_m1())
}

fn finite(share: f64) -> Option<f64> {
    Some(share).filter(|share| share.is_finite())
}

/// Two subjects, and whether the second is worse.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VersusView {
    /// The current one.
    pub a: VersusSideView,
    /// The one that may replace it.
    pub b: VersusSideView,
    /// Their common levels, for people; empty for programs.
    pub alike: String,
    /// The compared quantity: `time` for the same work, its `cpu time` under an offered load or where time decides nothing and B
    /// uses more CPU, or the `events` counted meanwhile.
    pub cost: VersusCost,
    /// How much longer B takes than A, with the interval at `level`, and the result.
    #[serde(flatten)]
    pub difference: SubjectDifference,
    /// Blocks behind it; adjacent blocks that depend on each other are merged.
    pub blocks: usize,
    /// Confidence of the interval: of one analysis, so that all analyses together keep 95 %.
    pub level: f64,
    /// The difference that matters, as a share.
    pub margin: f64,
    /// Why it is open, if more blocks would not decide it; or the doubt that is left.
    pub why_open: Option<String>,
}

/// One of the two.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VersusSideView {
    /// Its cell.
    pub cell: CellId,
    /// As it was given.
    pub words: String,
    /// Its levels that the other does not have, by factor, for people; empty for programs.
    pub differs: BTreeMap<String, String>,
    /// Number of trials of its rate.
    pub trials: usize,
    /// Its rate, as the table has it: of the first the median, or that of all trials where it is another one; of the second, where time is
    /// compared, what follows from the first and the difference in pairs.
    pub rate: Option<f64>,
    /// Why it was not measured.
    pub reason: Option<String>,
}

/// The compared quantity of two subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VersusCost {
    /// Time for the same work.
    Time,
    /// CPU time for the same work.
    CpuTime,
    /// The p99 of the time of a call.
    P99,
    /// The p99 of the time between two parts of a reply.
    GapP99,
    /// The mean delay of urgent messages.
    Urgent,
    /// The events counted meanwhile.
    Events,
}

impl VersusCost {
    /// What is compared, in a sentence.
    pub fn noun(self) -> &'static str {
        match self {
            VersusCost::Time => "time",
            VersusCost::CpuTime => "CPU time",
            VersusCost::P99 => "p99",
            VersusCost::GapP99 => "gap p99",
            VersusCost::Urgent => "urgent delay",
            VersusCost::Events => "events",
        }
    }
}
