//! What a session that compares two adds to the document.

use std::collections::BTreeMap;

use bytegauge_model::CellId;
use schemars::JsonSchema;
use serde::Serialize;

/// Two subjects, and whether the second is worse.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VersusView {
    /// What there is now.
    pub a: VersusSideView,
    /// What may take its place.
    pub b: VersusSideView,
    /// What both have in common, for people; empty for programs.
    pub alike: String,
    /// What is compared: `time` for the same work, `cpu time` of it under an offered load, or the `events` that were
    /// counted meanwhile.
    pub cost: &'static str,
    /// The median difference by its sign: how much longer `b` takes for the same work, as a share; below 0 `a` takes
    /// longer, by so much of its own. `null` where nothing was compared.
    pub longer: Option<f64>,
    /// Lower end of its interval at `level`.
    pub lower: Option<f64>,
    /// Upper end of its interval.
    pub upper: Option<f64>,
    /// Blocks behind it, merged where neighbours depend on each other.
    pub blocks: usize,
    /// Confidence of the interval: of one look, so that all looks together keep 95 %.
    pub level: f64,
    /// The difference that matters, as a share.
    pub margin: f64,
    /// `worse`: b takes longer by more than the margin. `better`: a does. `equivalent`: neither does. `open`: none of these
    /// is shown.
    #[schemars(extend("enum" = ["worse", "better", "equivalent", "open"]))]
    pub verdict: &'static str,
    /// Why it is open, where more blocks would not decide it.
    pub why_open: Option<String>,
    /// The same in words.
    pub text: String,
}

/// One of the two.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VersusSideView {
    /// Its cell.
    pub cell: CellId,
    /// As it was given.
    pub words: String,
    /// What it has and the other has not, by factor, for people; empty for programs.
    pub differs: BTreeMap<String, String>,
    /// Trials behind its rate.
    pub trials: usize,
    /// The median of its rates; its unit and interval stand with its cell.
    pub rate: Option<f64>,
    /// CPU time of a run, a byte, a call or an operation, nanoseconds.
    pub cpu_ns: Option<f64>,
    /// Why it was not measured.
    pub reason: Option<String>,
}
